"""What of the corpora and of known benchmarks is answered, and how well."""

"""`make bench-peers`: other systems on the same rows at the same (epsilon, delta), in environments of their own."""

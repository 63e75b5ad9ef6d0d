"""What is measured of each selected group: counts and sums, totals, quantiles, different values."""

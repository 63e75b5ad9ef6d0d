"""Sums over households by other libraries, under the guarantee that ours has: one row a household, so that a row is a
unit everywhere."""

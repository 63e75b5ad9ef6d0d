"""Benchmarks: the papers' results again, and what others do, for comparison only."""

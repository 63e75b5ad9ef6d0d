"""Scalar expressions as each engine writes them."""

"""Spark: a cluster, by Spark Connect."""

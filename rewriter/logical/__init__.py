"""The split at the DP boundary: aggregate nodes below, presentation above."""

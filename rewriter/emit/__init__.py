"""A node as the SQL of one engine."""

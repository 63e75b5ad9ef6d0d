"""A PostgreSQL process of our own."""

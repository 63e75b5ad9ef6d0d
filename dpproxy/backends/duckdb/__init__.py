"""DuckDB: a file, in this process."""

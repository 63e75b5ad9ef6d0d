"""PostgreSQL: a server, by a role that only reads."""

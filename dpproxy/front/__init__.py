"""The PostgreSQL that clients talk to: a clone of the schema, which describes statements and presents answers."""

"""A first dpproxy.toml, proposed from the schema."""

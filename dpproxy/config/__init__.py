"""dpproxy.toml as frozen sections."""

"""What observers are told; never data."""

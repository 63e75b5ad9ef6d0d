"""Events for observers; never data."""

"""The configuration bound to a backend's schema: the policy."""

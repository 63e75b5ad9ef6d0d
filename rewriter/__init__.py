"""Rewriting: a client's SQL and the owner's policy -> what to ask the backend, what to show in the front."""

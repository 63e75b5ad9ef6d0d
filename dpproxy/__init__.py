"""dpproxy: a SQL privacy proxy. PostgreSQL clients ask, differentially private answers come back."""

__version__ = "0.1.0"

"""dpproxy: a SQL privacy proxy. PostgreSQL clients ask, differentially private answers come back."""

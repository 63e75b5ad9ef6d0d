"""Sockets, logins, and a session for each."""

"""Rows and plots for people."""

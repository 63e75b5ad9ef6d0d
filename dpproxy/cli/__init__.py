"""Entry points: arguments and exit codes."""

"""`python -m dpproxy`."""

from dpproxy.cli.app import app

if __name__ == "__main__":
    app(prog_name="dpproxy")

"""The owner's console: pages about accounts, releases and limits behind a login, and what monitoring asks for."""

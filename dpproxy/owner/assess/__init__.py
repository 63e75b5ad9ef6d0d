"""How well the proxy would fit: the owner's statements tested against policy and data before deployment."""

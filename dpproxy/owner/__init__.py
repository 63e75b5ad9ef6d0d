"""What the data owner may ask: check, advise, assess, init, accounts."""

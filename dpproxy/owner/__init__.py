"""The data owner's functions: check, advise, assess, init, accounts."""

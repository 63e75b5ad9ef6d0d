"""How well the proxy would fit: the owner's statements held against policy and data, before anybody asks one."""

"""How each engine writes queries and expressions: a file each, over what they share."""

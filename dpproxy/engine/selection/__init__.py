"""Which groups of a node are released: all cells, or those that a mechanism finds."""

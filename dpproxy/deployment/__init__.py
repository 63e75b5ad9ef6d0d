"""Everything started in order, for one process or many."""

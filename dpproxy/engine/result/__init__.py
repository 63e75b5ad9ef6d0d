"""What an answer is made of: the released table, columns that are computed from it, and arrays for the front."""

"""One text for equal questions."""

"""Types of expressions, and which of them private rows may be computed by."""

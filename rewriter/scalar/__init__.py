"""Types of expressions, and which expressions are allowed on private rows."""

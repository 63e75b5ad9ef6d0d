"""Text to a tree that is allowed, without sugar, and back."""

"""How far answers are off, question by question: docs/accuracy.md."""

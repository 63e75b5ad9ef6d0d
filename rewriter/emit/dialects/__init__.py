"""What each engine's SQL can say."""

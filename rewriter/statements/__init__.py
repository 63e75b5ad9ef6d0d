"""What kind of statement a text is, by its tokens alone."""

"""Archives of captured octets, and of journals, as messages of 1.0 or canonical rows."""

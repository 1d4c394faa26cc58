"""Sessions between a recording adapter and the real broker."""

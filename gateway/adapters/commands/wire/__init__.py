"""Generated records, layouts and tables of the command frames of 0.8a2."""

"""Reads and keeps the journal of a data directory: entries in the store, and sealed segments."""

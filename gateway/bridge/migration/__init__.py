"""Moves of whole queues with a journal, their rollback, and the comparison of two sides."""

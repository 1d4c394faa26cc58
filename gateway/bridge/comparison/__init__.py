"""Compares queues of two sides of a migration: counts, order, content, classes of difference."""

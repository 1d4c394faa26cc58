"""Compares what two sides of a migration hold: counts, order, content, classes of difference."""

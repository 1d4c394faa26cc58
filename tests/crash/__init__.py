"""The process killed at any moment."""

"""Conversion of messages between the legacy versions and 1.0: natural for the reader, and
reversible without loss."""

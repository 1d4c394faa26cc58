"""Backups of a data directory, which a gateway may be using, and their restoring.

A backup is a directory with the same files as a data directory, and with ``manifest.json``, which
is written last.
"""

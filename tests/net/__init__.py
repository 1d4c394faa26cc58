"""Sockets on loopback against the real process."""

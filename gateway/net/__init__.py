"""Sockets, timers and TLS around the sans-I/O rooms below."""

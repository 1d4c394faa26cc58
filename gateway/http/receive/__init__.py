"""Receiving over HTTP: leases, looking without taking, dead letters, and request with reply."""

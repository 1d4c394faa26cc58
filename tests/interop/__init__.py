"""Proof by strangers: clients and brokers nobody here wrote."""

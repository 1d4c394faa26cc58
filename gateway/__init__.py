"""One gateway for every AMQP ever published, and HTTP."""

__version__ = "0.1.0"
"""The only place that states the version: packaging, command line, protocols and API read it."""

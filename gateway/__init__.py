"""One gateway for every AMQP ever published, and HTTP."""

__version__ = "0.1.0"

"""AMQP 0.8a2: command frames."""

from gateway.adapters.commands.engine import Engine

__all__ = ["Engine"]

"""AMQP 0.8a2: command frames."""

from gateway.adapters.v0_8a.engine import Engine

__all__ = ["Engine"]

"""Adapters: bytes <-> operations, one per protocol connection, without sockets or clocks."""

from typing import Any

from gateway.adapters.base import Adapter, Role
from gateway.adapters.options import Credentials, Limits, Product
from gateway.adapters.v0_9 import Engine
from gateway.adapters.v0_9.wire.tables import VERSIONS as V0_9

ENGINES: dict[str, type[Engine]] = dict.fromkeys(V0_9, Engine)
"""Versions by name, oldest first, and the engine that speaks them."""


def adapter_for(version: str, role: Role, **options: Any) -> Adapter:
    """An adapter for one connection. Options as in the engine's constructor. Raises ``KeyError``
    for a version that is not spoken."""
    return ENGINES[version](version, role, **options)


__all__ = ["ENGINES", "Adapter", "Credentials", "Limits", "Product", "Role", "adapter_for"]

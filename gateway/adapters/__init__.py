"""Adapters: bytes <-> operations, one per protocol connection, without sockets or clocks."""

from typing import Any

from gateway.adapters.base import Adapter, Role
from gateway.adapters.options import Credentials, Limits, Product
from gateway.adapters.v0_8a.engine import Engine as V0_8A
from gateway.adapters.v0_8a.wire.tables import VERSION as VERSION_0_8A
from gateway.adapters.v0_9.drafts.engine import DraftEngine
from gateway.adapters.v0_9.drafts.versions import DRAFTS
from gateway.adapters.v0_9.engine import Engine as V0_9
from gateway.adapters.v0_9.wire.tables import VERSIONS
from gateway.adapters.v1_0.engine import Engine as V1_0
from gateway.adapters.v1_0.wire.tables import VERSION

ENGINES: dict[str, type[Any]] = {
    VERSION_0_8A: V0_8A,
    **dict.fromkeys(DRAFTS, DraftEngine),
    **dict.fromkeys(VERSIONS, V0_9),
    VERSION: V1_0,
}
"""Versions by name, oldest first, and the engine that speaks them."""


def adapter_for(version: str, role: Role, **options: Any) -> Adapter:
    """An adapter for one connection. Options as in the engine's constructor. Raises ``KeyError``
    for a version that is not spoken."""
    adapter: Adapter = ENGINES[version](version, role, **options)
    return adapter


__all__ = ["ENGINES", "Adapter", "Credentials", "Limits", "Product", "Role", "adapter_for"]

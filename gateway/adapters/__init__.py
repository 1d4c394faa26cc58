"""Adapters: bytes <-> operations, one per protocol connection, without sockets or clocks."""

from collections.abc import Callable
from typing import Any, Protocol

from gateway.adapters.base import Adapter, Authority, Role
from gateway.adapters.options import Credentials, Limits, Product
from gateway.adapters.v0_8a.engine import Engine as V0_8A
from gateway.adapters.v0_8a.wire.tables import VERSION as VERSION_0_8A
from gateway.adapters.v0_9.drafts.engine import DraftEngine
from gateway.adapters.v0_9.drafts.versions import DRAFTS
from gateway.adapters.v0_9.engine import Engine as V0_9
from gateway.adapters.v0_9.wire.tables import VERSIONS
from gateway.adapters.v1_0.engine import Engine as V1_0
from gateway.adapters.v1_0.wire.tables import VERSION
from gateway.bodies import Spool


class Engine(Protocol):
    """The class of an adapter, and the options that all of them know. Whether each class below
    keeps this, and the contract of ``Adapter``, is for mypy to see."""

    def __call__(
        self,
        version: str,
        role: Role,
        *,
        authority: Authority | None = ...,
        limits: Limits = ...,
        credentials: Credentials | None = ...,
        product: Product = ...,
        external_subject: str | None = ...,
        mechanisms: tuple[str, ...] = ...,
        wake: Callable[[], None] = ...,
        spool: Spool | None = ...,
    ) -> Adapter: ...


ENGINES: dict[str, Engine] = {
    VERSION_0_8A: V0_8A,
    **dict.fromkeys(DRAFTS, DraftEngine),
    **dict.fromkeys(VERSIONS, V0_9),
    VERSION: V1_0,
}
"""Versions by name, oldest first, and the engine that speaks them."""


def adapter_for(version: str, role: Role, **options: Any) -> Adapter:
    """An adapter for one connection. Options as in the engine's constructor. Raises ``KeyError``
    for a version that is not spoken."""
    return ENGINES[version](version, role, **options)


__all__ = ["ENGINES", "Adapter", "Credentials", "Limits", "Product", "Role", "adapter_for"]

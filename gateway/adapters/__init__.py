"""Adapters: bytes <-> operations, one per protocol connection, without sockets or clocks."""

from gateway.adapters.contract import Adapter, Capability, Role
from gateway.adapters.options import Credentials, Limits, Product
from gateway.adapters.registry import VERSIONS, adapter_for

__all__ = [
    "VERSIONS",
    "Adapter",
    "Capability",
    "Credentials",
    "Limits",
    "Product",
    "Role",
    "adapter_for",
]

"""Recognizes programs of this machine that connect on their own behalf, as some users must.

One rule for HTTP and WebSockets. A loopback address is not enough there: a proxy may forward the
requests of others, and so may a browser, for a page whose name points here (DNS rebinding).
"""

from collections.abc import Mapping
from functools import lru_cache
from ipaddress import ip_address
from typing import Any

LOCAL = "local"
"""The peer of a Unix socket, which has no address."""
PROXIED = frozenset({b"forwarded", b"x-forwarded-for", b"x-real-ip", b"via"})


@lru_cache(4096)
def is_loopback(host: str) -> bool:
    """Whether an address, as the socket gives it, is a loopback address."""
    try:
        address = ip_address(host)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback


def name_of(host: str) -> str:
    """The name or address in a ``Host`` field, without the port."""
    name = host.rsplit(":", 1)[0] if not host.endswith("]") else host
    return name.strip("[]").lower().rstrip(".")


@lru_cache(1024)
def is_local_name(host: str) -> bool:
    """Whether a ``Host`` is localhost or a loopback address. A name of the DNS is not, so that a
    page whose name points here (DNS rebinding) is not taken for a local program."""
    name = name_of(host)
    return name == "localhost" or name.endswith(".localhost") or is_loopback(name)


@lru_cache(1024)
def is_address(host: str) -> bool:
    """Whether a ``Host`` is an address, which cannot be pointed elsewhere."""
    try:
        ip_address(name_of(host))
    except ValueError:
        return False
    return True


def peer_is_loopback(scope: Mapping[str, Any]) -> bool:
    """Whether a request comes from a program of this machine on its own behalf. A Unix socket has
    no peer address and is local; a request that a proxy on this machine passes on is not."""
    return is_own_request(scope, dict(scope["headers"]))


def is_own_request(scope: Mapping[str, Any], fields: Mapping[bytes, bytes]) -> bool:
    """As ``peer_is_loopback``, with the fields of the request by name."""
    client = scope.get("client")
    if client is not None and not is_loopback(client[0]):
        return False
    host = fields.get(b"host")
    if not PROXIED.isdisjoint(fields):
        return False
    return not host or is_local_name(host.decode("latin-1"))

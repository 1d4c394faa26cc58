"""Detects the protocol of a new connection from its first octets. Pure: nothing is consumed.

Eight octets do not always decide: the drafts of 2005 open with 0-9's header, so each listener has a
table of versions by header.
"""

from typing import NamedTuple

from gateway.adapters.commands.wire import tables as commands
from gateway.adapters.performatives.wire.tables import HEADER as PLAIN_1_0
from gateway.adapters.performatives.wire.tables import SASL_HEADER as SASL_1_0
from gateway.adapters.registry import VERSIONS, HeaderMeanings, header_meanings

FALLBACK = VERSIONS["0-9-1"].headers[0]
"""Answer to a header of no version that we know, before the connection is closed."""

TLS_HANDSHAKE = 0x16
"""First octet of a TLS handshake (RFC 8446 §5.1)."""

HTTP_METHODS = (
    b"GET ", b"HEAD ", b"POST ", b"PUT ", b"DELETE ", b"PATCH ", b"OPTIONS ", b"CONNECT ",
    b"TRACE ", b"PRI * HTTP/2",
)  # fmt: skip


class Detected(NamedTuple):
    """``protocol`` is "amqp", "tls", "http" or "unknown"; ``version`` names an AMQP version;
    ``answer`` is written before a connection of an unknown protocol is closed."""

    protocol: str
    version: str = ""
    answer: bytes = b""


DEFAULT = header_meanings()


def detect(data: bytes, meanings: HeaderMeanings = DEFAULT) -> Detected | None:
    """The protocol that these octets begin; ``None`` while more are needed."""
    if not data:
        return None
    if data[0] == TLS_HANDSHAKE:
        return Detected("tls")
    if data[0] == commands.HEADER[0]:
        # The next octet is the highest version of the client (0.8a2 §3.2.2); 1 is the lowest.
        if len(data) < 2:
            return None
        return Detected("amqp", commands.VERSION) if data[1] else Detected("unknown")
    head = data[:8]
    version = meanings.versions.get(head)
    if version is not None:
        return Detected("amqp", version)
    if len(head) < 8 and any(known.startswith(head) for known in meanings.versions):
        return None
    if data.startswith(HTTP_METHODS):
        return Detected("http")
    if any(method.startswith(data) for method in HTTP_METHODS):
        return None
    if len(head) < 8 and b"AMQP"[: len(head)] == head[:4]:
        return None  # even an unknown header is answered after all its octets
    if meanings.silent and (head[:4] != b"AMQP" or head[4:6] == b"\x01\x01"):
        # The drafts close without a reply (0-9a0 §3.2.2, 0-9a6 "Protocol and Version").
        return Detected("unknown")
    return Detected("unknown", "", nearest(head))


def nearest(head: bytes) -> bytes:
    """The header that we answer with: the highest version that is not above the requested one, if
    the protocol is known (1.0 §2.2); another layer of 1.0 for one that we do not have."""
    if head[:4] != b"AMQP" or head[5] == 0:
        return FALLBACK
    if head[4] == 0:
        return PLAIN_1_0
    return SASL_1_0 if head[4] in (2, 3) else FALLBACK

"""Which protocol a new connection speaks, from its first octets. Pure: nothing is consumed.

Eight octets do not always decide: the drafts of 2005 open with 0-9's header, so each listener has a
table of what headers mean there.
"""

from typing import NamedTuple

from gateway.adapters.commands.wire.tables import VERSION as VERSION_0_8A
from gateway.adapters.registry import HeaderMeanings, header_meanings

PREFERRED = b"AMQP\x00\x00\x09\x01"
"""What we answer to a header we do not speak, before hanging up."""

PLAIN_1_0 = b"AMQP\x00\x01\x00\x00"
SASL_1_0 = b"AMQP\x03\x01\x00\x00"
TLS_1_0 = b"AMQP\x02\x01\x00\x00"
"""The three layers of 1.0 (§2.2, §5.2, §5.3). TLS is for the listener to begin, before an adapter
sees anything."""

COMMANDS = 0x80
"""0.8a2 (§3.2.2): an octet for the protocol, and one for the highest version that the client can
handle. We answer with the highest of ours, which is the lowest there is: 1."""

TLS = 0x16
METHODS = (
    b"GET ", b"HEAD ", b"POST ", b"PUT ", b"DELETE ", b"PATCH ", b"OPTIONS ", b"CONNECT ",
    b"TRACE ", b"PRI * HTTP/2",
)  # fmt: skip


class Detected(NamedTuple):
    """``protocol`` is "amqp", "tls", "http" or "unknown"; ``version`` names an AMQP version;
    ``answer`` is to be written before hanging up on an unknown protocol."""

    protocol: str
    version: str = ""
    answer: bytes = b""


DEFAULT = header_meanings()


def detect(data: bytes, meanings: HeaderMeanings = DEFAULT) -> Detected | None:
    """What these first octets begin; ``None`` while more are needed to tell."""
    if not data:
        return None
    if data[0] == TLS:
        return Detected("tls")
    if data[0] == COMMANDS:
        if len(data) < 2:
            return None
        return Detected("amqp", VERSION_0_8A) if data[1] else Detected("unknown")
    head = data[:8]
    version = meanings.versions.get(head)
    if version is not None:
        return Detected("amqp", version)
    if len(head) < 8 and any(known.startswith(head) for known in meanings.versions):
        return None
    if any(data.startswith(method) for method in METHODS):
        return Detected("http")
    if any(method.startswith(data) for method in METHODS):
        return None
    if len(head) < 8 and b"AMQP"[: len(head)] == head[:4]:
        return None  # a header of ours or not, all eight octets are due before the answer
    if meanings.silent and (head[:4] != b"AMQP" or head[4:6] == b"\x01\x01"):
        # The drafts close without a word (0-9a0 §3.2.2, 0-9a6 "Protocol and Version").
        return Detected("unknown")
    return Detected("unknown", "", nearest(head))


def nearest(head: bytes) -> bytes:
    """What we speak instead: the highest version that is not above the one asked for, where the
    protocol is known (1.0 §2.2); a layer that stands if another was asked for."""
    if head[:4] != b"AMQP" or head[5] == 0:
        return PREFERRED
    if head[4] == 0:
        return PLAIN_1_0
    return SASL_1_0 if head[4] in (2, 3) else PREFERRED

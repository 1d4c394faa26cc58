"""Which protocol a new connection speaks, from its first octets. Pure: nothing is consumed.

Eight octets do not always decide: the drafts of 2005 open with 0-9's header, so the listener may
say what ``AMQP 1 1 0 9`` stands for.
"""

from typing import NamedTuple

PREFERRED = b"AMQP\x00\x00\x09\x01"
"""What we answer to a header we do not speak, before hanging up."""

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


HEADERS: dict[bytes, str] = {
    b"AMQP\x00\x00\x09\x01": "0-9-1",
    b"AMQP\x01\x01\x00\x09": "0-9",
    b"AMQP\x01\x01\x08\x00": "0-8",
    b"AMQP\x01\x01\x09\x01": "0-8",  # python amqplib
}

UNKNOWN = Detected("unknown", "", PREFERRED)


def detect(data: bytes, header_0_9: str = "0-9") -> Detected | None:
    """What these first octets begin; ``None`` while more are needed to tell."""
    if not data:
        return None
    if data[0] == TLS:
        return Detected("tls")
    head = data[:8]
    version = HEADERS.get(head)
    if version is not None:
        return Detected("amqp", header_0_9 if version == "0-9" else version)
    if len(head) < 8 and any(known.startswith(head) for known in HEADERS):
        return None
    if any(data.startswith(method) for method in METHODS):
        return Detected("http")
    if any(method.startswith(data) for method in METHODS):
        return None
    if len(head) < 8 and b"AMQP"[: len(head)] == head[:4]:
        return None  # a header of ours or not, all eight octets are due before the answer
    return UNKNOWN

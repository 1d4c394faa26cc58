"""Notes of shovels on messages, and how they recognise one."""

import hashlib

from gateway.crossing.natural import restore_encoded
from gateway.message import Message, Properties

HOPS = "x-gateway-hops"
"""Header with the number of shovels that a message has passed."""
_HOPS = HOPS.encode()


def hops_of(message: Message) -> int:
    """How many shovels the message has passed. The count is a header, or an annotation of 1.0,
    which the other versions have encoded in a header."""
    if _HOPS not in message.header and not message.added_headers:
        return 0
    try:
        properties = message.properties
        headers = dict(properties.application or {})
        annotations = dict(properties.annotations or {})
        restore_encoded(headers, annotations, Properties())
    except ValueError:
        return 0
    found = headers.get(HOPS, annotations.get(HOPS, 0))
    return int(found) if isinstance(found, int) else 0


def digest_of(message: Message) -> bytes:
    """The same for the same message, however often it comes."""
    digest = hashlib.blake2b(message.header, digest_size=16)
    digest.update(f"{message.exchange}\0{message.key}\0{len(message.body)}\0".encode())
    digest.update(bytes(message.body[: 1 << 16]))
    return digest.digest()

"""Client role: messages that arrive over links, and the small messages of our own requests."""

from typing import Any

from gateway.adapters.core.bounded_cache import BoundedCache
from gateway.adapters.performatives.composites import write
from gateway.adapters.performatives.content import SECTIONS
from gateway.adapters.performatives.encoding import write_value
from gateway.adapters.performatives.sections import HEADER, RAW_VALUE, part, read_header
from gateway.message import Essentials, Message, Properties

_TRANSPORT = b"\x00\x53\x70"

_SEEN: BoundedCache[bytes, tuple[Essentials, bool]] = BoundedCache()
"""Essentials of each header, and whether it is a redelivery. All connections share the cache."""


def received(octets: bytes, exchange: str, key: str) -> tuple[Message, bool]:
    """The message in these octets, and whether it was delivered before. Raises ``FieldError``.
    Hot."""
    header, body = part(octets)
    seen = _SEEN.get(header)
    if seen is None:
        seen = _SEEN.keep(header, (SECTIONS.essentials(header), _again(header)))
    return Message(SECTIONS, header, body, exchange, key, seen[0]), seen[1]


def _again(header: bytes) -> bool:
    """Whether the header section marks a redelivery (§3.2.1). Without the fields it counts as a
    first delivery: no sender marks those."""
    if _TRANSPORT not in header:
        return False
    transport = read_header(header)[0].get(HEADER)
    if transport is None:
        return False
    return transport.first_acquirer is False or bool(transport.delivery_count)


def coordinator_message(value: Any) -> Message:
    """A message to a coordinator: an amqp-value section with a record (§4.2, §4.3)."""
    return Message(
        SECTIONS, RAW_VALUE, b"\x00\x53\x77" + write(value), "", "", SECTIONS.essentials(b"")
    )


def management_request(properties: Properties, value: Any) -> Message:
    """A message with a value for its body, which may be null."""
    header = SECTIONS.write(properties)
    body = b"\x00\x53\x77" + write_value(value)
    return Message(SECTIONS, RAW_VALUE + header, body, "", "", SECTIONS.essentials(header))

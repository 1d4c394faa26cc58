"""The identity of a message on its way from one broker to another, and the notes of a move.

A digest is the same for the same message each time its broker delivers it: what a broker changes
between two deliveries (delivery count, what is left of the time to live) does not count.
"""

import hashlib
from typing import Any, NamedTuple

from gateway.adapters.methods.content import BASIC
from gateway.bridge.notes import HOPS
from gateway.crossing.natural import OUR_ORIGIN, restore_encoded
from gateway.message import UNFORESEEN, Message, Properties, Table

NOTE = "x-gateway-move"
"""Header (in 1.0 a message annotation) with the place of a message in a move: the name of the move,
the number of the queue, and the number of the message."""
AGAIN = "x-gateway-move-again"
"""Header of a message that the move may have published before."""
COPY = "x-gateway-copy"
"""Header of a copy of a message that is at another broker, with their common id."""
COPIED = "x-gateway-copied"
"""Header of a message that has such a copy, with that id."""
COUNT = "x-delivery-count"
NOTES = frozenset({NOTE, AGAIN, COPY, COPIED, HOPS, OUR_ORIGIN, "x-opt-gateway-origin"})
VOLATILE = ("delivery_count", "first_acquirer", "ttl", "delivery_annotations")
"""Properties that a broker changes between two deliveries."""
_COUNT = COUNT.encode()
_PART = 1 << 20


class Origin(NamedTuple):
    """The place of a message in a move."""

    move: str
    queue: int
    number: int

    def __str__(self) -> str:
        return f"{self.move}/{self.queue}/{self.number}"


class Identity(NamedTuple):
    """``id`` is the message-id, "" if it has none."""

    digest: bytes
    id: str


def identify(message: Message) -> Identity:
    """The identity of a delivered message."""
    digest = hashlib.blake2b(f"{message.exchange}\0{message.key}\0".encode(), digest_size=16)
    try:
        properties = message.properties
    except (ValueError, *UNFORESEEN):
        properties = Properties()
        digest.update(message.header)
    else:
        if message.dialect is BASIC and _COUNT not in message.header:
            digest.update(message.header)
        else:
            digest.update(repr(lasting(properties)).encode("utf-8", "backslashreplace"))
    message.forget_properties()
    add_body(digest, message)
    found = properties.message_id
    return Identity(digest.digest(), "" if found is None else f"{type(found).__name__}:{found}")


def lasting(properties: Properties) -> list[tuple[str, Any]]:
    """The properties that no broker changes, in a fixed order."""
    given = properties.given()
    for name in VOLATILE:
        given.pop(name, None)
    for name in ("application", "annotations"):
        table = given.get(name)
        if table:
            kept = {key: value for key, value in table.items() if key != COUNT}
            given[name] = sorted(map(repr, kept.items()))
    return sorted(given.items())


def add_body(digest: Any, message: Message) -> None:
    """Large bodies are read from their file in parts."""
    body = message.body
    for at in range(0, len(body), _PART):
        digest.update(bytes(body[at : at + _PART]))


def tables_of(properties: Properties) -> tuple[Table, Table]:
    """Headers and annotations, also those of 1.0 that a version without annotations carries in a
    header."""
    headers = dict(properties.application or {})
    annotations = dict(properties.annotations or {})
    restore_encoded(headers, annotations, Properties())
    return headers, annotations


def notes_of(message: Message) -> Table:
    """The notes of moves that a message carries."""
    if b"x-gateway-" not in message.header and not message.added_headers:
        return {}
    try:
        headers, annotations = tables_of(message.properties)
    except (ValueError, *UNFORESEEN):
        return {}
    finally:
        message.forget_properties()
    return {str(k): v for k, v in (annotations | headers).items() if str(k) in NOTES}


def origin_of(message: Message) -> Origin | None:
    """The place of a message in the move that brought it, or ``None``."""
    found = notes_of(message).get(NOTE)
    if not isinstance(found, str):
        return None
    move, *numbers = found.split("/")
    try:
        queue, number = map(int, numbers)
    except ValueError:
        return None
    return Origin(move, queue, number)

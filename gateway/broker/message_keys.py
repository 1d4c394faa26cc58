"""Keys of messages: the value of one of their headers, by which a queue tells them apart."""

from typing import Any

from gateway.broker.deadletters import peek_properties
from gateway.broker.plain import fingerprint
from gateway.message import Message

Key = tuple[str, Any]


def key_of(message: Message, header: str) -> Key | None:
    """The value of a header with its kind, so that the number 1 is not the text; ``None`` if the
    message does not have the header."""
    value = (peek_properties(message).application or {}).get(header)
    if value is None:
        return None
    if isinstance(value, bool):
        return "bool", value
    if isinstance(value, str):
        return "text", str(value)
    if isinstance(value, (bytes, int, float)):
        return "octets" if isinstance(value, bytes) else "number", value
    return "", fingerprint({"": value})

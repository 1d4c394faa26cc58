"""Keys of messages: the value of one of their headers, by which a queue tells them apart."""

from typing import Any

from gateway.broker.deadletters import peek_properties
from gateway.broker.plain import fingerprint
from gateway.message import Message

Key = tuple[str, Any]
GROUP_OF_JMS = "JMSXGroupID"
"""The group-id of 1.0 (1.0 §3.2.4) by its name in JMS, which is a header in other versions."""


def key_of(message: Message, header: str) -> Key | None:
    """The value of a header with its kind, so that the number 1 is not the text; ``None`` if the
    message does not have the header."""
    properties = peek_properties(message)
    value = (properties.application or {}).get(header)
    if value is None and header == GROUP_OF_JMS:
        value = properties.group_id
    if value is None:
        return None
    if isinstance(value, bool):
        return "bool", value
    if isinstance(value, str):
        return "text", str(value)
    if isinstance(value, (bytes, int, float)):
        return "octets" if isinstance(value, bytes) else "number", value
    return "", fingerprint({"": value})

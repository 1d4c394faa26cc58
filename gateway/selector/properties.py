"""Conditions that name properties and the values they must have (RabbitMQ 4.1's filters of AMQP 1.0
sources, ``amqp:properties-filter`` and ``amqp:application-properties-filter``)."""

from collections.abc import Callable
from typing import Any

from gateway.message import Message
from gateway.values import Described

FIELDS = frozenset(
    [
        "message-id", "user-id", "to", "subject", "reply-to", "correlation-id", "content-type",
        "content-encoding", "absolute-expiry-time", "creation-time", "group-id",
        "group-sequence", "reply-to-group-id",
    ]
)  # fmt: skip


class PropertiesFilter:
    """Matches messages that have all of these properties with these values; for text, "&p:x" means
    a prefix and "&s:x" a suffix. With ``standard`` the names are those of message properties,
    otherwise of application properties. Raises ``ValueError`` for a name that is not a message
    property."""

    __slots__ = ("_pairs", "_standard", "_identity")

    def __init__(self, wanted: dict[Any, Any], standard: bool) -> None:
        self._standard = standard
        self._pairs: list[tuple[str, Callable[[Any], bool]]] = []
        for key, value in wanted.items():
            if standard and key not in FIELDS:
                raise ValueError(f"names no property: {str(key)[:60]!r}")
            field = str(key).replace("-", "_") if standard else str(key)
            self._pairs.append((field, _like(value)))
        self._identity = standard, repr(sorted((str(k), repr(v)) for k, v in wanted.items()))

    def matches(self, message: Message) -> bool:
        """Whether the message matches. Never raises, for any message."""
        try:
            properties = message.properties
        except ValueError:
            return False
        if self._standard:
            return all(test(getattr(properties, key)) for key, test in self._pairs)
        found = properties.application or {}
        return all(key in found and test(found[key]) for key, test in self._pairs)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PropertiesFilter) and other._identity == self._identity

    def __hash__(self) -> int:
        return hash(self._identity)


def _like(value: Any) -> Callable[[Any], bool]:
    if isinstance(value, Described):
        value = value.value
    if isinstance(value, str):
        kind, rest = value[:3], value[3:]
        if kind == "&p:":
            return lambda found: isinstance(found, str) and found.startswith(rest)
        if kind == "&s:":
            return lambda found: isinstance(found, str) and found.endswith(rest)
        if value.startswith("&&"):
            value = value[1:]
    return lambda found: bool(found == value)

"""Keeps messages with the same key in order, however many go at the same time.

Of each key one message at a time is under way to the destination; those behind it wait, also while
it is tried again. Messages of other keys, and those without one, do not wait.
"""

from collections import deque
from collections.abc import Callable, Hashable

from gateway.bridge.property_rules import ANNOTATIONS, HEADERS, attribute_of
from gateway.message import Message

KEY, GROUP = "key", "group_id"
JMS_GROUP = "JMSXGroupID"

KeyOf = Callable[[Message], Hashable]
"""The key of a message; ``None`` if it has none."""


class KeyOrder:
    """The keys under way."""

    def __init__(self, key_of: KeyOf) -> None:
        self.key_of = key_of
        self.held = 0
        """Messages that wait for one of their key."""
        self._waiting: dict[Hashable, deque[int]] = {}
        """Numbers of messages, by the key of one that is under way."""
        self._keys: dict[int, Hashable] = {}

    def admit(self, number: int, message: Message) -> bool:
        """Whether a message may go now. Otherwise ``done`` gives its number later."""
        key = self.key_of(message)
        if key is None:
            return True
        self._keys[number] = key
        waiting = self._waiting.get(key)
        if waiting is None:
            self._waiting[key] = deque()
            return True
        waiting.append(number)
        self.held += 1
        return False

    def done(self, number: int) -> int | None:
        """The message has come to its destination, or never will. The one that may go now."""
        key = self._keys.pop(number, None)
        if key is None:
            return None
        waiting = self._waiting[key]
        if not waiting:
            del self._waiting[key]
            return None
        self.held -= 1
        return waiting.popleft()


def key_reader(name: str) -> KeyOf:
    """Reads ``key`` (the routing key), ``headers.NAME`` or another property. Raises
    ``ValueError`` if there is no such property."""
    if name == KEY:
        return lambda message: message.key
    attribute = attribute_of(name)
    header = name.removeprefix(HEADERS).removeprefix(ANNOTATIONS)
    if attribute == GROUP:
        header = JMS_GROUP

    def read(message: Message) -> Hashable:
        try:
            properties = message.properties
        except ValueError:
            return None
        value = getattr(properties, attribute) if attribute else None
        if value is None:
            table = properties.annotations if name.startswith(ANNOTATIONS) else None
            table = properties.application if table is None else table
            value = None if table is None else table.get(header)
        return value if isinstance(value, Hashable) else repr(value)

    return read

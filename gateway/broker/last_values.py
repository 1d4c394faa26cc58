"""The messages of a last-value queue by their keys: where the newest of each key stands."""

from gateway.broker.lanes import Entry, Lane
from gateway.broker.message_keys import Key, key_of
from gateway.message import Message

Place = tuple[Lane, int]
"""A lane, and a position in it."""


class LastValues:
    """``newest`` has the place of the newest message of each key, ready or unsettled; ``keys`` has
    the keys by place. ``outdated`` are unsettled deliveries of which a newer message has come: they
    do not stand in the queue again."""

    __slots__ = ("header", "newest", "keys", "outdated")

    def __init__(self, header: str) -> None:
        self.header = header
        self.newest: dict[Key, Place] = {}
        self.keys: dict[Place, Key] = {}
        self.outdated: set[Place] = set()

    def key_of(self, message: Message) -> Key | None:
        """``None`` for a message that replaces none and is replaced by none."""
        return key_of(message, self.header)

    def add(self, key: Key, place: Place) -> None:
        """The newest message of a key stands here."""
        self.newest[key] = place
        self.keys[place] = key

    def forget(self, place: Place) -> None:
        """There is no message at this place any more."""
        key = self.keys.pop(place, None)
        if key is not None and self.newest.get(key) == place:
            del self.newest[key]
        self.outdated.discard(place)

    def clear(self) -> None:
        """All messages that were ready are gone; unsettled ones are found out when they return."""
        self.newest.clear()
        self.keys.clear()

    def returns(self, entry: Entry) -> bool:
        """Whether a delivery that comes back stands in the queue again: there is no newer one."""
        place = entry.lane, entry.position
        if place in self.outdated:
            return False
        if place in self.keys:
            return True
        key = self.key_of(entry.message)
        if key is None:
            return True
        if key in self.newest:
            return False
        self.add(key, place)
        return True

"""Large messages that come in parts and may be resumed over another connection (0.8a2 §3.3.2.2).

Parts are kept in memory, by client and by everything the header says: that is what identifies a
message there. Room is limited; what has waited longest is given up first.
"""

import hashlib

from gateway.errors import Condition, Refusal
from gateway.message import Message

MOST_OCTETS = 64 << 20
"""Octets of all half received messages."""
MOST_OF_CLIENT = 16
"""Half received messages of one client."""
KEEP_MS = 60 * 60 * 1000
"""How long one waits for the rest."""

Owner = tuple[str, str, str]
"""Virtual host, user, client name."""
Key = tuple[Owner, int, bytes]


class Staged:
    """What there is of one message."""

    __slots__ = ("key", "message", "size", "digest", "octets", "touched", "used")

    def __init__(self, key: Key, message: Message, size: int, digest: str) -> None:
        self.key = key
        self.message = message
        self.size = size
        self.digest = digest
        self.octets = bytearray()
        self.touched = 0
        self.used = True
        """A handle is receiving it."""

    def fault(self) -> str:
        """Why it is not the message that was announced, or nothing."""
        if len(self.octets) != self.size:
            return f"{len(self.octets)} octets of {self.size} have come"
        if self.digest and hashlib.sha1(self.octets).hexdigest() != self.digest.lower():
            return "the contents are not those that the hash was taken of"
        return ""


class Staging:
    """All messages that are half received."""

    def __init__(self) -> None:
        self._items: dict[Key, Staged] = {}
        self.octets = 0

    def __len__(self) -> int:
        return len(self._items)

    def begin(self, owner: Owner, message: Message, size: int, digest: str, now: int) -> Staged:
        """The place for a message, with what came of it before. Refuses for want of room."""
        key = (owner, size, message.header)
        found = self._items.pop(key, None)
        if found is not None and found.used:
            self._items[key] = found
            raise Refusal(Condition.NOT_ALLOWED, "this message is being received already")
        if found is not None and found.digest != digest:
            self.octets -= len(found.octets)
            found = None
        if found is None:
            found = Staged(key, message, size, digest)
            self._make_room(owner, now)
        found.used, found.touched = True, now
        self._items[key] = found
        start = message.body
        if len(start) > len(found.octets):
            self.extend(found, start[len(found.octets) :], now)
        return found

    def extend(self, item: Staged, octets: bytes, now: int) -> None:
        """The next octets. Refuses what is more than was announced, or for want of room."""
        if len(item.octets) + len(octets) > item.size:
            self.drop(item)
            raise Refusal(Condition.SYNTAX_ERROR, "more octets than the message has")
        while self.octets + len(octets) > MOST_OCTETS and self._give_up_one():
            pass
        if self.octets + len(octets) > MOST_OCTETS:
            self.drop(item)
            raise Refusal(Condition.CONTENT_TOO_LARGE, "no room for messages in parts")
        item.octets += octets
        item.touched = now
        self.octets += len(octets)

    def leave(self, item: Staged) -> None:
        """Nobody is receiving it: it waits for the rest."""
        item.used = False

    def drop(self, item: Staged) -> None:
        """It is complete, or spoilt."""
        if self._items.pop(item.key, None) is item:
            self.octets -= len(item.octets)

    def _make_room(self, owner: Owner, now: int) -> None:
        for item in list(self._items.values()):
            if not item.used and now - item.touched > KEEP_MS:
                self.drop(item)
        mine = [item for item in self._items.values() if item.key[0] == owner]
        for item in mine[: max(0, len(mine) - MOST_OF_CLIENT + 1)]:
            if item.used:
                raise Refusal(
                    Condition.CONTENT_TOO_LARGE, f"more than {MOST_OF_CLIENT} messages in parts"
                )
            self.drop(item)

    def _give_up_one(self) -> bool:
        for item in self._items.values():
            if not item.used:
                self.drop(item)
                return True
        return False

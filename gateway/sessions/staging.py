"""Large messages that come in parts and may be resumed over another connection (0.8a2 §3.3.2.2).

Their parts are in the ``PartialBodyStore``, by client and by everything the header says, which
identifies a message there. A client without a name has them for as long as its connection lasts.
"""

import hashlib

from gateway.bodies import Body
from gateway.errors import Condition, Refusal
from gateway.message import Message
from gateway.partial_bodies import Key, PartialBodyStore, Staged

MOST_OF_CLIENT = 16
"""Half received messages of one client."""

Owner = tuple[str, str, str]
"""Virtual host, user, client name."""


class Arriving:
    """A message that a handle is receiving."""

    __slots__ = ("message", "item")

    def __init__(self, message: Message, item: Staged) -> None:
        self.message = message
        self.item = item


class Staging:
    """All messages that are half received. Everything refuses for want of room."""

    def __init__(self, partials: PartialBodyStore) -> None:
        self.partials = partials

    def begin(
        self, owner: Owner, message: Message, size: int, digest: str, lasting: bool = True
    ) -> Arriving:
        """The place for a message, with what came of it before. ``lasting``: its owner has the same
        name on another connection."""
        whose: Key = ("0.8a2", *owner)
        key: Key = (*whose, str(size), hashlib.sha256(message.header).hexdigest())
        if key in self.partials.used:
            raise Refusal(Condition.NOT_ALLOWED, "this message is being received already")
        if key not in self.partials.kept:
            self._make_room(whose)
        try:
            arriving = Arriving(message, self.partials.begin(key, size, digest, lasting))
        except OSError as error:
            raise no_room(error) from error
        start = message.body
        if len(start) > arriving.item.have:
            self.extend(arriving, start[arriving.item.have :])
        return arriving

    def extend(self, arriving: Arriving, octets: bytes) -> None:
        """The next octets. Refuses what is more than was announced too."""
        item = arriving.item
        if len(octets) > item.left:
            self.partials.drop(item)
            raise Refusal(Condition.SYNTAX_ERROR, "more octets than the message has")
        try:
            item.add(octets)
        except OSError as error:
            self.partials.drop(item)
            raise no_room(error) from error

    def finish(self, arriving: Arriving) -> Body | str:
        """All of the body, or why it is not what was announced; it is given up then."""
        try:
            fault = arriving.item.fault()
            if not fault:
                return self.partials.finish(arriving.item)
        except OSError as error:
            self.partials.drop(arriving.item)
            raise no_room(error) from error
        self.partials.drop(arriving.item)
        return fault

    def leave(self, arriving: Arriving) -> None:
        """Nobody is receiving it: it waits for the rest."""
        self.partials.leave(arriving.item)

    def forget(self, owner: Owner) -> None:
        """A client without a name is gone: nobody will ask for these."""
        for item in self.partials.of(("0.8a2", *owner)):
            self.partials.drop(item)

    def _make_room(self, whose: Key) -> None:
        mine = self.partials.of(whose)
        for item in mine[: max(0, len(mine) - MOST_OF_CLIENT + 1)]:
            if self.partials.used.get(item.key) is item:
                text = f"more than {MOST_OF_CLIENT} messages in parts"
                raise Refusal(Condition.CONTENT_TOO_LARGE, text)
            self.partials.drop(item)


def no_room(error: OSError) -> Refusal:
    """The disk is short, or a limit reached."""
    text = f"no room for messages in parts: {error.strerror}"
    return Refusal(Condition.CONTENT_TOO_LARGE, text)

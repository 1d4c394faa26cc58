"""Prepared messages, which are sent in parts and may be resumed over another connection (0.8a2
§3.3.2.2).

Their parts are in the ``PartialBodyStore``, by client and by the whole header, which identifies a
message there. Those of a client without a name are dropped with its connection.
"""

import hashlib

from gateway.bodies import Body
from gateway.errors import Condition, Refusal
from gateway.message import Message
from gateway.partial_bodies import Key, PartialBody, PartialBodyStore

MOST_OF_CLIENT = 16
"""The most incomplete messages of one client."""

StagingOwner = tuple[str, str, str]
"""The client of a prepared message: virtual host, user, client name."""


class StagedMessage:
    """A prepared message that a handle is receiving."""

    __slots__ = ("message", "item")

    def __init__(self, message: Message, item: PartialBody) -> None:
        self.message = message
        self.item = item


class Staging:
    """All incomplete messages. All methods refuse when there is no room."""

    def __init__(self, partials: PartialBodyStore) -> None:
        self.partials = partials

    def begin(
        self, owner: StagingOwner, message: Message, size: int, digest: str, lasting: bool = True
    ) -> StagedMessage:
        """Begin a message, or resume it with the octets received before. ``lasting``: its owner has
        the same name on another connection."""
        whose: Key = ("0.8a2", *owner)
        key: Key = (*whose, str(size), hashlib.sha256(message.header).hexdigest())
        if key in self.partials.used:
            raise Refusal(Condition.NOT_ALLOWED, "this message is being received already")
        if key not in self.partials.kept:
            self._make_room(whose)
        try:
            staged = StagedMessage(message, self.partials.begin(key, size, digest, lasting))
        except OSError as error:
            raise no_room(error) from error
        start = message.body
        if len(start) > staged.item.have:
            self.extend(staged, start[staged.item.have :])
        return staged

    def extend(self, staged: StagedMessage, octets: bytes) -> None:
        """Add octets. Refuses more than were announced."""
        item = staged.item
        if len(octets) > item.left:
            self.partials.drop(item)
            raise Refusal(Condition.SYNTAX_ERROR, "more octets than the message has")
        try:
            item.add(octets)
        except OSError as error:
            self.partials.drop(item)
            raise no_room(error) from error

    def finish(self, staged: StagedMessage) -> Body | str:
        """The complete body, or the reason why it is not the announced one; it is discarded
        then."""
        try:
            fault = staged.item.fault()
            if not fault:
                return self.partials.finish(staged.item)
        except OSError as error:
            self.partials.drop(staged.item)
            raise no_room(error) from error
        self.partials.drop(staged.item)
        return fault

    def leave(self, staged: StagedMessage) -> None:
        """Keep an incomplete message for another connection."""
        self.partials.leave(staged.item)

    def forget(self, owner: StagingOwner) -> None:
        """Discard the messages of a client without a name."""
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
    """The disk is full, or a limit is reached."""
    text = f"no room for messages in parts: {error.strerror}"
    return Refusal(Condition.CONTENT_TOO_LARGE, text)

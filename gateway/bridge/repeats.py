"""Finds messages that have come to the destination before, while the ends of a shovel are open."""

from gateway.bridge.seen import Seen
from gateway.message import ExpiringMessage, Message

NOTE = "x-gateway-duplicate"
"""Header of a message that may have come before."""
POSSIBLE = "possible"


class Repeats:
    """``exact``: the destination is in the store that keeps the ids, and tells what it has
    ``taken``."""

    def __init__(self, seen: Seen, exact: bool) -> None:
        self.turn = seen.turn
        self._seen, self.exact = seen, exact
        self._under_way: dict[int, bytes] = {}
        """Ids of messages that are not settled, by number."""
        self._ids: set[bytes] = set()
        self._confirmed: list[bytes] = []

    def admit(self, number: int, message: Message) -> bool:
        """Whether a message is none that has come, or is on its way."""
        identity = self._seen.id_of(message)
        if identity is None:
            return True
        if identity in self._ids or identity in self._seen:
            return False
        self._ids.add(identity)
        self._under_way[number] = identity
        return True

    def is_doubtful(self, number: int) -> bool:
        """Whether a redelivered message that was admitted may have come all the same."""
        return not (self.exact and number in self._under_way)

    def taken(self, numbers: list[int], lasting: bool) -> None:
        """The destination has these; in the turn that publishes them."""
        under_way = self._under_way
        self._seen.add([under_way[one] for one in numbers if one in under_way], lasting)

    def confirmed(self, number: int) -> None:
        if not self.exact and number in self._under_way:
            self._confirmed.append(self._under_way[number])

    def refused(self, number: int) -> None:
        """The destination has not taken it."""
        identity = self._under_way.get(number)
        if self.exact and identity is not None and identity in self._seen:
            with self.turn():
                self._seen.discard(identity)

    def done(self, number: int) -> None:
        """The message is settled at its source."""
        identity = self._under_way.pop(number, None)
        if identity is not None:
            self._ids.discard(identity)

    def save(self) -> None:
        """Keep the ids of confirmed messages. Within a turn."""
        confirmed, self._confirmed = self._confirmed, []
        self._seen.add(confirmed)


def doubtful(message: Message) -> Message:
    """With a note that it may have come before."""
    left = message.left if isinstance(message, ExpiringMessage) else None
    added = {**(message.added_headers or {}), NOTE: POSSIBLE}
    noted = message.routed_as(message.exchange, message.key, added_headers=added)
    return noted if left is None else ExpiringMessage(noted, left)

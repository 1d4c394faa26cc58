"""Copies of messages at the broker that is not the primary one of their address.

A copy has an id in a note. In ``shadow`` it is compared with its message when it arrives there, and
removed. In ``mirror`` and ``new-primary`` it stays until the message is settled.
"""

from collections import Counter, OrderedDict

from gateway.adapters.performatives.content import SECTIONS
from gateway.bridge.comparison.canonical import entry_of
from gateway.bridge.comparison.comparing import Rules, unequal
from gateway.bridge.migration.identity import COPIED, COPY, notes_of
from gateway.message import Message

MOST_EXPECTED = 10_000
MOST_OCTETS = 16 << 20
"""Messages, and their octets, that wait for their copies to be compared with."""
KEPT = "k"
"""The first letter of the ids of copies that stay until their messages are settled."""
MARK = "m"
"""The first letter of the ids of marks, which are messages without a body."""
MOST_SETTLED = 100_000
"""Ids of settled messages whose copies have not arrived."""


def copy_id(message: Message) -> str:
    """The id of a copy; "" of all other messages."""
    found = notes_of(message).get(COPY)
    return found if isinstance(found, str) else ""


def original_id(message: Message) -> str:
    """The id of a message that has a copy, or ""."""
    found = notes_of(message).get(COPIED)
    return found if isinstance(found, str) else ""


def copy_of(message: Message, id: str) -> Message:
    return noted(message, COPY, id)


def copied(message: Message, id: str) -> Message:
    """The message itself, which has a copy."""
    return noted(message, COPIED, id)


def noted(message: Message, note: str, id: str) -> Message:
    added = {**(message.added_headers or {}), note: id}
    return message.routed_as(message.exchange, message.key, added_headers=added)


TOLERANT = Rules(ignore=("absolute-expiry-time",))
"""Brokers write it when they limit the time to live."""


class Expected:
    """Messages of a facade whose copies are compared with them: the last ones. One that was
    published to an exchange may have a copy in several queues."""

    def __init__(self) -> None:
        self._messages: OrderedDict[str, Message] = OrderedDict()
        self._octets = 0

    def add(self, id: str, message: Message) -> None:
        self._messages[id] = message
        self._octets += message.weight
        while len(self._messages) > MOST_EXPECTED or self._octets > MOST_OCTETS:
            _, oldest = self._messages.popitem(last=False)
            self._octets -= oldest.weight

    def get(self, id: str) -> Message | None:
        return self._messages.get(id)


class Copies:
    """Of one address. ``made`` copies were confirmed, ``lost`` ones were not; ``differences`` are
    counted by class."""

    def __init__(self) -> None:
        self.made = self.lost = self.compared = 0
        self.differences: Counter[str] = Counter()
        self._held: dict[str, int] = {}
        """Deliveries of copies, by id."""
        self._settled: OrderedDict[str, None] = OrderedDict()

    @property
    def held(self) -> int:
        return len(self._held)

    def compare(self, message: Message, copy: Message) -> None:
        """The copy of a message has arrived."""
        self.compared += 1
        self.differences.update(differences(message, copy))

    def hold(self, id: str, delivery: int) -> bool:
        """A copy has arrived; false if its message is settled already."""
        if id in self._settled:
            del self._settled[id]
            return False
        self._held[id] = delivery
        return True

    def settled(self, id: str) -> int | None:
        """A message is settled: the delivery of its copy, if that has arrived."""
        delivery = self._held.pop(id, None)
        if delivery is None:
            self._settled[id] = None
            if len(self._settled) > MOST_SETTLED:
                self._settled.popitem(last=False)
        return delivery

    def take_held(self) -> list[int]:
        """All deliveries that are held, which are not from now on."""
        held, self._held = list(self._held.values()), {}
        return held

    def forget(self) -> None:
        """The mode has changed."""
        self._settled.clear()
        self._held.clear()


def differences(message: Message, copy: Message) -> set[str]:
    """Classes of difference between a message and its copy, as ``bridge verify`` names them."""
    form = ""
    if message.dialect is not copy.dialect:
        form = "1.0" if SECTIONS in (message.dialect, copy.dialect) else "0-9-1"
    mine, yours = entry_of(message, form), entry_of(copy, form)
    values, types = unequal(TOLERANT.kept(mine.fields), TOLERANT.kept(yours.fields))
    found = {"property": bool(values), "type": bool(types), "body": mine.body != yours.body}
    return {name for name, differs in found.items() if differs}

"""The journal: messages that the gateway has accepted or forwarded, in the order of its commits.

Each entry has a global *commit position* and, at its address, an *offset*. Its message is a row of
the store under that position. Its other data stand in the *index*: one row for
each batch of the store, written in that batch. So an entry is in the same batch as the publish that
it records, and what is confirmed is recorded. A process that is killed takes the positions of
unwritten batches with it; nobody has seen them, as readers read the database (``gateway.journal``).

The journals of durable event sources are addresses too. Their messages are rows under a number of
their own, which the source reads and removes; the index has their positions.

Addresses are nodes: ``/exchanges/NAME``, and ``/queues/NAME`` for messages that are published to
the default exchange.
"""

import json
from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase
from struct import Struct
from typing import Any, NamedTuple, Protocol
from urllib.parse import quote
from uuid import uuid4

from gateway.broker.store import Depth, Record, Store
from gateway.errors import Unstorable
from gateway.message import Message

ADDRESS, INDEX = "journal-address", "journal-index"
"""Kinds of records: one for each recorded address, and one for the journal as a whole."""
ENTRY = Struct(">IQI")
"""An entry in the index: number of the address, offset, number of the origin."""
MOST_ADDRESSES = 10_000
"""Recorded addresses; messages for further ones are not recorded."""
MOST_REMEMBERED = 16_384
"""Names whose address is remembered."""
pack = ENTRY.pack
UNKNOWN = 0
"""The origin of messages that the gateway publishes for no connection."""
PRIVATE = "amq."


class RecordingRule(NamedTuple):
    """Whether addresses are recorded whose virtual host and name fit these patterns (``*`` is any
    text)."""

    vhost: str
    address: str
    record: bool


class Origin(Protocol):
    """The connection that has published."""

    journal_origin: int
    user: str
    name: str
    origin: dict[str, str]


class JournalState(Protocol):
    """The broker's state, as the journal needs it."""

    now: int
    store: Store
    volatile: bool
    warn: Callable[[str], None]
    report: Callable[[str], None]

    def number(self) -> int: ...


class Address:
    """``number`` names it in the index, ``next`` is the offset of the next entry; ``saved`` the one
    that its record has."""

    __slots__ = ("vhost", "name", "number", "next", "saved")

    def __init__(self, vhost: str, name: str, number: int, next: int) -> None:
        self.vhost = vhost
        self.name = name
        self.number = number
        self.next = self.saved = next


def name_of(exchange: str, key: str) -> str:
    """The address of messages that are published to this exchange with this key."""
    if exchange:
        return f"/exchanges/{quote(exchange, safe='', errors='surrogatepass')}"
    return f"/queues/{quote(key, safe='', errors='surrogatepass')}"


class Journal:
    """``next`` is the position of the next entry. ``rules``: the first that fits an address says
    whether it is recorded; none is no."""

    def __init__(self, state: JournalState, rules: Iterable[RecordingRule] = ()) -> None:
        self.state = state
        self.rules = () if state.volatile else tuple(rules)
        self.id = ""
        """Of the journal; "" before its first entry."""
        self.next = 0
        self.addresses: dict[tuple[str, str], Address] = {}
        self._index = self._origins = self._lane = 0
        """Numbers of the index, of publishers, and of the messages."""
        self._next_origin = self._fresh = UNKNOWN + 1
        """Origins from ``_fresh`` on are described in rows behind which nothing is trimmed."""
        self._epochs: list[tuple[int, int]] = []
        """Positions, and the first origin that may be named from there on."""
        self._mark = 0
        self._entries = bytearray()
        self._full = False

    def restore(self, records: Iterable[Record], depths: dict[int, Depth]) -> set[int]:
        """Go on where an earlier process has ended. Returns the numbers that belong to it."""
        numbers: set[int] = set()
        by_number: dict[int, Address] = {}
        for kind, key, value in records:
            if kind == ADDRESS:
                vhost, name = key
                found = Address(vhost, name, value["number"], value["next"])
                self.addresses[vhost, name] = by_number[found.number] = found
            elif kind == INDEX:
                self.id, self.next = value["id"], value["next"]
                self._index, self._origins, self._lane = (
                    value["index"], value["origins"], value["lane"],
                )  # fmt: skip
                self._next_origin = value["next_origin"]
                numbers |= {self._index, self._origins, self._lane}
        if not self.id:
            return numbers
        self.state.store.record_under(self._lane)
        for first, octets in self.state.store.kept(self._index):
            self.next = max(self.next, first + len(octets) // ENTRY.size)
            for number, offset, _ in ENTRY.iter_unpack(octets):
                if number in by_number:
                    by_number[number].next = offset + 1
        origins = depths.get(self._origins)
        if origins is not None:
            self._next_origin = max(self._next_origin, origins.last + 1)
        self._begin_epoch()
        return numbers | by_number.keys()

    def recorder(self, vhost: str) -> "Recorder | None":
        """Records the publishes in a virtual host; ``None`` if no rule wants any."""
        rules = [one for one in self.rules if fnmatchcase(vhost, one.vhost)]
        return Recorder(self, vhost, rules) if any(one.record for one in rules) else None

    # --- entries --------------------------------------------------------------------------------

    def enter(self, number: int, offset: int, origin: int = UNKNOWN) -> int:
        """The message that was put into the store under this number and offset has the next
        position, which is returned. Hot."""
        if self.state.store.mark != self._mark:
            self._begin_batch()
        self._entries += pack(number, offset, origin)
        position = self.next
        self.next = position + 1
        return position

    def _begin_batch(self) -> None:
        store = self.state.store
        if not self.id:
            self.id = str(uuid4())
            number = self.state.number
            self._index, self._origins, self._lane = number(), number(), number()
            store.record_under(self._lane)
            self._begin_epoch()
            self._save()
        self._mark = store.mark
        self._entries = bytearray()
        store.keep(self._index, self.next, self._entries)

    def _save(self) -> None:
        value: dict[str, Any] = {
            "id": self.id,
            "index": self._index,
            "origins": self._origins,
            "lane": self._lane,
            "next": self.next,
            "next_origin": self._next_origin,
        }
        self.state.store.save(INDEX, (), value)

    def append(self, address: Address, message: Message, origin: Origin | None) -> bool:
        """Record a message. Returns false if the store cannot keep it. Hot."""
        state = self.state
        store = state.store
        if store.mark != self._mark:
            self._begin_batch()
        position = self.next
        try:
            store.record(position, message, state.now)
        except Unstorable as reason:
            state.report(f"{message} is not in the journal: {reason}")
            return False
        if origin is None:
            number = UNKNOWN
        elif (number := origin.journal_origin) < self._fresh:
            number = self._describe(origin)
        offset = address.next
        self._entries += pack(address.number, offset, number)
        address.next = offset + 1
        self.next = position + 1
        return True

    def _describe(self, origin: Origin) -> int:
        """Write a description of a connection, in the batch of its first entry."""
        number = origin.journal_origin = self._next_origin
        self._next_origin = number + 1
        text = json.dumps({"user": origin.user, "connection": origin.name, **origin.origin})
        self.state.store.keep(self._origins, number, bytearray(text.encode()))
        return number

    # --- addresses ------------------------------------------------------------------------------

    def address(self, vhost: str, name: str) -> Address | None:
        """The one there is, or a new one; ``None`` when there are too many."""
        found = self.addresses.get((vhost, name))
        if found is None:
            if len(self.addresses) >= MOST_ADDRESSES:
                if not self._full:
                    self._full = True
                    text = f"the journal has {MOST_ADDRESSES} addresses: no more are recorded"
                    self.state.warn(text)
                return None
            found = self.addresses[vhost, name] = Address(vhost, name, self.state.number(), 0)
            self._save_address(found)
        return found

    def _save_address(self, address: Address) -> None:
        address.saved = address.next
        value = {"number": address.number, "next": address.next}
        self.state.store.save(ADDRESS, (address.vhost, address.name), value)

    # --- trimming -------------------------------------------------------------------------------

    def remove(self, first: int, last: int) -> None:
        """Remove the messages of entries, from a first to a last position. Event sources remove
        theirs themselves."""
        self.state.store.remove_ranges(self._lane, [(first, last)])

    def trim(self, start: int) -> None:
        """Remove the index before ``start``, which begins a batch, when all messages before it have
        been removed."""
        store = self.state.store
        for address in self.addresses.values():
            if address.saved != address.next:
                self._save_address(address)
        if start:
            store.remove_ranges(self._index, [(0, start - 1)])
        while len(self._epochs) > 1 and self._epochs[1][0] <= start:
            self._epochs.pop(0)
        first = self._epochs[0][1]
        if self._epochs[0][0] <= start and first > UNKNOWN + 1:
            store.remove_ranges(self._origins, [(0, first - 1)])
        self._begin_epoch()
        self._save()

    def _begin_epoch(self) -> None:
        """Connections are described again when they publish next, so that descriptions can be
        trimmed although their connections go on."""
        self._fresh = self._next_origin
        self._epochs.append((self.next, self._next_origin))


class Recorder:
    """Records the publishes in one virtual host."""

    def __init__(self, journal: Journal, vhost: str, rules: list[RecordingRule]) -> None:
        self.journal = journal
        self.vhost = vhost
        self.rules = rules
        self._exchanges: dict[str, Address | None] = {}
        self._queues: dict[str, Address | None] = {}

    def record(self, message: Message, origin: Any) -> bool:
        """Whether this message, which was accepted or forwarded, is recorded. It is as safe as the
        store's gathering batch then. Hot."""
        try:
            if message.exchange:
                address = self._exchanges[message.exchange]
            else:
                address = self._queues[message.key]
        except KeyError:
            address = self._find(message)
        return address is not None and self.journal.append(address, message, origin)

    def _find(self, message: Message) -> Address | None:
        known = self._exchanges if message.exchange else self._queues
        if len(known) >= MOST_REMEMBERED:
            known.clear()
        name = message.exchange or message.key
        text = name_of(message.exchange, message.key)
        # Queues of the gateway's own, and those for replies, come and go.
        private = not message.exchange and name.startswith(PRIVATE)
        record = not private and next(
            (one.record for one in self.rules if fnmatchcase(text, one.address)), False
        )
        address = self.journal.address(self.vhost, text) if record else None
        known[name] = address
        return address

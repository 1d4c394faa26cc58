"""The journal: messages that the gateway has accepted or forwarded, in the order of its commits.

Each entry has a global *commit position* and, at its address, an *offset*. The entries of a batch
of the store are written in that batch, all together (``Recorded``), keyed by the first position. So
an entry is in the same batch as the publish that it records, and a durable message that is
confirmed is recorded. A process that is killed takes the positions of unwritten batches with it;
nobody has seen them, as readers read the database (``gateway.journal``).

The journals of durable event sources are addresses too. Their messages are rows under a number of
their own; here they have a position. They are removed when they are in a segment, or too old,
and the source needs them no more (``release``).

Addresses are nodes: ``/exchanges/NAME``, and ``/queues/NAME`` for messages that are published to
the default exchange.
"""

import json
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, Protocol
from uuid import uuid4

from gateway.broker.store import (
    MOST_ENTRIES,
    MOST_OCTETS,
    Depth,
    PackedEntries,
    Record,
    Recorded,
    Store,
    WireEntries,
)
from gateway.errors import Unstorable
from gateway.message import LEAST_ON_WIRE, NO_ESSENTIALS, Dialect, Message, WireRun

ADDRESS, INDEX = "journal-address", "journal-index"
"""Kinds of records: one for each recorded address, and one for the journal as a whole."""
SOURCE = "journal"
"""Kind of the records of durable event sources (``gateway.http.events.durable``)."""
MOST_ADDRESSES = 10_000
"""Recorded addresses; messages for further ones are not recorded."""
QUIET_MS = 200
"""Without entries, until the index tells when the last were written."""
ENTRY_OCTETS = 32
"""Octets that an entry counts, beside those of its message, until it is written."""
UNKNOWN = 0
"""The origin of messages that the gateway publishes for no connection."""


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


class Gathering(Protocol):
    """A publisher. Its messages that were accepted are gathered, and recorded together before one
    of another publisher, and at the end of the turn."""

    def record_gathered(self) -> None: ...


class JournalState(Protocol):
    """The broker's state, as the journal needs it."""

    now: int
    store: Store
    volatile: bool
    warn: Callable[[str], None]
    report: Callable[[str], None]

    def number(self) -> int: ...

    def schedule(self, thing: "Journal", when: int) -> None: ...


class SourceRows(NamedTuple):
    """The rows of an event source when the store was opened: the last, and the first that is still
    in the index."""

    last: int
    indexed: int


class Address:
    """``number`` names it in the index, ``next`` is the offset of the next entry; ``saved`` the one
    that its record has."""

    __slots__ = ("vhost", "name", "number", "next", "saved")

    def __init__(self, vhost: str, name: str, number: int, next: int) -> None:
        self.vhost = vhost
        self.name = name
        self.number = number
        self.next = self.saved = next


class Elsewhere:
    """The dialect of messages that are in the store already."""

    name = ""


ELSEWHERE: Any = Message(Elsewhere(), b"", b"", "", "", NO_ESSENTIALS)  # type: ignore[arg-type]


Block = Recorded | PackedEntries | WireEntries


class Journal:
    """``rules``: the first that fits an address says whether it is recorded; none is no."""

    def __init__(self, state: JournalState, rules: Iterable[RecordingRule] = ()) -> None:
        self.state = state
        self.rules = () if state.volatile else tuple(rules)
        self.id = ""
        """Of the journal; "" before its first entry."""
        self.addresses: dict[tuple[str, str], Address] = {}
        self._origins = self._lane = 0
        """Numbers of publishers, and of the messages."""
        self._next_origin = self._fresh = UNKNOWN + 1
        """Origins from ``_fresh`` on are described in rows behind which nothing is trimmed."""
        self._epochs: list[tuple[int, int]] = []
        """Positions, and the first origin that may be named from there on."""
        self._mark = self._mark_before = 0
        """Of the batch in which the last entries are, and of the one before it."""
        self._written = 0, 0
        """Mark of the last of these that was written, and when."""
        self._last: tuple[int, int, int] = (0, 0, 0)
        """The last batch of which the index tells it: its first position, its end, and when."""
        self.due: int | None = None
        self._entries: Block = PackedEntries(0)
        """The last block, to which the next entry is added, if it fits."""
        self._first: Block = self._entries
        """The first block of its batch."""
        self._packed = PackedEntries(0)
        self._wire = WireEntries(0)
        self._recorded = Recorded(0)
        self._messages = self._recorded.messages
        self._open = 0
        """Mark of the batch in which ``_recorded`` is the last block; then it stays the last."""
        self.gathering: Gathering | None = None
        """Has messages of this turn that are not recorded yet."""
        # What the entries of the present run share.
        self._address: Address | None = None
        self._origin: Origin | None = None
        self._dialect: Dialect | None = None
        self._stamp = -1
        self._begun = 0
        """Index of the first of them."""
        self.entered = self._run_entered = 0
        """When the message that is recorded now was forwarded; 0: it was not. That of the run."""
        self._elsewhere = 0, 0
        """Number and next offset of the present run of messages that are elsewhere."""
        self._full = False
        self.sources: dict[int, Callable[[int], None]] = {}
        """By the numbers of event sources: told up to which offset their rows may go."""
        self.source_rows: dict[int, SourceRows] = {}
        self._ended: dict[int, tuple[tuple[str, ...], int]] = {}
        """Event sources that were given up and have rows: the key of the record, and the last."""

    @property
    def next(self) -> int:
        """The position of the next entry."""
        return self._entries.first + len(self._entries)

    def restore(self, records: Iterable[Record], depths: dict[int, Depth]) -> set[int]:
        """Go on where an earlier process has ended. Returns the numbers that belong to it."""
        numbers: set[int] = set()
        by_number: dict[int, Address] = {}
        next = 0
        for kind, key, value in records:
            if kind == ADDRESS:
                vhost, name = key
                found = Address(vhost, name, value["number"], value["next"])
                self.addresses[vhost, name] = by_number[found.number] = found
            elif kind == INDEX:
                self.id, next = value["id"], value["next"]
                first, end, when = value.get("written", self._last)
                self._last = first, end, when
                self._origins, self._lane = value["origins"], value["lane"]
                self._next_origin = value["next_origin"]
                numbers |= {self._origins, self._lane}
            elif kind == SOURCE:
                number = value["number"]
                if number in depths:
                    self.source_rows[number] = SourceRows(depths[number].last, 1 << 62)
                if "ended" in value:
                    self._ended[number] = key, value["ended"]
        if not self.id:
            return numbers
        self.state.store.record_under(self._lane)
        for first, runs in self.state.store.recorded():
            next = max(next, first + sum(run.entries for run in runs))
            for run in runs:
                if run.number in by_number:
                    found = by_number[run.number]
                    found.next = max(found.next, run.offset + run.entries)
                elif (rows := self.source_rows.get(run.number)) and run.offset < rows.indexed:
                    self.source_rows[run.number] = rows._replace(indexed=run.offset)
        self._entries.first = next
        origins = depths.get(self._origins)
        if origins is not None:
            self._next_origin = max(self._next_origin, origins.last + 1)
        self._begin_epoch()
        return numbers | by_number.keys()

    # --- entries --------------------------------------------------------------------------------

    def enter(self, number: int, offset: int, origin: int = UNKNOWN) -> int:
        """The message that was put into the store under this number and offset has the next
        position, which is returned."""
        if self.gathering is not None:
            self.record_gathered()
        state = self.state
        if state.store.mark != self._open:
            self._begin_messages()
        if self._elsewhere != (number, offset) or state.now != self._stamp:
            self._end_run()
            self._stamp = state.now
            self._entries.runs.append(
                (len(self._messages), number, offset, origin, state.now, "", "", 0)
            )
        self._elsewhere = number, offset + 1
        self._messages.append(ELSEWHERE)
        return self.next - 1

    def _begin_messages(self) -> None:
        """From now on entries of this batch have messages."""
        store = self.state.store
        self._recorded = entries = Recorded(self.next)
        self._messages = entries.messages
        self._open = store.mark
        self._begin(entries)
        store.record(entries)

    def _begin_packed(self) -> PackedEntries:
        self._packed = entries = PackedEntries(self.next)
        self._begin(entries)
        self.state.store.record_packed(entries)
        return entries

    def _begin_wire(self) -> WireEntries:
        self._wire = entries = WireEntries(self.next)
        self._begin(entries)
        self.state.store.record_packed(entries)
        return entries

    def _begin(self, entries: Block) -> None:
        """Begin a block."""
        store = self.state.store
        self._end_run()
        self._entries = entries
        if store.mark == self._mark:
            entries.before = None
            return
        self._first = entries
        self._mark_before, self._mark = self._mark, store.mark
        if self._written[0] == self._mark_before:
            entries.before = self._written[1]
        if not self.id:
            self.id = str(uuid4())
            number = self.state.number
            self._origins, self._lane = number(), number()
            store.record_under(self._lane)
            self._begin_epoch()
            self._save()

    def committed(self, mark: int) -> None:
        """A batch is on disk. The next one with entries tells when."""
        if mark == self._mark:
            self._written = mark, self.state.now
            self.state.schedule(self, self.state.now + QUIET_MS)
        elif mark == self._mark_before:
            self._first.before = self.state.now

    def on_due(self) -> None:
        """If no other has come, the index tells when the last batch was written."""
        mark, when = self._written
        if mark == self._mark:
            self._last = self._first.first, self.next, when
            self._save()

    def _save(self) -> None:
        value: dict[str, Any] = {
            "id": self.id,
            "origins": self._origins,
            "lane": self._lane,
            "next": self.next,
            "next_origin": self._next_origin,
            "written": list(self._last),
        }
        self.state.store.save(INDEX, (), value)

    def append(self, address: Address, message: Message, origin: Origin | None) -> bool:
        """Record a message. Returns false if the store cannot keep it. Hot: entries of one run cost
        little more than a place in a list."""
        state = self.state
        store = state.store
        body = message.body
        size = len(body)
        added = None
        if size >= store.apart or message.added_headers:
            try:
                added = store.check(message)
            except Unstorable as reason:
                state.report(f"{message} is not in the journal: {reason}")
                return False
        if store.mark != self._open:
            self._begin_messages()
        self._enter_run(address, message, origin)
        messages = self._messages
        if added is not None:
            self._recorded.added[len(messages)] = added
        if size >= store.apart:
            self._recorded.apart[len(messages)] = size
            if body.__class__ is not bytes:
                size = 0  # it is in a file
        messages.append(message)
        store.appended += 1
        store.pending_octets += size
        return True

    def extend(self, address: Address, messages: list[Message], origin: Origin | None) -> None:
        """Record messages of one dialect and address. Hot: only steps of C for each."""
        state = self.state
        store = state.store
        headers = [message.header for message in messages]
        bodies: list[Any] = [message.body for message in messages]
        header_sizes, body_sizes = list(map(len, headers)), list(map(len, bodies))
        count = len(messages)
        if (
            store.mark == self._open
            or max(body_sizes) >= store.apart
            or [message.added_headers for message in messages].count(None) != count
        ):
            for message in messages:
                self.append(address, message, origin)
            return
        header, body = b"".join(headers), b"".join(bodies)
        octets = len(header) + len(body)
        packed = self._packed
        if count < LEAST_ON_WIRE and self._has_room(self._wire, count, octets):
            self._enter_run(address, messages[0], origin)
            self._wire.add_messages(messages)
            store.pending_octets += octets + ENTRY_OCTETS * count
            return
        if not self._has_room(packed, count, octets):
            if count > 1 and (count > MOST_ENTRIES or octets > MOST_OCTETS):
                self.extend(address, messages[: count // 2], origin)
                self.extend(address, messages[count // 2 :], origin)
                return
            packed = self._begin_packed()
        self._enter_run(address, messages[0], origin)
        packed.headers.append(header)
        packed.bodies.append(body)
        packed.header_sizes += header_sizes
        packed.body_sizes += body_sizes
        keys = [message.key for message in messages]
        packed.add_keys(keys)
        packed.octets += octets
        store.pending_octets += octets + len("".join(keys)) + ENTRY_OCTETS * count

    def extend_wire(
        self, address: Address, wire: WireRun, message: Message, origin: Origin | None
    ) -> bool:
        """Record transient messages, of which ``message`` is the first, and keep them as they came:
        nothing is done for each. False if they do not fit."""
        store = self.state.store
        count, octets = wire.publishes, wire.end - wire.begin
        if store.mark == self._open or count > MOST_ENTRIES or octets > MOST_OCTETS:
            return False
        if not self._has_room(self._wire, count, octets):
            self._begin_wire()
        self._enter_run(address, message, origin)
        self._wire.add(wire, message.key)
        store.pending_octets += octets
        return True

    def _has_room(self, block: PackedEntries | WireEntries, count: int, octets: int) -> bool:
        """Whether so many entries can be added to a block, at the end of this batch."""
        return (
            block is self._entries
            and self.state.store.mark == self._mark
            and len(block) + count <= MOST_ENTRIES
            and block.octets + octets <= MOST_OCTETS
        )

    def _enter_run(self, address: Address, message: Message, origin: Origin | None) -> None:
        """Begin a run, unless the next entry belongs to the present one. Hot."""
        if (
            address is not self._address
            or origin is not self._origin
            or self.state.now != self._stamp
            or message.dialect is not self._dialect
        ):
            self._begin_run(address, message, origin)

    def gather(self, publisher: Gathering) -> None:
        """The next messages come from this publisher."""
        self.record_gathered()
        self.gathering = publisher

    def record_gathered(self) -> None:
        """Record the messages that were gathered."""
        publisher, self.gathering = self.gathering, None
        if publisher is not None:
            publisher.record_gathered()

    def _begin_run(self, address: Address, message: Message, origin: Origin | None) -> None:
        self._end_run()
        if origin is None:
            number = UNKNOWN
        elif (number := origin.journal_origin) < self._fresh:
            number = self._describe(origin)
        self._address, self._origin, self._dialect = address, origin, message.dialect
        self._stamp = now = self.state.now
        self._begun = at = len(self._entries)
        self._run_entered = entered = self.entered
        dialect, exchange = message.dialect.name, message.exchange
        self._entries.runs.append(
            (at, address.number, address.next, number, now, dialect, exchange, entered)
        )

    def _end_run(self) -> None:
        """Offsets are counted when a run ends."""
        if self._address is not None:
            self._address.next += len(self._entries) - self._begun
        self._address = self._origin = self._dialect = None
        self._stamp = -1
        self._elsewhere = 0, 0

    def _describe(self, origin: Origin) -> int:
        """Write a description of a connection, in the batch of its first entry."""
        number = origin.journal_origin = self._next_origin
        self._next_origin = number + 1
        text = json.dumps({"user": origin.user, "connection": origin.name, **origin.origin})
        self.state.store.keep(self._origins, number, bytearray(text.encode()))
        return number

    def forwarded(self, entered: int) -> None:
        """The next message was forwarded at this time, and is recorded now that the upstream has
        it; with 0, the next was not."""
        self.entered = entered
        if entered and entered != self._run_entered:
            self._end_run()

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

    # --- event sources --------------------------------------------------------------------------

    def release(self, number: int, offset: int) -> None:
        """The rows of an event source up to an offset are not needed by readers of the store."""
        told = self.sources.get(number)
        if told is not None:
            told(offset)
            return
        store = self.state.store
        key, last = self._ended.get(number, ((), -1))
        if offset < last or not key:
            store.remove_ranges(number, [(0, offset)])
        else:
            store.drop(number)
            store.forget(SOURCE, key)
            del self._ended[number]

    def end(self, number: int, key: tuple[str, ...], last: int, released: int) -> None:
        """An event source is given up. Its rows stay until they are released."""
        store = self.state.store
        self.sources.pop(number, None)
        store.forget(SOURCE, key)
        if released >= last:
            store.drop(number)
            return
        key = (*key, str(number))
        self._ended[number] = key, last
        store.save(SOURCE, key, {"number": number, "ended": last})

    # --- trimming -------------------------------------------------------------------------------

    def remove(self, first: int, last: int) -> None:
        """Remove the blocks that begin at these positions. Event sources remove their messages
        themselves."""
        # No position or offset is given out again, though nothing else may tell them.
        self._end_run()
        for address in self.addresses.values():
            if address.saved != address.next:
                self._save_address(address)
        self._save()
        self.state.store.remove_ranges(self._lane, [(first, last)])

    def trim(self, start: int) -> None:
        """All before ``start``, which begins a block, has been removed: what is not needed without
        it goes too."""
        store = self.state.store
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

"""The port of the broker to a durable store.

Everything a broker does within one turn of the loop gathers in one *batch*. ``take`` closes the
batch, ``write`` makes it durable (it blocks: the caller runs it off the loop), and only then may
anything be confirmed that happened in it. Records are numbered by the batch they went into; a
batch whose records have all cancelled each other out is empty and costs no sync.
"""

from collections.abc import Iterable
from struct import Struct
from typing import Any, NamedTuple, Protocol

from gateway.message import Message, WireRun

MOST_ENTRIES = 4096
MOST_OCTETS = 1 << 20
"""Entries, and octets of headers and bodies, in one block (or one entry)."""

Record = tuple[str, tuple[str, ...], dict[str, Any]]
"""Kind ("vhost", "exchange", "queue", "binding", "user", "permission", "policy",
"operator-policy"), key, plain JSON values."""


class StoredMessage(NamedTuple):
    """A message at its place in a queue. ``expires`` is ms since 1970 or ``None``."""

    position: int
    message: Message
    expires: int | None


class Depth(NamedTuple):
    """Contents of a queue when the store was opened. ``delivered`` is the highest position that had
    been handed to a consumer: up to it, messages count as redelivered."""

    messages: int
    octets: int
    first: int
    last: int
    delivered: int


class Recorded:
    """Entries of the journal in one batch, in the order of their positions, from ``first`` on.

    ``messages`` has one for each; one without dialect is elsewhere in the store. ``runs`` are the
    entries in a row that share all but the message: the index of the first, the number of its
    address, its offset (those of the others rise by one), its origin, its time in ms, the names of
    its dialect and its exchange; and, if an upstream was waited for before, the time in ms at
    which that began, else 0. By index: ``added`` has the encoded headers that the broker has
    added, ``apart`` the octets of bodies that have rows of their own, which queues may share."""

    __slots__ = ("first", "messages", "runs", "added", "apart", "before")

    def __init__(self, first: int) -> None:
        self.first = first
        self.before: int | None = 0
        """When the entries of the batch before were on disk, ms since 1970; 0: nobody knows;
        ``None``: before them there are others in the same batch."""
        self.messages: list[Message] = []
        self.runs: list[tuple[int, int, int, int, int, str, str, int]] = []
        self.added: dict[int, bytes] = {}
        self.apart: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self.messages)


class PackedEntries:
    """Entries of messages with small bodies: one block, in the order of their positions, from
    ``first`` on. ``runs`` and ``before`` are as in ``Recorded``. Of keys, headers and bodies there
    are the sizes of each, and their octets in pieces of several: they are packed at once, while
    they are in the caches of the processor, and the thread that writes has little to do."""

    __slots__ = (
        "first", "before", "runs", "octets", "key_sizes", "header_sizes", "body_sizes",
        "keys", "headers", "bodies",
    )  # fmt: skip

    def __init__(self, first: int) -> None:
        self.first = first
        self.before: int | None = 0
        self.runs: list[tuple[int, int, int, int, int, str, str, int]] = []
        self.octets = 0
        """Of headers and bodies."""
        self.key_sizes: list[int] = []
        self.header_sizes: list[int] = []
        self.body_sizes: list[int] = []
        self.keys: list[bytes] = []
        self.headers: list[bytes] = []
        self.bodies: list[bytes] = []

    def __len__(self) -> int:
        return len(self.header_sizes)

    def add_keys(self, keys: list[str]) -> None:
        first, count = keys[0], len(keys)
        if keys.count(first) == count:
            key = first.encode("utf-8", "surrogatepass")
            self.keys.append(key * count)
            self.key_sizes += [len(key)] * count
        else:
            encoded = [key.encode("utf-8", "surrogatepass") for key in keys]
            self.keys.append(b"".join(encoded))
            self.key_sizes += map(len, encoded)


_SIZE = Struct(">Q")


class Layout(NamedTuple):
    """So many publishes of ``octets`` in all, as in a ``WireRun``, with this routing key."""

    publishes: int
    octets: int
    head: int
    size_at: int
    header: int
    key: bytes


class WireEntries:
    """Entries of transient messages, as their publishers wrote them: one block, like
    ``PackedEntries``, in ``pieces`` of these ``layouts``. The messages are not looked at before the
    block is read."""

    __slots__ = ("first", "before", "runs", "octets", "layouts", "pieces", "_count")

    def __init__(self, first: int) -> None:
        self.first = first
        self.before: int | None = 0
        self.runs: list[tuple[int, int, int, int, int, str, str, int]] = []
        self.octets = 0
        """Of headers and bodies."""
        self.layouts: list[Layout] = []
        self.pieces: list[bytes | memoryview] = []
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, wire: WireRun, key: str) -> None:
        octets, begin, end, count, head, size_at, header = wire
        size = end - begin
        # A few octets of a large read do not keep the others.
        few = 2 * size < len(octets)
        self.pieces.append(octets[begin:end] if few else memoryview(octets)[begin:end])
        encoded = key.encode("utf-8", "surrogatepass")
        self.layouts.append(Layout(count, size, head, size_at, header, encoded))
        self.octets += size - (head + 1 - header) * count
        self._count += count

    def add_messages(self, messages: list[Message]) -> None:
        """A few messages that did not come in such a run."""
        for message in messages:
            header, body = message.header, message.body
            assert body.__class__ is bytes
            octets = b"%b%b%b\0" % (_SIZE.pack(len(body)), header, body)
            head = _SIZE.size + len(header)
            self.add(WireRun(octets, 0, len(octets), 1, head, 0, len(header)), message.key)


class RecordedRun(NamedTuple):
    """The notes of a block of the journal about entries in a row, as ``Recorded.runs``."""

    entries: int
    number: int
    offset: int
    origin: int
    stamp: int
    dialect: str
    exchange: str
    entered: int = 0


class Batch(Protocol):
    """Closed by ``take``; opaque to the broker."""

    mark: int


class Store(Protocol):
    """Durable (or not) home of topology and messages. Raises ``StoreError`` when the disk fails."""

    mark: int
    """Number of the batch that is gathering now."""
    dirty: bool
    """Whether that batch holds anything yet."""
    pending_octets: int
    """Octets of message bodies that wait to be written, for back-pressure."""

    apart: int
    """Octets from which on a body in the journal has a row of its own."""

    appended: int
    """How many messages were put so far and wait, or have waited, for the disk."""

    changed: int
    """Number of the batch in which topology was changed last."""

    @property
    def patient(self) -> bool:
        """Whether the gathering batch holds nothing but packed entries of transient messages in the
        journal, for which nothing waits."""
        ...

    @property
    def gathered_octets(self) -> int:
        """Octets in that batch, as in ``pending_octets``."""
        ...

    def records(self, *kinds: str) -> Iterable[Record]:
        """All topology, or that of some kinds, at start."""
        ...

    def save(self, kind: str, key: tuple[str, ...], value: dict[str, Any]) -> None:
        """Insert or replace one topology record."""
        ...

    def forget(self, kind: str, key: tuple[str, ...]) -> None:
        """Delete one topology record."""
        ...

    def forget_under(self, kind: str, key: tuple[str, ...]) -> None:
        """Delete all records whose keys begin with these fields and have more; costs as much as
        one."""
        ...

    def depths(self) -> dict[int, Depth]:
        """Surviving messages by queue number; called once at start."""
        ...

    def append(
        self, queue: int, position: int, message: Message, expires: int | None, keep: bool
    ) -> None:
        """Put a message. ``keep``: it survives a restart; otherwise it is only paged out. Raises
        ``Unstorable`` for one that cannot be kept, and nothing has happened then.

        The same ``Message`` object appended to several queues is stored once."""
        ...

    def check(self, message: Message) -> bytes | None:
        """The headers that the broker has added, encoded. Raises ``Unstorable`` if this message
        could not be put."""
        ...

    def remove(self, queue: int, position: int) -> None:
        """The message is settled; cancels an ``append`` that is still in the gathering batch."""
        ...

    def remove_all(self, queue: int, positions: list[int]) -> None:
        """The same for many."""
        ...

    def remove_ranges(self, queue: int, ranges: list[tuple[int, int]]) -> None:
        """The same for all from first to last positions (ascending), without reading them."""
        ...

    def purge(self, queue: int) -> None:
        """Remove everything of a queue (purged or deleted)."""
        ...

    def drop(self, queue: int) -> None:
        """The same for a number that is never used again. It may take several batches, none of
        which is long; the rest after a crash is found among the ``depths``."""
        ...

    def delivered(self, queue: int, position: int) -> None:
        """Raise the queue's delivered mark."""
        ...

    def keep(self, queue: int, position: int, octets: bytearray) -> None:
        """Put octets that are no message, which ``read`` must not meet. They may be added to until
        the batch is taken."""
        ...

    def record_under(self, queue: int) -> None:
        """The journal has this number, which ``read`` must not meet. ``remove_ranges`` of it
        removes whole blocks, those that begin in the ranges."""
        ...

    def record(self, entries: Recorded) -> None:
        """Append to the journal, once in a batch. Entries may be added until it is taken; their
        messages are counted in ``appended`` and ``pending_octets`` by the caller."""
        ...

    def record_packed(self, entries: PackedEntries | WireEntries) -> None:
        """The same for packed entries, and for those as they came, any number of times."""
        ...

    def await_entries(self) -> None:
        """Some of the packed entries of the gathering batch are of durable messages, whose
        confirms wait for it."""
        ...

    def recorded(self) -> Iterable[tuple[int, list[RecordedRun]]]:
        """The first position and the runs of each block of the journal that is written."""
        ...

    def read(self, queue: int, start: int, limit: int) -> list[StoredMessage]:
        """Up to ``limit`` messages from position ``start`` on, in order: written or not."""
        ...

    def take(self) -> Batch | None:
        """Close the gathering batch and start the next; ``None`` if it is empty."""
        ...

    def write(self, batch: Batch) -> None:
        """Make a batch durable. Blocks; may run on another thread, one batch at a time."""
        ...

    def close(self) -> None:
        """Write pending changes and close the files."""
        ...

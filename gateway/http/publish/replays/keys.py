"""Keys of replayed messages: which of them were published.

A key is a replay of its caller, and the place that the message had in its journal: the journal's
id, the address, and the offset there. Offsets are dense, so the keys of 4096 neighbours are one
*block* of bits, which is one record of the store. A block is saved in the batch of the store that
has its messages: after a crash both are there or neither. (A message of an upstream is not in the
store: its key is saved when the upstream has confirmed it. A message that a restart would lose has
no key in the store: it may be published again after that.)
"""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import NamedTuple

from gateway.broker.store import Record
from gateway.http import problems
from gateway.http.problems import Problem
from gateway.http.publish.idempotency import Records

KIND = "replay"
BLOCK = 4096

Scope = tuple[str, str, str, str]
"""User, subject, virtual host, name of the replay."""


class Source(NamedTuple):
    """Where a message was: at an offset of an address of a journal."""

    journal: str
    address: str
    offset: int


class Block:
    """The keys of 4096 neighbours, as bits. ``done``: their messages are published, ``pending``:
    this is not known yet, ``saved``: what the store has, or is about to have."""

    __slots__ = ("scope", "name", "done", "pending", "saved")

    def __init__(self, scope: Scope, name: tuple[str, str, str], bits: int = 0) -> None:
        self.scope = scope
        self.name = name
        self.done = self.saved = bits
        self.pending = 0


class Key:
    """A key whose message is being published, as ``KeyedPublish`` wants it."""

    __slots__ = ("keys", "block", "bit")

    def __init__(self, keys: "ReplayKeys", block: Block, bit: int) -> None:
        self.keys = keys
        self.block = block
        self.bit = bit
        block.pending |= bit

    @property
    def saved(self) -> bool:
        return bool(self.block.saved & self.bit)

    @property
    def done(self) -> bool:
        return bool(self.block.done & self.bit)

    @done.setter
    def done(self, value: bool) -> None:
        self.block.pending &= ~self.bit
        if value:
            self.block.done |= self.bit


class ReplayInfo(NamedTuple):
    """One replay of a caller. ``pending``: messages whose outcome is not known yet."""

    name: str
    published: int
    pending: int
    blocks: int


class ReplayKeys:
    """All keys. ``most``: blocks that are kept for a caller. Everything within a turn."""

    def __init__(self, store: Records, forget: Callable[[Scope], None], most: int) -> None:
        """``forget`` removes the records of a replay."""
        self.store = store
        self.forget = forget
        self.most = most
        self.replays: dict[Scope, dict[tuple[str, str, str], Block]] = {}
        self.counts: Counter[tuple[str, str]] = Counter()
        """Blocks by owner."""
        self.changed: dict[Block, None] = {}

    def load(self, records: Iterable[Record]) -> None:
        """Load what earlier processes saved."""
        for _, key, value in records:
            user, subject, vhost, replay, *name = key
            scope = (user, subject, vhost, replay)
            block = Block(scope, (name[0], name[1], name[2]), int(value["bits"], 16))
            self.replays.setdefault(scope, {})[block.name] = block
            self.counts[scope[:2]] += 1

    def claim(self, scope: Scope, source: Source) -> Key:
        """The key of a message that is to be published, and was not. Raises ``Problem``: 409 if it
        is under way, 429 if too many blocks are kept."""
        number, place = divmod(source.offset, BLOCK)
        name = (source.journal, source.address, str(number))
        blocks = self.replays.get(scope)
        block = None if blocks is None else blocks.get(name)
        if block is None:
            block = self._add(scope, name)
        bit = 1 << place
        if (block.pending | block.done) & bit:
            raise Problem(problems.KEY_BUSY, "the same message is under way")
        return Key(self, block, bit)

    def published(self, scope: Scope, source: Source) -> bool:
        """Whether the message of this key was published."""
        number, place = divmod(source.offset, BLOCK)
        block = self.replays.get(scope, {}).get((source.journal, source.address, str(number)))
        return block is not None and bool(block.done >> place & 1)

    def _add(self, scope: Scope, name: tuple[str, str, str]) -> Block:
        owner = scope[:2]
        if self.counts[owner] >= self.most:
            raise Problem(
                problems.QUOTA,
                f"{self.most} blocks of {BLOCK} keys are kept for the replays of '{owner[0]}';"
                " delete replays that have ended",
                quota="replay-keys",
            )
        block = self.replays.setdefault(scope, {})[name] = Block(scope, name)
        self.counts[owner] += 1
        return block

    def sent(self, key: Key) -> None:
        """The message lasts, and so must its key: saved by the next ``flush`` of this turn."""
        key.block.saved |= key.bit
        self.changed[key.block] = None

    def flush(self) -> None:
        """In the turn of the publishes, so that all becomes durable at once."""
        for block in self.changed:
            record = (*block.scope, *block.name)
            self.store.save(KIND, record, {"bits": f"{block.saved:x}"})
        self.changed.clear()

    def abandon(self, key: Key) -> None:
        """The publish failed: the key is free again."""
        block = key.block
        block.pending &= ~key.bit
        if block.saved & key.bit:
            block.saved &= ~key.bit
            self.changed[block] = None
            self.flush()

    def list(self, owner: tuple[str, str], vhost: str) -> list[ReplayInfo]:
        """The replays of a caller."""
        return [
            self._info(scope[3], blocks)
            for scope, blocks in sorted(self.replays.items())
            if scope[:3] == (*owner, vhost)
        ]

    def find(self, scope: Scope) -> ReplayInfo | None:
        blocks = self.replays.get(scope)
        return None if blocks is None else self._info(scope[3], blocks)

    @staticmethod
    def _info(name: str, blocks: dict[tuple[str, str, str], Block]) -> ReplayInfo:
        published = sum(block.done.bit_count() for block in blocks.values())
        pending = sum(block.pending.bit_count() for block in blocks.values())
        return ReplayInfo(name, published, pending, len(blocks))

    def remove(self, scope: Scope) -> bool:
        """Forget a replay; ``False`` if there is none. Raises ``Problem`` (409) while messages are
        under way."""
        blocks = self.replays.get(scope)
        if blocks is None:
            return False
        if any(block.pending for block in blocks.values()):
            raise Problem(problems.CONFLICT, "messages of the replay are under way")
        del self.replays[scope]
        owner = scope[:2]
        self.counts[owner] -= len(blocks)
        if not self.counts[owner]:
            del self.counts[owner]
        self.forget(scope)
        return True

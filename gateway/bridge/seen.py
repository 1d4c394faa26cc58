"""Ids of messages that have come to their destination, so that they do not come there twice.

The ids of a shovel are kept in the store, in the blocks in which they came. The block of messages
that go into this gateway is saved in the turn that publishes them, so that after a crash either
both are there or neither. For another broker it is saved with the settlement at the source, when
the confirms have come: messages whose confirm was on its way at a crash may come twice. They are
*repeated*, and have a note of that.
"""

import hashlib
from base64 import b64decode, b64encode
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from gateway.bridge.ordering import KeyOf
from gateway.bridge.waiting import Turn
from gateway.broker.store import Record
from gateway.config.shovel_steps import DuplicateSettings
from gateway.message import Message

KIND = "shovel-seen"
DIGEST = 16
"""Octets of an id, whatever its length was."""
SMALL = 32
"""Ids of a block up to which more are added to it."""

Owner = tuple[str, str]
"""A shovel, and the queue of a lane or ""."""


class Records(Protocol):
    """The part of the store that is used here."""

    def records(self, *kinds: str) -> Iterable[Record]: ...

    def save(self, kind: str, key: tuple[str, ...], value: dict[str, Any]) -> None: ...

    def forget(self, kind: str, key: tuple[str, ...]) -> None: ...


class Block:
    """Ids that came at one time, in ms since 1970. ``ids``: those that are saved."""

    __slots__ = ("number", "at", "ids", "passing")

    def __init__(self, number: int, at: int, ids: list[bytes]) -> None:
        self.number = number
        self.at = at
        self.ids = ids
        self.passing: list[bytes] = []
        """Those of messages that a crash would take too."""

    @property
    def size(self) -> int:
        return len(self.ids) + len(self.passing)


class Seen:
    """The ids of one shovel or lane. ``clock`` returns ms since 1970."""

    def __init__(
        self,
        settings: DuplicateSettings,
        key_of: KeyOf,
        records: Records,
        turn: Turn,
        owner: Owner,
        clock: Callable[[], int],
    ) -> None:
        self.turn = turn
        self._settings, self._key_of, self._records = settings, key_of, records
        self._owner, self._clock = owner, clock
        self._blocks: OrderedDict[int, Block] = OrderedDict()
        self._ids: dict[bytes, int] = {}
        """The block of each."""

    def load(self, records: Iterable[Record]) -> None:
        """Those that earlier processes have saved for this owner."""
        found = []
        for _, key, value in records:
            if key[:2] == self._owner:
                octets = b64decode(value["ids"])
                ids = [octets[at : at + DIGEST] for at in range(0, len(octets), DIGEST)]
                found.append(Block(int(key[2]), value["at"], ids))
        for block in sorted(found, key=lambda one: one.number):
            self._blocks[block.number] = block
            self._ids.update(dict.fromkeys(block.ids, block.number))
        with self.turn():
            self._sweep()

    def __len__(self) -> int:
        return len(self._ids)

    def id_of(self, message: Message) -> bytes | None:
        """The digest of the id of a message; ``None`` if it has none."""
        key = self._key_of(message)
        if key is None:
            return None
        return hashlib.blake2b(repr(key).encode(), digest_size=DIGEST).digest()

    def __contains__(self, identity: bytes) -> bool:
        number = self._ids.get(identity)
        return number is not None and self._blocks[number].at > self._earliest()

    def add(self, ids: list[bytes], lasting: bool = True) -> None:
        """These messages have come to the destination. Within a turn, in which they are saved, but
        for those that do not last themselves."""
        if not ids:
            return
        block = next(reversed(self._blocks.values())) if self._blocks else None
        if block is None or block.size + len(ids) > SMALL:
            number = 1 if block is None else block.number + 1
            block = self._blocks[number] = Block(number, self._clock(), [])
        (block.ids if lasting else block.passing).extend(ids)
        self._ids.update(dict.fromkeys(ids, block.number))
        self._sweep()
        if lasting:
            self._save(block)

    def discard(self, identity: bytes) -> None:
        """The destination has not taken it after all. Within a turn."""
        block = self._blocks.get(self._ids.pop(identity, 0))
        if block is None:
            return
        for ids in (block.ids, block.passing):
            if identity in ids:
                ids.remove(identity)
        self._save(block)

    def _save(self, block: Block) -> None:
        value = {"at": block.at, "ids": b64encode(b"".join(block.ids)).decode()}
        self._records.save(KIND, self._key(block.number), value)

    def _key(self, number: int) -> tuple[str, ...]:
        return (*self._owner, f"{number:016}")

    def _earliest(self) -> int:
        return self._clock() - int(self._settings.seconds * 1000)

    def _sweep(self) -> None:
        """Forget ids that are too old or too many, but never the last block."""
        earliest, most = self._earliest(), self._settings.count
        while len(self._blocks) > 1:
            number, block = next(iter(self._blocks.items()))
            if block.at > earliest and len(self._ids) - block.size < most:
                return
            del self._blocks[number]
            for one in (*block.ids, *block.passing):
                if self._ids.get(one) == number:
                    del self._ids[one]
            self._records.forget(KIND, self._key(number))


class SeenIds:
    """The ids of all shovels in the store."""

    def __init__(self, records: Records, turn: Turn, clock: Callable[[], int]) -> None:
        self._records, self._turn, self._clock = records, turn, clock
        self._found = list(records.records(KIND))
        self._made: dict[Owner, Seen] = {}

    def of(self, settings: DuplicateSettings, key_of: KeyOf, owner: Owner) -> Seen:
        """The same for the same owner."""
        seen = self._made.get(owner)
        if seen is None:
            seen = Seen(settings, key_of, self._records, self._turn, owner, self._clock)
            seen.load(self._found)
            self._made[owner] = seen
        return seen

    def forget_others(self, shovels: Iterable[str]) -> None:
        """Those of shovels that have no ids any more."""
        kept = set(shovels)
        with self._turn():
            for kind, key, _ in self._found:
                if key[0] not in kept:
                    self._records.forget(kind, key)

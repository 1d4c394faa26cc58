"""The addresses of a facade with two upstreams, each with its mode."""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal, NamedTuple, Protocol

from gateway.bridge.clock import now
from gateway.bridge.modes.copies import Copies
from gateway.bridge.modes.follower import Follower
from gateway.bridge.modes.mode import ARRANGEMENTS, NO_SHARE, Mode, Share
from gateway.bridge.waiting import Turn
from gateway.broker.store import Record
from gateway.message import Message

KIND = "facade-mode"
MOST = 10_000
"""Addresses of one facade that have a mode of their own."""

Kind = Literal["queue", "exchange"]


class AddressInfo(NamedTuple):
    """An address as the administration shows it. ``target`` is the mode that it is changing to, ""
    if it is not; ``held`` the publishes that wait meanwhile. ``since`` is the time of the last
    change in ms since 1970."""

    kind: Kind
    name: str
    mode: str
    target: str
    since: int
    percent: int
    users: tuple[str, ...]
    consumers: tuple[str, ...]
    keys: int
    opened: bool
    held: int
    moved: int
    brought: int
    supplied: int
    copied: int
    copies_lost: int
    copies_held: int
    compared: int
    differences: dict[str, int]
    error: str


class Split(Protocol):
    """Lets some of the consumers be at the other side. ``changed`` is set when a consumer comes,
    goes or wants more; ``supplied`` messages were brought to those at the other side."""

    changed: asyncio.Event

    @property
    def supplied(self) -> int: ...

    @property
    def error(self) -> str: ...

    async def close(self) -> None: ...


class Address:
    """A queue or an exchange. ``held``: numbers of publishes that wait for the change of its mode;
    ``waiting``: requests of consumers meanwhile. ``move`` is the name of the move that
    brings its messages to the other side."""

    __slots__ = (
        "kind",
        "name",
        "mode",
        "arrangement",
        "target",
        "share",
        "wanted_share",
        "holding",
        "held",
        "waiting",
        "move",
        "moved",
        "since",
        "error",
        "copies",
        "follower",
        "split",
        "opened",
    )

    def __init__(self, kind: Kind, name: str, mode: Mode = Mode.OLD_ONLY) -> None:
        self.kind: Kind = kind
        self.name = name
        self.mode = mode
        self.arrangement = ARRANGEMENTS[mode]
        self.target: Mode | None = None
        self.share = self.wanted_share = NO_SHARE
        self.holding = False
        self.held: list[int] = []
        self.waiting: list[Callable[[], None]] = []
        self.move = ""
        self.moved = 0
        self.since = now()
        self.error = ""
        self.copies = Copies()
        self.follower: Follower | None = None
        """Brings over the messages that arrive at the other side, and removes copies there."""
        self.split: Split | None = None
        self.opened = False
        """With a share of ``keys``: everything has been delivered that was there before, and
        consumers are at both sides."""

    def enter(self, mode: Mode, share: Share) -> None:
        self.mode, self.arrangement = mode, ARRANGEMENTS[mode]
        self.share = self.wanted_share = share
        self.opened = False

    def info(self) -> AddressInfo:
        copies, follower, split = self.copies, self.follower, self.split
        told = "" if follower is None else follower.error
        return AddressInfo(
            self.kind,
            self.name,
            self.mode.value,
            "" if self.target is None else self.target.value,
            self.since,
            self.share.percent,
            self.share.users,
            self.share.consumers,
            self.share.keys,
            self.opened,
            len(self.held),
            self.moved,
            0 if follower is None else follower.brought,
            0 if split is None else split.supplied,
            copies.made,
            copies.lost,
            copies.held,
            copies.compared,
            dict(copies.differences),
            self.error or ("" if split is None else split.error) or told,
        )


def share_of(value: dict[str, Any]) -> Share:
    """From the store, perhaps as an earlier release has written it."""
    consumers = tuple(value.get("consumers", ()))
    return Share(value["percent"], tuple(value["users"]), consumers, value.get("keys", 0))


class Records(Protocol):
    """The part of the store that is used here."""

    def records(self, *kinds: str) -> Iterable[Record]: ...

    def save(self, kind: str, key: tuple[str, ...], value: dict[str, Any]) -> None: ...

    def forget(self, kind: str, key: tuple[str, ...]) -> None: ...


class Addresses:
    """Those of one virtual host. One without a mode of its own has that of ``others``."""

    def __init__(self, vhost: str, records: Records, turn: Turn) -> None:
        self._vhost, self._records, self._turn = vhost, records, turn
        self.queues: dict[str, Address] = {}
        self.exchanges: dict[str, Address] = {}
        self.others = Address("queue", "*")
        for _, (where, kind, name), value in records.records(KIND):
            if where == vhost:
                self._load(kind, name, value)

    def _load(self, kind: str, name: str, value: dict[str, Any]) -> None:
        address = self.add("exchange" if kind == "exchange" else "queue", name)
        address.enter(Mode(value["mode"]), share_of(value["share"]))
        address.wanted_share = share_of(value["wanted_share"])
        address.target = Mode(value["target"]) if value["target"] else None
        address.move, address.since = value["move"], value["since"]
        address.holding = address.target is not None

    def __iter__(self) -> Iterator[Address]:
        yield from self.queues.values()
        yield from self.exchanges.values()

    def add(self, kind: Kind, name: str) -> Address:
        """The address of this name, with a mode of its own from now on."""
        names = self.queues if kind == "queue" else self.exchanges
        return names.get(name) or names.setdefault(name, Address(kind, name))

    def queue(self, name: str) -> Address:
        return self.queues.get(name, self.others)

    def of(self, message: Message) -> Address:
        """Where a message is published to. Hot."""
        if message.exchange:
            return self.exchanges.get(message.exchange, self.others)
        return self.queues.get(message.key, self.others)

    def save(self, address: Address) -> None:
        key = (self._vhost, address.kind, address.name)
        with self._turn():
            if (address.mode, address.target, address.share) == (Mode.OLD_ONLY, None, NO_SHARE):
                self._records.forget(KIND, key)
                return
            value = {
                "mode": address.mode.value,
                "target": "" if address.target is None else address.target.value,
                "share": address.share._asdict(),
                "wanted_share": address.wanted_share._asdict(),
                "move": address.move,
                "since": address.since,
            }
            self._records.save(KIND, key, value)

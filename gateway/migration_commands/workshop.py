"""Moves in the process of a command, between two brokers that are given as URLs."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gateway.bridge.migration.journal import Journal
    from gateway.bridge.migration.moves import Moves
    from gateway.bridge.migration.settings import MoveSettings
    from gateway.bridge.migration.sides import Side


class Passwords:
    """The passwords of the two sides, ``first`` of where messages were at the beginning."""

    def __init__(self, first: str, second: str) -> None:
        self.both = first, second
        self.by_url: dict[str, str] = {}

    def learn(self, source: str, destination: str, reverses: str = "") -> None:
        """The URLs of a move, or of one that goes back."""
        both = self.both[::-1] if reverses else self.both
        self.by_url |= {source: both[0], destination: both[1]}

    def sides(self, settings: "MoveSettings", name: str) -> "tuple[Side, Side]":
        """Raises ``ConfigError``."""
        from gateway.bridge.migration.brokers import read_url, shown, upstream_of
        from gateway.bridge.migration.sides import RemoteSide

        urls = settings.source, settings.destination
        ends = []
        for url, version in zip(urls, settings.versions, strict=True):
            broker = read_url(url, "broker", version, self.by_url.get(url, "guest"))
            ends.append(RemoteSide(upstream_of(broker), f"move {name}", shown(broker)))
        return ends[0], ends[1]


@contextmanager
def moving(
    path: Path, passwords: Passwords, urls: tuple[str, str] | None = None
) -> "Iterator[Moves]":
    """The moves of a journal, which no other process has meanwhile. Without ``urls`` of a new move
    there must be a journal. Raises ``ConfigError``."""
    from gateway.bridge.migration.journal import Journal
    from gateway.bridge.migration.moves import Moves
    from gateway.errors import ConfigError

    if urls is None and not path.exists():
        raise ConfigError(f"the journal {path}: no such file")
    journal = Journal(path)
    try:
        convert_with(journal)
        for one in journal.moves():
            passwords.learn(one.settings["source"], one.settings["destination"], one.reverses)
        if urls is not None:
            passwords.learn(*urls)
        yield Moves(journal, passwords.sides)
    finally:
        journal.close()


def convert_with(journal: "Journal") -> None:
    """Convert messages between versions as a gateway does."""
    from gateway.crossing.crossing import Crossing
    from gateway.message import cross_with

    cross_with(Crossing(journal.key))

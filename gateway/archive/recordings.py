"""Recordings of connections as messages: capture JSON, pcap, hex dumps, and octets as they are.

A file is read once, from its beginning to its end; of its connections no more is kept than the
frames and messages that are not complete.
"""

from collections.abc import Callable, Iterator
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from gateway.archive.side import Bad, Found, Side
from gateway.inspect.sources import SERVER, InspectError, Piece, octets, pieces
from gateway.inspect.versions import FAMILIES, Guess

CLIENT = ".client"
"""The end of the name of a file with the octets of a client; those of its server are beside it."""
MOST_HELD = 1 << 20
"""Octets of one connection that are held until its version is known."""
MOST_CONNECTIONS = 16_384
"""Connections of a file at one time; the one that was silent for longest is taken for ended."""


class Item(NamedTuple):
    """A message or an error, and where it is from. ``flow``: the connection in its file."""

    source: Path
    flow: str
    version: str
    found: Found | Bad


class Counts:
    """Messages that have begun in a recording, and stretches that cannot be read."""

    def __init__(self) -> None:
        self.messages = self.unreadable = 0


class Connection:
    """Both directions of one connection."""

    def __init__(self, flow: str, sources: tuple[Path, Path], as_version: str | None) -> None:
        """``sources``: files of the client's octets and of the server's."""
        self.flow = flow
        self.version = ""
        self._sources = sources
        self._guess = Guess(as_version)
        self._held: list[Piece] = []
        self._octets = 0
        self._sides: tuple[Side, ...] = ()
        self._strange: list[Item] = []

    def add(self, piece: Piece) -> None:
        if self.version:
            self._feed(piece)
            return
        self._held.append(piece)
        self._octets += len(piece.data)
        version = None if piece.gap else self._guess.add(piece)
        if version is None and self._octets > MOST_HELD:
            version = self._guess.last()
        if version is not None:
            self._begin(version)

    def _begin(self, version: str) -> None:
        self.version = version
        if version in FAMILIES:
            module = import_module(f"gateway.archive.{FAMILIES[version]}")
            self._sides = module.sides(version)
        else:
            side = "published" if self._held[0].from_client else "delivered"
            text = f"octets of {version}, which is no AMQP"
            bad = Bad(0, side, 0, "not-amqp", text, 0, self._held[0].data[:64])
            self._strange.append(Item(self._source(side), self.flow, version, bad))
        for piece in self._held:
            self._feed(piece)
        self._held.clear()

    def _feed(self, piece: Piece) -> None:
        if not self._sides:
            return
        side = self._sides[0 if piece.from_client else 1]
        if piece.gap:
            side.gap(piece.note)
        if piece.data:
            side.feed(piece.data)

    def end(self) -> None:
        if not self.version and self._held:
            self._begin(self._guess.last())
        for side in self._sides:
            side.end()

    def taken(self, counts: Counts) -> Iterator[Item]:
        """The records that are complete by now."""
        if self._strange:
            counts.unreadable += len(self._strange)
            yield from self._strange
            self._strange = []
        for side, source in zip(self._sides, self._sources, strict=False):
            if side.items:
                items, side.items = side.items, []
                for found in items:
                    yield Item(source, self.flow, self.version, found)

    def count(self, counts: Counts) -> None:
        """It has ended."""
        for side in self._sides:
            counts.messages += side.messages
            counts.unreadable += side.unreadable

    def _source(self, side: str) -> Path:
        return self._sources[0 if side == "published" else 1]


def read_recording(
    path: Path,
    as_version: str | None = None,
    counts: Counts | None = None,
    progress: Callable[[int], None] = lambda done: None,
) -> Iterator[Item]:
    """All messages of a file, and all errors in it. A file that is no recording is an error of its
    own. ``counts`` is right at the end."""
    counts = Counts() if counts is None else counts
    connections: dict[str, Connection] = {}
    sources = sources_of(path)
    try:
        for piece in _pieces(path, sources, progress):
            connection = connections.pop(piece.flow, None)
            if connection is None:
                if len(connections) >= MOST_CONNECTIONS:
                    oldest = connections.pop(next(iter(connections)))
                    yield from _ended(oldest, counts)
                connection = Connection(piece.flow, sources, as_version)
            connections[piece.flow] = connection
            connection.add(piece)
            yield from connection.taken(counts)
    except (InspectError, OSError, MemoryError, RecursionError) as error:
        counts.unreadable += 1
        bad = Bad(0, "", 0, "recording-broken", str(error)[:500] or type(error).__name__)
        yield Item(path, "", "", bad)
    for connection in connections.values():
        yield from _ended(connection, counts)


def _ended(connection: Connection, counts: Counts) -> Iterator[Item]:
    connection.end()
    yield from connection.taken(counts)
    connection.count(counts)


def sources_of(path: Path) -> tuple[Path, Path]:
    """The files of the octets of the client and of the server."""
    if path.suffix == CLIENT:
        server = path.with_suffix(SERVER)
        return path, server if server.exists() else path
    return path, path


def _pieces(
    path: Path, sources: tuple[Path, Path], progress: Callable[[int], None]
) -> Iterator[Piece]:
    client, server = sources
    if client == server:
        return pieces(path, progress, gaps=True)
    # The beginnings of both first: they tell the version.
    both = [octets(one, progress) for one in sources]
    begun = [piece for one in both for piece in [next(one, None)] if piece is not None]
    return chain(begun, *both)

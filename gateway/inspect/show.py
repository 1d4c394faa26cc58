"""Prints a recording frame by frame, each connection in the version it opened with."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.progress import Progress

from gateway.adapters.sniff import detect
from gateway.adapters.v0_8a import trace as v0_8a
from gateway.adapters.v0_8a.wire.tables import VERSION as VERSION_0_8A
from gateway.adapters.v0_9 import trace as v0_9
from gateway.adapters.v0_9.trace import Line, preview
from gateway.adapters.v0_9.wire.tables import VERSIONS
from gateway.adapters.v1_0 import trace as v1_0
from gateway.inspect.sources import InspectError, Piece, pieces

LARGE = 4 << 20
"""Files from this size on get a progress bar."""
MAX_UNFINISHED = 64 << 20
"""Octets of one unfinished frame that are kept."""

OTHERS = {
    b"\x80\x01": VERSION_0_8A,
    b"AMQP\x01\x01\x00\x0a": "0-10",
    b"AMQP\x02\x01\x00\x00": "1.0 over TLS",
}
"""Openings that are told by themselves; those that are not decoded yet, or not so, are named."""


def _frames(version: str, octets: bytes, _: dict[int, bool]) -> Iterator[Line]:
    return v0_9.frames(octets, version)


Reader = Callable[[bytes, dict[int, bool]], Iterator[Line]]

READERS: dict[str, Reader] = {
    VERSION_0_8A: v0_8a.commands,
    **{version: partial(_frames, version) for version in VERSIONS},
    "1.0": lambda octets, _: v1_0.frames(octets),
}
"""Who describes the octets of a version; the table belongs to the direction, for what goes on in
the next octets."""


class Direction:
    """Octets that went one way on one connection, and where they are in its stream."""

    __slots__ = ("arrow", "left", "passed", "continued")

    def __init__(self, arrow: str) -> None:
        self.arrow = arrow
        self.left = b""
        self.passed = 0
        self.continued: dict[int, bool] = {}
        """Of 0.8a2: handles over which a message is not complete."""

    def lines(self, data: bytes, version: str) -> Iterator[str]:
        """What is complete; an unfinished frame is kept."""
        octets = self.left + data
        self.left = b""
        for line in READERS[version](octets, self.continued):
            if line.kind == "cut":
                self.left = octets[line.offset :]
                if len(self.left) > MAX_UNFINISHED:
                    raise InspectError("a frame larger than 64 MiB")
                break
            place = line._replace(offset=line.offset + self.passed)
            yield f"{self.arrow} {place}"
        self.passed += len(octets) - len(self.left)


class Conversation:
    """One connection, both ways."""

    def __init__(self, as_version: str | None) -> None:
        self.version = as_version
        self.ways = {True: Direction("C>S"), False: Direction("S>C")}
        self._opening = b""

    def show(self, piece: Piece) -> Iterator[str]:
        """The lines that this piece completes."""
        if self.version is None:
            self._opening += piece.data
            named = self._name(piece)
            if named is None:
                return
            self.version, data, self._opening = named, self._opening, b""
            if self.version in READERS:
                yield f"    version {self.version}"
            else:
                yield f"    version {self.version}: not decoded yet, octets as recorded"
        else:
            data = piece.data
        way = self.ways[piece.from_client]
        if self.version in READERS:
            yield from way.lines(data, self.version)
        else:
            yield f"{way.arrow} {way.passed:8d}  {len(data)} octets  {piece.note or preview(data)}"
            way.passed += len(data)

    def _name(self, piece: Piece) -> str | None:
        """The version these first octets open, ``None`` while more are needed."""
        draft = next((name for name in ("0.9a0", "0.9a6") if name in piece.protocol), None)
        if draft is not None:
            return draft
        for opening, name in OTHERS.items():
            if self._opening.startswith(opening):
                return name if name != "0-10" or not piece.protocol else f"0-10 {piece.protocol}"
        found = detect(self._opening) if piece.from_client else None
        if found is None:
            # A recording that begins in the middle: frames of the common version.
            return None if piece.from_client and len(self._opening) < 8 else "0-9-1"
        if found.protocol in ("tls", "http"):
            return found.protocol
        return found.version or "0-9-1"

    def rest(self) -> Iterator[str]:
        """What never became a frame."""
        if self._opening:
            yield f"    too short to tell the version: {preview(self._opening)}"
        for way in self.ways.values():
            if way.left:
                yield f"{way.arrow} {way.passed:8d}  {len(way.left)} octets of a frame that is cut"


def inspect_file(path: Path, as_version: str | None, out: Console, err: Console) -> None:
    """Print all frames of a recording. Raises ``InspectError``."""
    if as_version is not None and as_version not in READERS:
        raise InspectError(f"no such version: {as_version} (there are {', '.join(READERS)})")
    size = path.stat().st_size if path.exists() else 0
    conversations: dict[str, Conversation] = {}
    with Progress(console=err, transient=True, disable=size < LARGE) as progress:
        task = progress.add_task("reading", total=size)
        for piece in pieces(path, lambda done: progress.update(task, completed=done)):
            conversation = conversations.get(piece.flow)
            if conversation is None:
                conversation = conversations[piece.flow] = Conversation(as_version)
                say(out, f"--- connection {piece.flow}")
            for line in conversation.show(piece):
                say(out, line)
    if not conversations:
        raise InspectError("no AMQP octets found")
    for flow, conversation in conversations.items():
        for line in conversation.rest():
            say(out, f"{flow}: {line}")


def say(out: Console, line: str) -> None:
    """One line as it is: no wrapping, no markup."""
    out.print(line, markup=False, highlight=False, soft_wrap=True)

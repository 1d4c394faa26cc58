"""Prints a recording frame by frame, each connection in its detected version."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.progress import Progress

from gateway.adapters.core.trace_lines import HEADER_OCTETS, Line, Reader, preview
from gateway.inspect.sources import InspectError, Piece, pieces
from gateway.inspect.versions import FAMILIES, Guess, reader_of

LARGE = 4 << 20
"""Minimum octets of a file that gets a progress bar."""
MAX_UNFINISHED = 64 << 20
"""Maximum octets of one unfinished frame."""
UNDECODED = frozenset(["broken", "unknown"])
"""Kinds of the lines of frames that could not be decoded."""
MAX_HELD = 1 << 20
"""Maximum octets that are held until the version is detected."""


class Shown(NamedTuple):
    """A line of a connection. ``from_client`` is ``None`` for a remark about all of it, of kind
    "remark". Further kinds are "octets", of a version that is not decoded, and "truncated"."""

    from_client: bool | None
    line: Line

    def __str__(self) -> str:
        offset, size, _, kind, text = self.line
        if self.from_client is None:
            return f"    {text}"
        arrow = "C>S" if self.from_client else "S>C"
        if kind == "octets":
            return f"{arrow} {offset:8d}  {size} octets  {text}"
        return f"{arrow} {offset:8d}  {text}" if kind == "truncated" else f"{arrow} {self.line}"

    def record(self, flow: str, version: str) -> dict[str, Any]:
        """As a program reads it."""
        found: dict[str, Any] = {"connection": flow, "version": version or None}
        if self.from_client is None:
            return found | {"remark": self.line.text}
        return found | {"from": "client" if self.from_client else "server"} | self.line._asdict()


def remark(text: str) -> Shown:
    return Shown(None, Line(0, 0, 0, "remark", text))


@dataclass(slots=True, eq=False)
class Direction:
    """One direction of a connection, with its position in the stream."""

    from_client: bool
    left: bytes = b""
    passed: int = 0
    failed: int = 0
    """Frames that could not be decoded."""
    reader: Reader | None = None
    """``None`` if this version is not decoded."""

    def lines(self, piece: Piece) -> Iterator[Shown]:
        """The lines of complete frames. An unfinished frame is kept."""
        if self.reader is None:
            data = piece.data
            said = piece.note or preview(data)
            yield Shown(self.from_client, Line(self.passed, len(data), 0, "octets", said))
            self.passed += len(data)
            self.failed += 1
            return
        octets = self.left + piece.data
        self.left = b""
        for line in self.reader.frames(octets):
            if line.kind == "cut":
                self.left = octets[line.offset :]
                if len(self.left) > MAX_UNFINISHED:
                    raise InspectError("a frame larger than 64 MiB")
                break
            self.failed += line.kind in UNDECODED
            place = line._replace(offset=line.offset + self.passed)
            yield Shown(self.from_client, place)
        self.passed += len(octets) - len(self.left)


class Conversation:
    """Both directions of one connection. Pieces are held until the version is known."""

    def __init__(self, as_version: str | None) -> None:
        self.version: str | None = None
        self.failed = 0
        """1 if the octets are too few to tell the version."""
        self.directions = {side: Direction(side) for side in (True, False)}
        self._guess = Guess(as_version)
        self._held: list[Piece] = []
        self._octets = 0

    def show(self, piece: Piece) -> Iterator[Shown]:
        """The lines that this piece completes."""
        if self.version is not None:
            yield from self.directions[piece.from_client].lines(piece)
            return
        self._held.append(piece)
        self._octets += len(piece.data)
        version = self._guess.add(piece)
        if version is not None:
            yield from self._begin(version)
        elif self._octets > MAX_HELD:
            yield from self._begin(self._guess.last())

    def _begin(self, version: str) -> Iterator[Shown]:
        """The version is decided: the lines of all held pieces."""
        self.version = version
        if version not in FAMILIES:
            yield remark(f"version {version}: not decoded yet, octets as recorded")
        else:
            yield remark(f"version {version}{self._guess.remark}")
            for direction in self.directions.values():
                direction.reader = reader_of(version)
        held, self._held = self._held, []
        for piece in held:
            yield from self.directions[piece.from_client].lines(piece)

    @property
    def undecoded(self) -> int:
        """Frames that could not be decoded."""
        return self.failed + sum(direction.failed for direction in self.directions.values())

    def rest(self) -> Iterator[Shown]:
        """The octets that never became a complete frame."""
        if self.version is None and self._octets < HEADER_OCTETS:
            octets = b"".join(piece.data for piece in self._held)
            self.failed += 1
            yield remark(f"too short to tell the version: {preview(octets)}")
            return
        if self.version is None:
            yield from self._begin(self._guess.last())
        for direction in self.directions.values():
            if direction.left:
                direction.failed += 1
                size = len(direction.left)
                text = f"{size} octets of a truncated frame"
                line = Line(direction.passed, size, 0, "truncated", text)
                yield Shown(direction.from_client, line)


def inspect_file(path: Path, as_version: str | None, out: Console, err: Console) -> int:
    """Print all frames of a recording; returns how many could not be decoded. Each of them has its
    line, with the place and the reason. Raises ``InspectError``."""
    if as_version is not None and as_version not in FAMILIES:
        raise InspectError(f"no such version: {as_version} (there are {', '.join(FAMILIES)})")
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
                say(out, str(line))
    if not conversations:
        raise InspectError("no AMQP octets found")
    failed = 0
    for flow, conversation in conversations.items():
        for line in conversation.rest():
            say(out, f"{flow}: {line}")
        failed += conversation.undecoded
    return failed


def say(out: Console, line: str) -> None:
    """Print one line without wrapping or markup."""
    out.print(line, markup=False, highlight=False, soft_wrap=True)

"""Detection of the version of a recording, and the readers that describe it.

The client's header names the version, unless several versions share it or the recording begins
after it. Then it is the version in which the recorded octets are valid; that of 0-10 is told by the
first octet of the server.
"""

from importlib import import_module
from typing import NamedTuple

from gateway.adapters.core.trace_lines import HEADER_OCTETS, Reader
from gateway.adapters.methods.transitional.versions import METHODS, REQUESTS
from gateway.adapters.performatives.wire.tables import TLS_HEADER
from gateway.adapters.registry import ORDERED, VERSIONS, sharing
from gateway.adapters.segments.wire.tables import VERSION as FINAL_0_10
from gateway.adapters.sniff import detect
from gateway.inspect.sources import Piece

FAMILIES = {name: row.family for name, row in VERSIONS.items()}
"""Folders of ``gateway.adapters`` by version."""


def reader_of(version: str) -> Reader:
    """A reader of one direction of a connection in this version."""
    reader: Reader = import_module(f"gateway.adapters.{FAMILIES[version]}.trace").Reader(version)
    return reader


SHARED_0_9 = sharing("0-9")

HEADER_0_10 = b"AMQP\x01\x01\x00\x0a"
FROM_SERVER = {ord("A"): FINAL_0_10, 9: REQUESTS, 1: METHODS}
FROM_CLIENT = {10: REQUESTS, 1: METHODS}
"""Versions of 0-10 by the first octet of a side, behind the client's header: the server of the
final one repeats the header; in the others it is a type of frames."""
START_0_10 = bytes.fromhex("000a 000a 00 0a")
"""connection.start with version 0-10: class, method, major and minor, behind the frame header."""

OTHERS = {TLS_HEADER: "1.0 over TLS"}
"""Protocol headers of connections that are not decoded as AMQP frames."""

NAMED = {
    "0.9a0": tuple(name for name in VERSIONS if name.startswith("0-9a0")),
    "0.9a6": ("0-9a6",),
    "24 July 2007": (REQUESTS,),
    "27 July 2007": (METHODS,),
}
"""Version names that a recording may contain."""

WITHOUT_HEADER = (*(name for name in ORDERED if name not in ("0-8", "0-9")),)
"""Candidate versions of a recording that begins in mid-connection. The frames of 0-8 and 0-9 are a
subset of those of 0-9-1."""

ENOUGH = 1 << 16
"""Maximum octets of one direction that are examined."""


class Validity(NamedTuple):
    """Validity of octets in one version: whether all complete frames are valid, and the number of
    valid ones."""

    whole: bool
    valid_frames: int


def validity_of(version: str, octets: bytes) -> Validity:
    """The validity of these octets in a version."""
    good = 0
    for line in reader_of(version).frames(octets):
        if line.kind in ("broken", "unknown"):
            return Validity(False, good)
        if line.kind == "cut":
            break
        good += line.kind != "protocol header"
    return Validity(True, good)


class Guess:
    """Detection of the version of one connection. ``as_version`` is used where the octets do not
    determine it."""

    def __init__(self, as_version: str | None) -> None:
        self.remark = ""
        """A remark on the result."""
        self._as = as_version
        self._directions = {True: b"", False: b""}
        self._candidates: tuple[str, ...] = ()
        self._likely = "0-9-1"
        self._good = 0

    def add(self, piece: Piece) -> str | None:
        """The version, once it is clear."""
        octets = self._directions[piece.from_client]
        self._directions[piece.from_client] = octets + piece.data[: ENOUGH - len(octets)]
        if not self._candidates:
            named = self._named(piece)
            if named is not None:
                return named
            if not self._candidates:
                return None
        return self._tried()

    def _named(self, piece: Piece) -> str | None:
        """The version named by the protocol header. If it names none, sets the candidates."""
        opening = self._directions[True] or self._directions[False]
        for octets, name in OTHERS.items():
            if opening.startswith(octets):
                return name
        named = next((v for k, v in NAMED.items() if k in piece.protocol), ())
        if named:
            return self._among(named)
        if opening.startswith(HEADER_0_10):
            return self._as or self._of_0_10()
        if opening[:3] == b"\x01\0\0" and opening[7:13] == START_0_10:
            return self._as or METHODS
        found = detect(opening)
        if found is None:
            return None if len(opening) < HEADER_OCTETS else self._among(WITHOUT_HEADER)
        if found.protocol in ("tls", "http"):
            return found.protocol
        if found.version in SHARED_0_9:
            return self._among(SHARED_0_9)
        if found.version:
            return found.version
        return self._among(WITHOUT_HEADER)

    def _of_0_10(self) -> str | None:
        """The version of 0-10 that the first octets behind the header tell, if any came."""
        self._likely = FINAL_0_10
        answer, request = self._directions[False][:1], self._directions[True][HEADER_OCTETS:]
        if answer:
            return FROM_SERVER.get(answer[0], FINAL_0_10)
        return FROM_CLIENT.get(request[0], FINAL_0_10) if request else None

    def _among(self, candidates: tuple[str, ...]) -> str | None:
        """The version, if it is decided among these candidates."""
        if self._as is not None:
            return self._as
        self._candidates, self._likely = candidates, candidates[0]
        return None

    def _tried(self) -> str | None:
        """The first candidate in which both directions are valid. Otherwise, unless more octets can
        decide, the one with the most valid frames."""
        found: dict[str, Validity] = {}
        for version in self._candidates:
            directions = [validity_of(version, octets) for octets in self._directions.values()]
            validity = Validity(
                all(direction.whole for direction in directions),
                sum(direction.valid_frames for direction in directions),
            )
            if validity.whole and validity.valid_frames:
                return version
            found[version] = validity
        self._likely = max(found, key=lambda version: found[version].valid_frames)
        self._good = found[self._likely].valid_frames
        return None if any(validity.whole for validity in found.values()) else self.last()

    def last(self) -> str:
        """The best guess when no more octets follow."""
        some = any(len(octets) > HEADER_OCTETS for octets in self._directions.values())
        if some and not self._good:
            self.remark = ", but some octets are not valid in it (--as VERSION, if it is another)"
        return self._likely

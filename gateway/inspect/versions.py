"""Which version a recording speaks, and who describes it.

The client's header says it, unless it is the one that three versions share, or the recording begins
behind it. Then it is the version in which what was recorded makes sense.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from gateway.adapters.registry import HEADER_OCTETS, PREFERRED, VERSIONS, Reader, sharing
from gateway.adapters.sniff import detect
from gateway.inspect.sources import Piece

READERS: dict[str, Callable[[], Reader]] = {
    name: partial(row.reader, name) for name, row in VERSIONS.items()
}
"""Versions by name, and a maker of readers, each for one direction."""

SHARED_0_9 = sharing("0-9")

OTHERS = {
    b"AMQP\x01\x01\x00\x0a": "0-10",
    b"AMQP\x02\x01\x00\x00": "1.0 over TLS",
}
"""Openings that are not decoded yet, or not so."""

NAMED = {
    "0.9a0": tuple(name for name in VERSIONS if name.startswith("0-9a0")),
    "0.9a6": ("0-9a6",),
}
"""What a recording may call itself."""

WITHOUT_HEADER = tuple(name for name in PREFERRED if name not in ("0-8", "0-9"))
"""What a recording may be that begins in the middle; in 0-8 and 0-9 the frames are those of 0-9-1,
as far as they have them."""

ENOUGH = 1 << 16
"""Octets of one direction that are looked at."""


class Sense(NamedTuple):
    """What octets are in one version: whether all that is complete is right, and how much is."""

    whole: bool
    good: int


def sense_of(version: str, octets: bytes) -> Sense:
    """How far these octets make sense."""
    good = 0
    for line in READERS[version]()(octets):
        if line.kind in ("broken", "unknown"):
            return Sense(False, good)
        if line.kind == "cut":
            break
        good += line.kind != "protocol header"
    return Sense(True, good)


class Guess:
    """The version of one connection. ``as_version``: what it is where octets do not say it."""

    def __init__(self, as_version: str | None) -> None:
        self.remark = ""
        """What is to be said about the finding."""
        self._as = as_version
        self._ways = {True: b"", False: b""}
        self._candidates: tuple[str, ...] = ()
        self._likely = "0-9-1"
        self._good = 0

    def hear(self, piece: Piece) -> str | None:
        """The version, once it is clear."""
        octets = self._ways[piece.from_client]
        self._ways[piece.from_client] = octets + piece.data[: ENOUGH - len(octets)]
        if not self._candidates:
            named = self._named(piece)
            if named is not None:
                return named
            if not self._candidates:
                return None
        return self._tried()

    def _named(self, piece: Piece) -> str | None:
        """The version that the opening names; or, if it names none, candidates are set."""
        opening = self._ways[True] or self._ways[False]
        for octets, name in OTHERS.items():
            if opening.startswith(octets):
                return name if name != "0-10" or not piece.protocol else f"0-10 {piece.protocol}"
        drafts_named = next((v for k, v in NAMED.items() if k in piece.protocol), ())
        if drafts_named:
            return self._among(drafts_named)
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

    def _among(self, candidates: tuple[str, ...]) -> str | None:
        """It is one of these."""
        if self._as is not None:
            return self._as
        self._candidates, self._likely = candidates, candidates[0]
        return None

    def _tried(self) -> str | None:
        """The first candidate in which both directions are right; else, unless more octets may show
        that it is another, the one that is right for longest."""
        found: dict[str, Sense] = {}
        for version in self._candidates:
            ways = [sense_of(version, octets) for octets in self._ways.values()]
            sense = Sense(all(way.whole for way in ways), sum(way.good for way in ways))
            if sense.whole and sense.good:
                return version
            found[version] = sense
        self._likely = max(found, key=lambda version: found[version].good)
        self._good = found[self._likely].good
        return None if any(sense.whole for sense in found.values()) else self.last()

    def last(self) -> str:
        """What it is taken for, as no more octets will tell."""
        some = any(len(octets) > HEADER_OCTETS for octets in self._ways.values())
        if some and not self._good:
            self.remark = ", though it does not read so (--as VERSION, if it is another)"
        return self._likely

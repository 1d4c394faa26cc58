"""Finds the version of a server from its first octets, for the client role.

A client opens with a header. The server answers with a first frame, with the header that it prefers
(0-9-1 §2.2.4, 1.0 §2.2), or with the end of the stream, as 0.8a2 and the drafts of 2005 refuse.
``AMQP 1 1 0 9`` opens 0-9 and both drafts, 0-9a0 with two readings of its method header, and
``AMQP 1 1 0 10`` both revisions of the transitional 0-10; their first frame, connection.start, is
laid out differently in each.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from gateway.adapters.contract import Adapter
from gateway.adapters.core.trace_lines import HEADER_OCTETS, preview
from gateway.adapters.methods.transitional.versions import REQUESTS
from gateway.adapters.registry import VERSIONS, Shape, opened_by, sharing
from gateway.errors import Condition, Lost, Refusal

REFUSING_NO_HEADER = (REQUESTS,)
"""Versions whose servers answer every header with their first frame, which no other version has."""


class Answer(NamedTuple):
    """A server's first octets: frames of ``version``; or ``header``, which it prefers; or, with
    neither, no AMQP."""

    version: str = ""
    header: bytes = b""


def answer_of(octets: bytes, asked: str) -> Answer | None:
    """The answer to the header of a version; ``None`` while more octets are needed."""
    head = octets[:HEADER_OCTETS]
    if head[:4] == b"AMQP"[: len(head)]:
        if len(head) < HEADER_OCTETS:
            return None
        group = {name: VERSIONS[name] for name in sharing(asked)}
        echoing = (
            name for name, row in group.items() if not row.first_frame and head in row.headers
        )
        echoed = next(echoing, "")
        return Answer(echoed) if echoed else Answer(header=head)
    names = dict.fromkeys((*sharing(asked), *REFUSING_NO_HEADER))
    frames = ((name, VERSIONS[name].first_frame) for name in names)
    fits = {name: _fits(frame, octets) for name, frame in frames if frame}
    for name, fit in fits.items():
        if fit:
            return Answer(name)
    return None if None in fits.values() else Answer()


def _fits(known: Shape, octets: bytes) -> bool | None:
    """Whether octets have this beginning; ``None`` if there are too few to tell."""
    if any(one not in (None, octet) for one, octet in zip(known, octets, strict=False)):
        return False
    return True if len(octets) >= len(known) else None


class Search:
    """Finds the adapter for a server: one connection after another, each header once at most.

    For each connection ``begin`` returns the octets to write first. ``hear`` then takes the octets
    received, and raises ``Refusal`` if the server speaks none of the versions asked for;
    ``hung_up`` makes that refusal if the connection ended before. While there is ``more``, the next
    connection may have another answer.
    """

    def __init__(self, versions: Iterable[str], make: Callable[[str], Adapter]) -> None:
        """``versions``: the acceptable versions, best first. ``make``: makes an adapter for one of
        them, in the client role."""
        self._left: dict[bytes, dict[str, Adapter]] = {}
        for version in versions:
            adapter = make(version)
            self._left.setdefault(b"".join(adapter.output()), {})[version] = adapter
        self._asked: dict[str, Adapter] = {}
        self._wanted = b""
        """The header that the server prefers."""
        self._failed: list[str] = []
        self._answered = False

    @property
    def more(self) -> bool:
        """There is a header that has not been tried."""
        return bool(self._left)

    @property
    def asking(self) -> str:
        """The versions asked for on this connection, as text."""
        return " or ".join(self._asked)

    def begin(self) -> bytes:
        """The octets to write first on the next connection: the header that the server prefers, if
        it is one of ours, else the next best. Raises ``LookupError`` if there is no ``more``."""
        wanted = set(opened_by(self._wanted))
        liked = [octets for octets, group in self._left.items() if wanted & _all(group)]
        octets = (liked or list(self._left))[0]
        self._asked = self._left.pop(octets)
        return octets

    def hear(self, octets: bytes) -> Adapter | None:
        """The adapter of the server's version, which has still to receive these octets, all that
        have come. ``None`` while more are needed. Raises ``Refusal``."""
        answer = answer_of(octets, next(iter(self._asked)))
        if answer is None:
            return None
        self._answered = True
        if answer.version in self._asked:
            return self._asked[answer.version]
        if answer.version:
            self._wanted = VERSIONS[answer.version].headers[0]
            raise self._refusal(f"it speaks {answer.version}")
        if answer.header:
            self._wanted = answer.header
            numbers = " ".join(str(octet) for octet in answer.header[4:])
            raise self._refusal(f"it answers AMQP {numbers}")
        self._left.clear()
        if octets[:2] == b"\x15\x03":
            raise self._refusal("it answers in TLS")
        line = octets.split(b"\r\n")[0]
        raise self._refusal(f"this is no AMQP: {preview(line)}")

    def hung_up(self, octets: bytes) -> Refusal:
        """Why there is no answer on a connection that ended after these octets."""
        if octets:
            return self._refusal(f"it hangs up after {preview(octets)}")
        return self._refusal("it hangs up without a word")

    def _refusal(self, why: str) -> Refusal:
        """All versions that were tried. A server that never answered may do so later."""
        self._failed.append(f"{self.asking} ({why})")
        condition = Condition.NOT_IMPLEMENTED if self._answered else Condition.CONNECTION_FORCED
        text = f"the server does not speak {', nor '.join(self._failed)}"
        return Refusal(condition, text, Lost.CONNECTION)


def _all(group: Iterable[str]) -> set[str]:
    """All versions with the headers of these."""
    return {name for version in group for name in sharing(version)}

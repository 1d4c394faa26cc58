"""One direction of a recorded connection, read without its broker: frames are cut, messages are put
together, and octets that cannot be read are told and passed over.

Every message that begins comes out, as ``Found`` or as ``Bad``; so does every stretch of octets
that is no frame. So ``messages + unreadable`` is the number of items at the end.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import NamedTuple

from gateway.bodies import Body
from gateway.message import UNFORESEEN, Dialect

MOST_FRAME = 64 << 20
"""Octets of one frame."""
MOST_BODY = 128 << 20
"""Octets of one message's body."""
MOST_UNFINISHED = 256 << 20
"""Octets of all messages of one direction of which more is to come."""
MOST_SEARCHED = 1 << 20
"""Octets that a frame may have behind a stretch that is lost: more of them are not waited for."""
HEAD_OCTETS = 16
"""Octets of the head of a frame, at most: a place among the last ones is looked at again."""
MOST_SHOWN = 4 << 10
"""Octets of a lost stretch or broken frame that are kept."""

PUBLISHED, DELIVERED, RETURNED = "published", "delivered", "returned"
ODD = (*UNFORESEEN, ValueError)
"""Errors of decoders for octets that break the rules of the version."""


class Found(NamedTuple):
    """A message, in the dialect of its version. ``offset``: where its first frame begins in its
    direction of the connection."""

    offset: int
    direction: str
    dialect: Dialect
    exchange: str
    key: str
    header: bytes
    body: Body


class Bad(NamedTuple):
    """A message that cannot be put together, or octets that are no frame. ``position``: the octet
    at which that shows. ``wire``: the beginning of the octets in question, of which there are
    ``octets``."""

    offset: int
    direction: str
    position: int
    code: str
    text: str
    octets: int = 0
    wire: bytes = b""


class Broken(Exception):
    """No frame begins here."""

    def __init__(self, text: str, code: str = "frame-broken", size: int = 0) -> None:
        """``size``: octets of the frame here, if its head can be believed."""
        super().__init__(text)
        self.code = code
        self.size = size


class Lost(NamedTuple):
    """A stretch that is being passed over: where it begins, and why."""

    begin: int
    code: str
    text: str
    wire: bytes


class Side(ABC):
    """The frames of one direction. A family's own reads them."""

    chain = 2
    """Frames in a row that end a stretch of octets that are none."""
    ended = False
    """Whether an octet ends each frame. If none does, a frame that is cut takes octets of the next
    one: its message is believed when something that begins a frame follows."""

    def __init__(self, from_client: bool) -> None:
        self.from_client = from_client
        self.direction = PUBLISHED if from_client else DELIVERED
        self.messages = 0
        """Messages that have begun."""
        self.unreadable = 0
        """Frames without a message, and stretches, that cannot be read."""
        self.items: list[Found | Bad] = []
        self._pieces: list[bytes] = []
        self._held = self._need = 0
        self._base = 0
        """The position of the octets that are held."""
        self._lost: Lost | None = None
        self._doubtful: Found | None = None
        """The message of the last frame, until the next one begins."""
        self._scanned = 0
        """Of the held octets, those that begin no frame."""
        self._hint = -1
        """The position behind the lost frame, if its head can be believed."""

    # --- the rules of a family --------------------------------------------------------------------

    @abstractmethod
    def size(self, buf: bytes, at: int) -> int | None:
        """Octets of the frame at ``at``; ``None`` if more are needed to tell. Raises ``Broken``."""

    @abstractmethod
    def take(self, buf: bytes, at: int, end: int) -> None:
        """Read a whole frame. Raises ``Broken`` if it is none, before anything is done; the errors
        in ``ODD`` for one that cannot be read."""

    @abstractmethod
    def likely(self, buf: bytes, at: int, end: int) -> bool:
        """Whether a whole frame looks like one of this version. Reads a few octets only."""

    @abstractmethod
    def candidates(self, buf: bytes, at: int) -> Iterator[int]:
        """Places from ``at`` on where a frame may begin, rising."""

    @abstractmethod
    def abandon(self, position: int, text: str) -> None:
        """Octets are missing: no message that has begun can be put together. The rest of them is
        passed over, where it can be told from the next one."""

    # --- octets -----------------------------------------------------------------------------------

    def feed(self, data: bytes) -> None:
        """Octets that follow."""
        self._pieces.append(data)
        self._held += len(data)
        if self._held >= self._need:
            self._read(False)

    def gap(self, text: str) -> None:
        """Octets are missing here, nobody knows how many."""
        self._read(True)
        self._believe()
        position = self._base + self._held
        self.unreadable += 1
        self.items.append(Bad(position, self.direction, position, "octets-missing", text))
        self.abandon(position, text)

    def end(self) -> None:
        """The recording ends."""
        self._read(True)
        self._believe()
        self.abandon(self._base, "the recording ends before the message does")

    def _read(self, final: bool) -> None:
        buf = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        at, end = 0, len(buf)
        need = 0
        while at < end:
            if self._lost is not None:
                at = self._search(buf, at, final)
                if self._lost is not None:
                    need = 2 * (end - at) + (64 << 10)
                    break
            try:
                size = self.size(buf, at)
                if size is not None and size > MOST_FRAME:
                    raise Broken(f"a frame of {size} octets", "frame-too-large")
                if size is not None and self._doubtful is not None:
                    self._believe()
                if size is None or at + size > end:
                    need = size or end - at + 1
                    if not final:
                        break
                    raise Broken(f"the last frame is cut: {end - at} octets of it", "stream-cut")
                self._take(buf, at, at + size)
            except Broken as error:
                self._lose(buf, at, error)
                continue
            at += size
        if final and self._lost is not None:
            self._pass_over(self._base + end)
            at = end
        self._base += at
        self._scanned = max(0, self._scanned - at)
        rest = buf[at:]
        self._pieces = [rest] if rest else []
        self._held, self._need = len(rest), need

    def _take(self, buf: bytes, at: int, end: int) -> None:
        try:
            self.take(buf, at, end)
        except ODD as error:
            position = self._base + at
            self.unreadable += 1
            self.items.append(
                Bad(
                    position, self.direction, position, "frame-broken", text_of(error), end - at,
                    buf[at : min(end, at + MOST_SHOWN)],
                )
            )  # fmt: skip

    # --- lost stretches ---------------------------------------------------------------------------

    def _lose(self, buf: bytes, at: int, error: Broken) -> None:
        position = self._base + at
        wire = buf[at : at + MOST_SHOWN]
        self._lost = Lost(position, error.code, str(error), wire)
        doubtful, self._doubtful = self._doubtful, None
        if doubtful is not None:
            text = "no frame follows: its last frame may have octets of another one"
            octets = doubtful.header + bytes(doubtful.body[:MOST_SHOWN])
            self.failed(doubtful.offset, position, "message-doubtful", text, octets)
        self._scanned = at + 1
        self._hint = position + error.size if error.size else -1
        self.abandon(position, "octets of the message may be missing")

    def _search(self, buf: bytes, at: int, final: bool) -> int:
        """Where frames begin again; otherwise the first place where that is not decided."""
        end = len(buf)
        hold = max(at, end - HEAD_OCTETS)
        hint = self._hint - self._base
        if at < hint < end and self._chained(buf, hint, end, final):
            self._pass_over(self._hint)
            return hint
        for place in self.candidates(buf, max(at, self._scanned)):
            verdict = self._chained(buf, place, end, final)
            if verdict:
                self._pass_over(self._base + place)
                return place
            if verdict is None and end - place <= MOST_SEARCHED:
                hold = min(hold, place)
        self._scanned = hold
        return hold

    def _chained(self, buf: bytes, at: int, end: int, final: bool) -> bool | None:
        """Whether frames follow one another from there on; ``None`` if more octets will tell."""
        for done in range(self.chain):
            if at == end and done:
                return True if final else None
            try:
                size = self.size(buf, at)
            except (Broken, *ODD):
                return False
            if size is None or at + size > end:
                return False if final or (size or 0) > MOST_SEARCHED else None
            if size <= 0 or not self.likely(buf, at, at + size):
                return False
            at += size
        return True

    def _pass_over(self, until: int) -> None:
        lost, self._lost = self._lost, None
        assert lost is not None
        self._scanned = 0
        octets = until - lost.begin
        self.unreadable += 1
        self.items.append(
            Bad(
                lost.begin, self.direction, lost.begin, lost.code, lost.text, octets,
                lost.wire[:octets],
            )
        )  # fmt: skip

    # --- messages ---------------------------------------------------------------------------------

    def found(
        self, offset: int, direction: str, dialect: Dialect, exchange: str, key: str,
        header: bytes, body: Body,
    ) -> None:  # fmt: skip
        """A message is complete."""
        found = Found(offset, direction, dialect, exchange, key, header, body)
        if self.ended:
            self.items.append(found)
        else:
            self._believe()
            self._doubtful = found

    def _believe(self) -> None:
        doubtful, self._doubtful = self._doubtful, None
        if doubtful is not None:
            self.items.append(doubtful)

    def failed(self, offset: int, position: int, code: str, text: str, wire: bytes = b"") -> None:
        """A message that has begun does not come out."""
        self.items.append(
            Bad(offset, self.direction, position, code, text, len(wire), wire[:MOST_SHOWN])
        )

    def position(self, at: int) -> int:
        """The position in this direction of an octet that is held."""
        return self._base + at


def text_of(error: BaseException) -> str:
    """A short sentence of an error, in which octets of peers are bounded."""
    return (str(error) or type(error).__name__)[:500]

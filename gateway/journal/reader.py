"""The whole journal for a reader: sealed segments, then the entries still in the store."""

from pathlib import Path
from typing import NamedTuple

from gateway.bodies import Body
from gateway.journal.entries import (
    ALL,
    Entry,
    JournalError,
    Portion,
    Question,
    Span,
    Trimmed,
    Vanished,
)
from gateway.journal.segments import Segment, list_segments, span_of
from gateway.journal.tail import Tail
from gateway.store.large import opened_body

SEGMENTS = "journal"
"""The directory of sealed segments in the data directory, unless another is set."""
AGAIN = 3
"""Times that a range is looked for anew which is sealed or removed meanwhile."""


class Overview(NamedTuple):
    """Positions from ``start`` to ``end`` (not included) can be read; those before ``sealed`` are
    in segments. ``id`` is "" before the first entry."""

    id: str
    start: int
    sealed: int
    end: int
    segments: tuple[Span, ...]


class JournalReader:
    """Over a data directory (``tail``), a directory of sealed segments, or both. For one thread
    at a time. Raises ``JournalError``."""

    def __init__(self, data_dir: Path | None, directory: Path | None = None) -> None:
        if data_dir is None and directory is None:
            raise JournalError("a journal is read from a data directory or from segments")
        self.tail = None if data_dir is None else Tail(data_dir)
        self.directory = directory or (data_dir or Path()) / SEGMENTS
        self._segments: dict[str, Segment] = {}
        self._read_last: Segment | None = None

    def close(self) -> None:
        if self.tail is not None:
            self.tail.close()
        for one in self._segments.values():
            one.close()

    def segments(self) -> list[Segment]:
        """Those there are now; what is known of a file is kept."""
        listed = list_segments(self.directory)
        names = {one.path.name: one for one in listed}
        for name in self._segments.keys() - names.keys():
            self._segments.pop(name).close()
        for name, one in names.items():
            self._segments.setdefault(name, one)
        return [self._segments[one.path.name] for one in listed]

    def overview(self) -> Overview:
        """Where the journal begins and ends now."""
        # The store first: what leaves it meanwhile is in a segment before.
        head = None if self.tail is None else self.tail.head()
        span = Span(0, 0) if self.tail is None else self.tail.span()
        segments = self.segments()
        sealed = span_of(segments)
        name = "" if head is None else head.id
        if not name and segments:
            name = segments[-1].notes.journal
        start = segments[0].start if segments else span.start
        spans = tuple(Span(one.start, one.end) for one in segments)
        return Overview(name, start, max(sealed.end, start), max(span.end, sealed.end), spans)

    def read(self, start: int, question: Question = ALL, end: int | None = None) -> Portion:
        """Entries from a position on. Raises ``Trimmed`` if it was removed."""
        for _ in range(AGAIN):
            found = self._read(start, question, end)
            if found is not None:
                return found
        return self._beyond(start)

    def body(self, entry: Entry) -> Body:
        """The body of an entry that was read with bodies. Raises ``FileNotFoundError`` if retention
        has removed the file in which it was."""
        if entry.reference:
            return opened_body(self.directory / entry.reference)
        return entry.message.body

    def _beyond(self, start: int) -> Portion:
        """Of a position that is nowhere: nothing was kept there, or all before it has gone too."""
        span = Span(0, 0) if self.tail is None else self.tail.span()
        segments = self.segments()
        following = [one.start for one in segments if one.start > start]
        if not segments or start < segments[0].start:
            raise Trimmed(start, segments[0].start if segments else span.start)
        return Portion([], following[0] if following else max(start, span.start))

    def _read(self, start: int, question: Question, end: int | None) -> Portion | None:
        """``None`` if it is neither in a segment nor in the store."""
        segments = self.segments()
        for one in segments:
            if one.start <= start < one.end:
                if self._read_last not in (None, one):
                    self._read_last.close()
                self._read_last = one
                try:
                    return one.read(start, question, end)
                except FileNotFoundError:
                    return None
        if segments and start < segments[-1].end:
            return None
        if self.tail is None:
            return Portion([], start)
        span = self.tail.span()
        if start < span.start:
            return None
        try:
            return self.tail.read(start, question, end)
        except Vanished:
            return None

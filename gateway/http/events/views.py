"""A source in another shape: a format, an event name, a filter.

Journals hold the frames that most streams read. Any other *view* renders frames from the same
messages when they are read, once for all its readers. An event that a filter leaves out has an
empty frame.
"""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from gateway.http.events.journal import NOTHING_ASKED, Event, Journal
from gateway.http.events.rendering import Renderer
from gateway.http.filters import Filter
from gateway.http.message_json import readable_properties
from gateway.http.octets import Octets, concatenated
from gateway.http.redaction import redacted
from gateway.message import Message
from gateway.selector.like import EFFORT

KEPT_OCTETS = 1024 * 1024
"""Rendered frames that a view keeps."""
MOST_NAME = 255
STEPS_OF_AN_OCTET = 4
"""So many steps of a selector's patterns, as a power of two, count as an octet of a frame."""


class ViewSpec(NamedTuple):
    """The form of events that a stream asked for. ``alias`` is the declared route that it reads a
    source by, "" for none; the rest is the same for all its sources."""

    format: str = "json"
    event: str = "none"
    opaque: bool = False
    filter: Filter = Filter()
    alias: str = ""

    @property
    def plain(self) -> bool:
        return self == PLAIN


PLAIN = ViewSpec()


@dataclass(eq=False)
class View:
    """Shared by the readers of one source with the same spec. ``shown`` is its name for them;
    ``id_line`` makes the ``id:`` line of a position, ``offset`` its number for readers."""

    journal: Journal
    spec: ViewSpec
    shown: str
    renderer: Renderer
    id_line: Callable[[int], bytes]
    offset: Callable[[int], int]
    readers: int = 0
    chunk_asked: tuple[int, int, int] = NOTHING_ASKED
    chunk: tuple[Octets, int] = (b"", 0)
    kept: OrderedDict[int, Octets] = field(default_factory=OrderedDict)
    octets: int = 0
    as_stored: bool = field(init=False)
    whole: bool = field(init=False)
    """All events are shown, as their publishers sent them and without names."""

    def __post_init__(self) -> None:
        spec = self.spec
        self.as_stored = spec == ViewSpec(filter=spec.filter)
        self.whole = not (spec.filter or spec.alias or spec.event != "none" or self.as_stored)

    def read(self, after: int, max_octets: int) -> tuple[Octets, int]:
        """As ``Journal.read``: readers at the same place get the same object."""
        head = self.journal.head
        asked = (after, head, max_octets)
        if asked != self.chunk_asked:
            if after + 1 == head:
                self.chunk = (self.frame(head), head)
            else:
                frames, reached = self.frames(after, max_octets)
                self.chunk = (concatenated(*frames), reached)
            self.chunk_asked = asked
        return self.chunk

    def frames(self, after: int, max_octets: int) -> tuple[list[Octets], int]:
        """As ``Journal.frames``."""
        journal = self.journal
        position = max(after, journal.first - 1)
        frames: list[Octets] = []
        octets = 0
        while position < journal.head and octets < max_octets:
            position += 1
            before = EFFORT.steps
            frame = self.frame(position)
            # Filtered events cost time too, and the more the harder the selector.
            octets += (len(frame) or 64) + (EFFORT.steps - before >> STEPS_OF_AN_OCTET)
            frames.append(frame)
        return frames, position

    def frame(self, position: int) -> Octets:
        """As ``Journal.frame``."""
        frame = self.kept.get(position)
        if frame is None:
            frame = self.kept[position] = self.render(position)
            self.octets += len(frame) + 64
            if self.octets > KEPT_OCTETS:
                self.evict()
        return frame

    def has(self, position: int) -> bool:
        """Whether it is rendered, or left out."""
        return position in self.kept or not self.shows(position)

    def shows(self, position: int) -> bool:
        """Whether there is something, and it is not left out."""
        event = self.journal.event(position)
        if event is None:
            return False
        return self.wants(redacted(event.message) if self.spec.alias else event.message)

    def render(self, position: int) -> Octets:
        event = self.journal.event(position)
        if event is not None and self.whole:
            line, lines = self.id_line(position), self.rendered(position, event)
            return line + lines if lines.__class__ is bytes else concatenated(line, lines)
        if event is not None and self.spec.alias:
            event = event._replace(message=redacted(event.message))
        if event is None or not self.wants(event.message):
            return b""
        if self.as_stored:
            return self.journal.frame(position)
        head = self.id_line(position) + self.name_line(event)
        return concatenated(head, self.rendered(position, event))

    def rendered(self, position: int, event: Event) -> Octets:
        """All but the cursor and the name."""
        spec, offset = self.spec, self.offset(position)
        return self.renderer.lines(
            spec.format, offset, event.message, event.redelivered, spec.opaque
        )

    def wants(self, message: Message) -> bool:
        wanted = self.spec.filter
        return not wanted or wanted.passes(message)

    def name_line(self, event: Event) -> bytes:
        asked = self.spec.event
        if asked == "none":
            return b""
        name = self.shown if asked == "source" else name_of(event.message, asked)
        return event_line(name)

    def evict(self) -> None:
        while self.octets > KEPT_OCTETS and len(self.kept) > 1:
            _, gone = self.kept.popitem(last=False)
            self.octets -= len(gone) + 64

    def forget(self, after: int) -> None:
        """The events after this position went back."""
        self.chunk_asked = NOTHING_ASKED
        for position in [one for one in self.kept if one > after]:
            self.octets -= len(self.kept.pop(position)) + 64


def name_of(message: Message, asked: str) -> str:
    """The subject or type of a message, "" if it has none."""
    properties = readable_properties(message)
    if properties is None:
        return ""
    return (properties.type or "") if asked == "type" else properties.subject or message.key


def event_line(name: str) -> bytes:
    """``event:`` with a name from the publisher: it is left out if it would end the line or pass
    for one of ours."""
    octets = name.encode("utf-8", "replace")
    if not octets or len(octets) > MOST_NAME or min(octets) < 0x20:
        return b""
    if octets in (b"open", b"error") or octets.startswith(b"gateway."):
        return b""
    return b"event: " + octets + b"\n"

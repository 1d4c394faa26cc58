"""A stream queue as the source of an event stream: its positions are the offsets of the log."""

from typing import Any

import pytest

from gateway.adapters.methods.content import BASIC
from gateway.http.events.cursor import Cursors, digest_of
from gateway.http.events.opening import NOWHERE, start
from gateway.http.events.sources import Place, SourceName
from gateway.http.events.stream import Resume
from gateway.http.events.stream_queue import MOST_RECORDS, StreamQueueSource
from gateway.http.events.stream_request import Start
from gateway.message import Message, Properties

NAME = SourceName("queue", "log", reader="one")
BASE = 2**33
"""Offsets are written with eight octets, as RabbitMQ writes them."""


class Reader:
    def __init__(self) -> None:
        self.closed: list[tuple[str, bool]] = []

    def wake(self) -> None:
        """Nothing is written."""

    def close(self, reason: str, reconnect: bool = True, retry_ms: int | None = None) -> None:
        self.closed.append((reason, reconnect))


class Channel:
    """Records which deliveries give credit."""

    def __init__(self) -> None:
        self.settled: list[int] = []

    def settle(self, delivery: int, outcome: object) -> None:
        self.settled.append(delivery)


def made(rig: Any, place: Place) -> StreamQueueSource:
    return StreamQueueSource(rig.app.state.hub, "/", NAME, "queue:log", place)


def deliver(source: StreamQueueSource, *offsets: int) -> None:
    for offset in offsets:
        header = BASIC.write(Properties(application={"x-stream-offset": BASE + offset}))
        message = Message(BASIC, header, b"", "", "log", BASIC.essentials(header))
        source.deliver("", offset, False, message)


def cursor_of(source: StreamQueueSource, position: int) -> int:
    """The offset in the ``id:`` of an event, as another gateway reads it."""
    text = source.id_line(position).decode().removeprefix("id: ").strip()
    found = Cursors(b"2" * 32).open(text)
    assert found is not None
    return found[digest_of("/", "queue:log")] - BASE


def test_cursors_are_offsets(rig: Any) -> None:
    source = made(rig, Place(BASE + 7))
    deliver(source, 7, 8, 9)
    journal = source.journal
    assert len(journal) == 3
    positions = range(journal.first, journal.head + 1)
    assert [source.offset(one) - BASE for one in positions] == [7, 8, 9]
    assert [cursor_of(source, one) for one in positions] == [8, 9, 10]


def test_offsets_of_the_brokers_own_records_are_skipped(rig: Any) -> None:
    """Also behind events that the ring has lost."""
    source = made(rig, Place(BASE))
    source.journal.max_events = 4
    source.journal.pin = None
    deliver(source, 0, 1, 3, 4, 9, 10, 11)
    journal = source.journal
    positions = range(journal.first, journal.head + 1)
    assert [source.offset(one) - BASE for one in positions] == [4, 9, 10, 11]
    assert [cursor_of(source, one) for one in positions] == [5, 10, 11, 12]
    deliver(source, *range(20, 200, 2))
    assert source.offset(journal.head) == BASE + 198 == cursor_of(source, journal.head) + BASE - 1
    assert len(source.skipped) <= journal.max_events + 2


def test_what_has_come_already_is_left_out(rig: Any) -> None:
    source = made(rig, Place(BASE + 2))
    channel = Channel()
    source.channel = channel  # type: ignore[assignment]
    deliver(source, 1, 2, 3, 2, 3, 4)
    assert len(source.journal) == 3
    assert channel.settled == [1, 2, 3]


@pytest.mark.parametrize(("missing", "ends"), [(MOST_RECORDS, False), (MOST_RECORDS + 1, True)])
def test_a_reader_that_retention_overtakes_comes_back(rig: Any, missing: int, ends: bool) -> None:
    """What is missing is told when it resumes; nothing behind the gap is shown before."""
    source = made(rig, Place(BASE))
    reader = Reader()
    source.readers.add(reader)  # type: ignore[arg-type]
    source.hub._scheduled = True  # type: ignore[attr-defined]
    deliver(source, 0, 1 + missing, 2 + missing)
    assert [reconnect for _, reconnect in reader.closed] == [True] * ends
    assert len(source.journal) == (1 if ends else 3)


@pytest.mark.parametrize(
    ("place", "resume", "gap"),
    [
        (Place(BASE + 5), Resume.fresh, None),
        (Place(BASE + 5, known=True), Resume.exact, None),
        (Place(BASE + 5, lost=3), Resume.gap, (2, 4, 3)),
        (Place(BASE, lost=None), Resume.gap, (None, None, None)),
        (Place(0, known=True), Resume.exact, None),
        (Place(0), Resume.fresh, None),
    ],
)
def test_where_a_reader_begins(rig: Any, place: Place, resume: Resume, gap: Any) -> None:
    source = made(rig, place)
    position, found = start(source, Start(), {}, None, place)
    assert found is resume
    told = source.journal.gap(position)
    if gap is None:
        assert told is None and source.place(position) == place.offset
    elif gap[2] is None:
        assert position == NOWHERE and told is not None and told.lost is None
    else:
        assert told is not None
        shown = source.offset(told.start) - BASE, source.offset(told.end) - BASE, told.lost
        assert shown == gap

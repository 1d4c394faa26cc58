"""A connection with slow requests does not keep others from being read."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from gateway.config.amqp import AmqpSettings
from gateway.net import connection
from gateway.net.connection import Connection
from gateway.net.listener_rules import rules_of
from gateway.net.read_size import LARGEST, LONG_SECONDS, SHORT_SECONDS, SMALLEST, ReadSize


class Reading(asyncio.Transport):
    """Notes whether it is read from."""

    def __init__(self) -> None:
        super().__init__({"peername": ("127.0.0.1", 1), "sockname": ("127.0.0.1", 2)})
        self.said: list[str] = []
        self.waiting = 0

    def get_write_buffer_size(self) -> int:
        return self.waiting

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """They do not matter."""

    def pause_reading(self) -> None:
        self.said.append("pause")

    def resume_reading(self) -> None:
        self.said.append("resume")

    def abort(self) -> None:
        """Its connection is told by the test."""


def made() -> tuple[Connection, Reading]:
    nothing = SimpleNamespace(begin=lambda: None, end=lambda: None)
    listener = SimpleNamespace(
        broker=SimpleNamespace(access=None),
        passwords=None,
        turn=nothing,
        settings=AmqpSettings(),
        enter=lambda one: None,
        leave=lambda one: None,
    )
    transport = Reading()
    found = Connection(cast(Any, listener), RULES)
    found.connection_made(transport)
    return found, transport


RULES = rules_of(AmqpSettings())


@pytest.mark.parametrize(("long", "said"), [(-1.0, ["pause", "resume"]), (1000.0, [])])
def test_after_a_long_read_the_others_come_first(
    monkeypatch: pytest.MonkeyPatch, long: float, said: list[str]
) -> None:
    monkeypatch.setattr(connection, "LONG_READ_SECONDS", long)

    async def read() -> None:
        peer, transport = made()
        peer.data_received(b"A")
        assert transport.said == said[:1]
        await asyncio.sleep(0)
        assert transport.said == said

    asyncio.run(read())


def test_a_lost_connection_is_not_read_from(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "LONG_READ_SECONDS", -1.0)

    async def read() -> None:
        peer, transport = made()
        peer.data_received(b"A")
        peer.connection_lost(None)
        await asyncio.sleep(0)
        assert transport.said == ["pause"]

    asyncio.run(read())


def test_reads_are_as_large_as_their_time_allows() -> None:
    """So that receivers do not wait for the first of very many small messages."""
    size = ReadSize()
    begun = size.octets
    long, short, other = LONG_SECONDS * 2, SHORT_SECONDS / 2, (LONG_SECONDS + SHORT_SECONDS) / 2
    for seconds in (long, other, long):  # one alone may have waited for the processor
        size.adapt(seconds)
        assert size.octets == begun
    size.adapt(long)
    assert size.octets == len(size.room) == begun // 2
    for _ in range(20):
        size.adapt(long)
    assert size.octets == len(size.room) == SMALLEST
    size.adapt(other)
    assert size.octets == SMALLEST
    size.adapt(short)
    assert size.octets == SMALLEST * 2
    for _ in range(20):
        size.adapt(short)
    assert size.octets == len(size.room) == LARGEST


@pytest.mark.parametrize(("missing", "adapted"), [(0, 1), (1, 0)])
def test_only_full_reads_say_how_much_is_to_be_read(
    monkeypatch: pytest.MonkeyPatch, missing: int, adapted: int
) -> None:
    said: list[float] = []
    monkeypatch.setattr(ReadSize, "adapt", lambda self, seconds: said.append(seconds))
    monkeypatch.setattr(Connection, "_detect", lambda self, data: None)

    async def read() -> None:
        peer, _ = made()
        peer.buffer_updated(len(peer.get_buffer(-1)) - missing)
        assert len(said) == adapted
        await asyncio.sleep(0)

    asyncio.run(read())


def test_what_is_read_is_copied_out_of_the_room_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Connections read into the same octets."""
    heard: list[bytes] = []
    monkeypatch.setattr(Connection, "_detect", lambda self, data: heard.append(data))

    async def read() -> None:
        for octets in (b"first", b"second one", b"3"):
            peer, _ = made()
            room = peer.get_buffer(-1)
            room[: len(octets)] = octets
            peer.buffer_updated(len(octets))

    asyncio.run(read())
    assert heard == [b"first", b"second one", b"3"]


class Reader:
    """An adapter that reads three frames of one octet at once."""

    def __init__(self) -> None:
        self.heard: list[bytes] = []
        self.waiting = b""
        self.closing = False
        self.frames = SimpleNamespace(unread=False)

    def receive(self, data: bytes) -> list[Any]:
        self.waiting += data
        return [] if self.frames.unread else self.read_on()

    def read_on(self) -> list[Any]:
        self.heard.append(self.waiting[:3])
        self.waiting = self.waiting[3:]
        self.frames.unread = bool(self.waiting)
        return []


def reading(monkeypatch: pytest.MonkeyPatch) -> tuple[Connection, Reading, Reader, list[Any]]:
    """A connection whose adapter is a ``Reader``; the last is filled when its session ends."""
    monkeypatch.setattr(connection, "LONG_READ_SECONDS", 1000.0)
    peer, transport = made()
    reader, ended = Reader(), list[Any]()
    peer.adapter = cast(Any, reader)
    monkeypatch.setattr(Connection, "_perform_found", lambda self, find: find())
    monkeypatch.setattr(Connection, "_end_session", lambda self: ended.append(self))
    return peer, transport, reader, ended


def test_what_is_left_of_a_read_waits_for_another_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is read from the socket meanwhile, what comes all the same is behind it, and others
    have their turn between two portions."""

    async def read() -> None:
        peer, transport, reader, _ = reading(monkeypatch)
        peer.data_received(b"aaabbbc")
        assert reader.heard == [b"aaa"] and transport.said == ["pause"]
        peer.let_go()
        peer.data_received(b"cd")
        while reader.waiting:
            turns = len(reader.heard)
            await asyncio.sleep(0)
            assert len(reader.heard) <= turns + 1
        await asyncio.sleep(0)
        assert reader.heard == [b"aaa", b"bbb", b"ccd"]
        assert transport.said[-1] == "resume" and transport.said.count("resume") == 1
        assert peer.octets_in == 9

    asyncio.run(read())


def test_a_connection_that_is_held_back_reads_nothing_on(monkeypatch: pytest.MonkeyPatch) -> None:
    async def read() -> None:
        peer, transport, reader, _ = reading(monkeypatch)
        peer.hold()
        peer.data_received(b"aaabbb")
        for _ in range(4):
            await asyncio.sleep(0)
        assert reader.heard == [b"aaa"]
        peer._held_back = True
        peer.let_go()
        for _ in range(4):
            await asyncio.sleep(0)
        assert reader.heard == [b"aaa", b"bbb"] and transport.said[-1] == "resume"

    asyncio.run(read())


def test_a_socket_that_is_lost_is_not_touched() -> None:
    """A transport of uvloop raises then."""
    peer, transport = made()
    peer._lost = True  # and there may be octets that were read before
    peer.hold()
    peer._stop_reading()
    peer.hold_for_login()
    peer._yield_to_others()
    assert transport.said == []


def test_the_silence_of_a_peer_that_is_not_read_from_is_excused_while_it_takes_output() -> None:
    peer, transport = made()
    excused: list[None] = []
    adapter = SimpleNamespace(excuse_silence=lambda: excused.append(None), tick=lambda now: [])
    peer.adapter = cast(Any, adapter)
    peer.session = cast(Any, SimpleNamespace(opened=True, perform=lambda found: None))
    cast(Any, peer.listener.turn).wake = lambda one: None
    peer._output_stalled = True
    peer.octets_out = 1000

    def times(waiting: int) -> int:
        excused.clear()
        transport.waiting = waiting
        peer.tick(0.0)
        return len(excused)

    assert times(900) == 1
    assert times(900) == 0
    assert times(899) == 1
    peer.octets_out += 8  # a heartbeat of ours, which is longer in TLS
    assert times(899 + 30) == 0
    assert [times(0), times(0)] == [1, 1], "it waits for us: a request of it is not finished"
    peer._held_back = True
    assert [times(50), times(50)] == [1, 1], "it may be writing, and cannot read before we do"


def test_what_a_lost_peer_had_sent_is_performed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def read() -> None:
        peer, transport, reader, ended = reading(monkeypatch)
        peer.data_received(b"aaabbbccc")
        peer.connection_lost(None)
        assert not ended
        for _ in range(6):
            await asyncio.sleep(0)
        assert reader.heard == [b"aaa", b"bbb", b"ccc"] and ended == [peer]
        assert "resume" not in transport.said

    asyncio.run(read())


@pytest.mark.parametrize("closing", [True, False])
def test_an_aborted_connection_performs_nothing_more(
    monkeypatch: pytest.MonkeyPatch, closing: bool
) -> None:
    """Nor one whose adapter has closed it."""

    async def read() -> None:
        peer, _, reader, ended = reading(monkeypatch)
        peer.data_received(b"aaabbbccc")
        reader.closing = closing
        if not closing:
            peer.abort()
        peer.connection_lost(None)
        for _ in range(6):
            await asyncio.sleep(0)
        assert reader.heard == [b"aaa"] and ended == [peer]

    asyncio.run(read())

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

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """They do not matter."""

    def pause_reading(self) -> None:
        self.said.append("pause")

    def resume_reading(self) -> None:
        self.said.append("resume")


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
    monkeypatch.setattr(Connection, "data_received", lambda self, data: heard.append(data))

    async def read() -> None:
        for octets in (b"first", b"second one", b"3"):
            peer, _ = made()
            room = peer.get_buffer(-1)
            room[: len(octets)] = octets
            peer.buffer_updated(len(octets))

    asyncio.run(read())
    assert heard == [b"first", b"second one", b"3"]

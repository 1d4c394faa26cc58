"""A connection with slow requests does not keep others from being read."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from gateway.config.amqp import AmqpSettings
from gateway.net import connection
from gateway.net.connection import Connection
from gateway.net.listener_rules import rules_of


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

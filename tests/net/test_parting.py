"""A peer that has closed hangs up first, if it does so soon; no other peer waits for it."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from gateway.adapters.methods import types as fields
from gateway.adapters.methods.wire import layouts as w
from gateway.adapters.methods.wire.tables import VERSIONS
from gateway.broker.broker import Broker
from gateway.broker.memory_store import MemoryStore
from gateway.config.amqp import AmqpSettings
from gateway.config.web import AccessSettings
from gateway.net import hang_up
from gateway.net.listener import ListenAddress, Listener
from gateway.net.listener_rules import rules_of
from gateway.net.loop_turn import LoopTurn
from gateway.net.passwords import Passwords
from gateway.sessions.registry import SessionRegistry
from tests.talk import method

LOGIN = w.ConnectionStartOk(fields.write_table({}), "PLAIN", b"\0guest\0guest", "en_US")
CLOSE_OK = method("0-9-1", 0, w.ConnectionCloseOk())
NEVER = 3600.0
PATIENCE = 60.0
SETTINGS = AmqpSettings(handshake_seconds=60, max_connections=100, failure_pause_seconds=0)


@asynccontextmanager
async def listening() -> AsyncIterator[tuple[Listener, int]]:
    store = MemoryStore()
    broker = Broker(store)
    turn = LoopTurn(broker, store, 1 << 20)
    passwords = Passwords(broker.access, time.time, AccessSettings())
    listener = Listener(
        turn,
        broker,
        SessionRegistry(),
        settings=SETTINGS,
        passwords=passwords,
        context=None,
    )
    async with asyncio.timeout(PATIENCE):
        try:
            yield (
                listener,
                listener.listen(ListenAddress("127.0.0.1", 0, "never", rules_of(SETTINGS))),
            )
        finally:
            await listener.close("over", PATIENCE)
            turn.close()
            passwords.close()


async def said_goodbye(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Logged in, closed, and answered."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(VERSIONS["0-9-1"].header)
    for record in (LOGIN, w.ConnectionTuneOk(0, 0, 0), w.ConnectionOpen("/")):
        writer.write(method("0-9-1", 0, record))
    writer.write(method("0-9-1", 0, w.ConnectionClose(200, "bye")))
    await reader.readuntil(CLOSE_OK)
    return reader, writer


async def gone(listener: Listener) -> None:
    while list(listener):  # noqa: ASYNC110
        await asyncio.sleep(0.01)


def test_the_peer_goes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hang_up, "HANGUP_SECONDS", NEVER)

    async def run() -> None:
        async with listening() as (listener, port):
            reader, writer = await said_goodbye(port)
            (waiting,) = listener
            assert waiting.transport is not None and not waiting.transport.is_closing()
            assert not reader.at_eof() and listener.hangups == 1
            writer.close()
            await gone(listener)
            assert listener.hangups == 0

    asyncio.run(run())


def test_a_peer_that_stays_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hang_up, "HANGUP_SECONDS", 0.01)
    monkeypatch.setattr(hang_up, "LINGER_SECONDS", 0.01)

    async def run() -> None:
        async with listening() as (listener, port):
            reader, writer = await said_goodbye(port)
            assert await reader.read() == b""
            await gone(listener)
            assert listener.hangups == 0
            writer.close()

    asyncio.run(run())


def test_few_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hang_up, "HANGUP_SECONDS", NEVER)
    monkeypatch.setattr(hang_up, "MOST_HANGUPS", 1)

    async def run() -> None:
        async with listening() as (listener, port):
            first, writer = await said_goodbye(port)
            second, other = await said_goodbye(port)
            assert await second.read() == b""
            assert not first.at_eof() and listener.hangups == 1
            writer.close()
            other.close()
            await gone(listener)

    asyncio.run(run())


def test_the_end_of_the_gateway_does_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hang_up, "HANGUP_SECONDS", NEVER)

    async def run() -> None:
        async with listening() as (listener, port):
            reader, writer = await said_goodbye(port)
            ending = asyncio.ensure_future(listener.close("over", PATIENCE))
            assert await reader.read() == b""
            writer.close()
            await ending
            assert listener.hangups == 0

    asyncio.run(run())

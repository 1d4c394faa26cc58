"""The dialer against a scripted server: silence, loss, floods, other versions."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trustme

from gateway.adapters import Limits, Role, adapter_for
from gateway.adapters.contract import Adapter
from gateway.errors import Condition, LocalError, Lost, Refusal
from gateway.net import dialer
from gateway.net.dialer import GATHER, Remote, dial, redial
from gateway.operations import (
    BeginSession,
    Blocked,
    Close,
    Closed,
    Deliver,
    Done,
    Fetch,
    Flow,
    Open,
    Operation,
    Publish,
    PurgeQueue,
    Recover,
    SessionLost,
    Unblocked,
)
from tests.net_client.places import following, message
from tests.pair import Users


class Puppet:
    """A server of our own engine: answers the greeting, and the rest as the test says."""

    def __init__(self, version: str) -> None:
        self.adapter: Adapter = adapter_for(version, Role.SERVER, authority=Users())
        self.heard: list[Operation] = []
        self.news = asyncio.Event()
        self.mute = False
        self.writer: asyncio.StreamWriter

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writer = writer
        while data := await reader.read(1 << 16):
            for operation in [] if self.mute else self.adapter.receive(data):
                self.heard.append(operation)
                if isinstance(operation, Open | BeginSession | PurgeQueue):
                    self.adapter.send(Done(getattr(operation, "channel", 0), operation.token))
            self.news.set()
            self.flush()
        writer.close()

    def flush(self) -> None:
        if not self.mute:
            self.writer.writelines(self.adapter.output())

    def say(self, *operations: Operation) -> None:
        for operation in operations:
            self.adapter.send(operation)
        self.flush()

    async def hears(self, kind: type[Any]) -> Any:
        """The first operation of this kind."""
        while True:
            for operation in self.heard:
                if isinstance(operation, kind):
                    return operation
            self.news.clear()
            await self.news.wait()


@asynccontextmanager
async def talking(version: str = "0-9-1", **options: Any) -> AsyncIterator[tuple[Remote, Puppet]]:
    """A dialled puppet with channel 1 open."""
    puppet = Puppet(version)
    server = await asyncio.start_server(puppet.serve, "127.0.0.1", 0)
    try:
        remote = await dial(server.sockets[0].getsockname(), version=version, **options)
        await remote.request(BeginSession(1, None))
        yield remote, puppet
        await remote.close(0.2)
    finally:
        puppet.writer.transport.abort()
        server.close()
        await asyncio.sleep(0.01)


async def until(condition: Callable[[], Any]) -> None:
    for _ in range(3000):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it did not come to pass")


async def test_loss_fails_every_request() -> None:
    async with talking() as (remote, puppet):
        asked = [remote.request(Fetch(1, None, "q")), remote.request(Recover(1, None, True))]
        await puppet.hears(Recover)
        puppet.writer.transport.abort()
        for answer in asked:
            with pytest.raises(Refusal) as caught:
                await answer
            assert caught.value.lost is Lost.CONNECTION
        closed = await following(remote, Closed)
        assert (closed.condition, closed.theirs) == (Condition.CONNECTION_FORCED, True)
        assert [operation async for operation in remote] == []
        for late in (remote.request, remote.send):
            with pytest.raises(Refusal):
                late(Fetch(1, None, "q"))
        with pytest.raises(Refusal):
            await remote.drain()


async def test_the_reason_of_a_close_reaches_everyone() -> None:
    async with talking() as (remote, puppet):
        asked = remote.request(Fetch(1, None, "q"))
        await puppet.hears(Fetch)
        puppet.say(Close(Condition.RESOURCE_ERROR, "no more"))
        with pytest.raises(Refusal, match="no more") as caught:
            await asked
        assert caught.value.condition is Condition.RESOURCE_ERROR


async def test_full_window_stops_reading_until_somebody_takes() -> None:
    async with talking(window=100_000) as (remote, puppet):
        sent = [Deliver(1, "t", n + 1, False, message(bytes(5000), "", "k")) for n in range(4000)]
        puppet.say(*sent)
        await until(lambda: not remote._reading)
        held = len(remote._inbox)
        assert 20 <= held < 400, "one read may go beyond the window"
        await asyncio.sleep(0.1)
        assert len(remote._inbox) == held
        # Whoever has a full window may ask: then everything is read up to the answer.
        assert await remote.request(PurgeQueue(1, None, "q")) == 0
        for number in range(4000):
            delivery = await following(remote, Deliver)
            assert delivery.delivery == number + 1
        assert remote._load == 0 and remote._reading


async def test_close_gives_up_waiting() -> None:
    async with talking() as (remote, puppet):
        puppet.mute = True
        await asyncio.wait_for(remote.close(0.1), 30)
        assert remote.closed == Closed(None, "", theirs=False)
        await remote.close()


async def test_what_came_before_the_close_can_be_read() -> None:
    async with talking() as (remote, puppet):
        puppet.say(Deliver(1, "t", 1, False, message(b"x", "", "k")))
        await until(lambda: remote._inbox)
        await remote.close()
        kinds = [type(operation) async for operation in remote]
        assert kinds == [Deliver, Closed]


async def test_flow_and_blocking_hold_publishers() -> None:
    async with talking() as (remote, puppet):
        remote.send(Publish(1, message(b"x", "", "k"), False, False))
        await remote.drain()
        for stop, go in ((Flow(1, None, False), Flow(1, None, True)), (Blocked("m"), Unblocked())):
            puppet.say(stop)
            await asyncio.sleep(0.05)
            waiting = asyncio.ensure_future(remote.drain())
            await asyncio.sleep(0.05)
            assert not waiting.done()
            puppet.say(go)
            await asyncio.wait_for(waiting, 30)


async def test_flush_writes_at_once_and_drain_still_lets_the_loop_read() -> None:
    async with talking() as (remote, puppet):
        steps: list[int] = []
        asyncio.get_running_loop().call_soon(steps.append, 1)
        publish = remote.publisher(1)
        for _ in range(GATHER // 1000):
            publish(message(bytes(1000), "", "k"), True, False)
            remote.flush()
            assert not remote.adapter.output(), "it was not written at once"
        assert not steps
        await remote.drain()
        assert steps, "whoever publishes much must let others have their turn"
        await puppet.hears(Publish)


async def test_a_publisher_of_a_lost_channel_is_refused() -> None:
    """Not told that its message cannot be written: it may be published again."""
    async with talking() as (remote, puppet):
        publish = remote.publisher(1)
        publish(message(b"x", "", "k"), True, False)
        remote.flush()
        await puppet.hears(Publish)
        puppet.say(SessionLost(1, Condition.NOT_FOUND, "no such exchange"))
        await following(remote, SessionLost)
        with pytest.raises(Refusal, match="no such exchange"):
            publish(message(b"x", "", "k"), True, False)


async def test_socket_full() -> None:
    """``drain`` waits for a server that does not read."""
    async with talking() as (remote, puppet):
        puppet.writer.transport.pause_reading()  # type: ignore[attr-defined]
        piece = message(bytes(1 << 20), "", "k")

        async def flood() -> None:
            while True:
                remote.send(Publish(1, piece, False, False))
                await remote.drain()

        with pytest.raises(TimeoutError):
            await asyncio.wait_for(flood(), 1)


async def test_a_dead_channel_refuses_until_it_is_begun_again() -> None:
    async with talking() as (remote, puppet):
        puppet.say(SessionLost(1, Condition.NOT_FOUND, "no queue"))
        assert (await following(remote, SessionLost)).condition is Condition.NOT_FOUND
        refusal = pytest.raises(Refusal, remote.request, Fetch(1, None, "q")).value
        assert (refusal.condition, refusal.lost) == (Condition.NOT_FOUND, Lost.SESSION)
        await remote.request(BeginSession(1, None))
        assert await remote.request(PurgeQueue(1, None, "q")) == 0


async def test_operations_that_cannot_be_sent() -> None:
    async with talking() as (remote, _):
        with pytest.raises(LocalError):
            remote.request(Fetch(7, None, "q"))
        with pytest.raises(LocalError):
            remote.send(Deliver(1, "t", 1, False, message(b"", "", "")))


async def test_an_answer_after_the_wait_has_ended() -> None:
    async with talking() as (remote, puppet):
        asked = remote.request(Fetch(1, None, "q"))
        fetch = await puppet.hears(Fetch)
        asked.cancel()
        puppet.say(Done(1, fetch.token, None))
        assert await remote.request(PurgeQueue(1, None, "q")) == 0


async def test_0_8_does_not_answer_recover() -> None:
    async with talking("0-8") as (remote, _):
        await asyncio.wait_for(remote.request(Recover(1, None, True)), 30)


@pytest.mark.slow
async def test_a_silent_server_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dialer, "TICK_SECONDS", 0.1)
    async with talking(limits=Limits(heartbeat=1)) as (remote, puppet):
        puppet.mute = True
        asked = remote.request(Fetch(1, None, "q"))
        with pytest.raises(Refusal, match="missed heartbeats from server"):
            await asyncio.wait_for(asked, 30)


# --- dialling -------------------------------------------------------------------------------------


@asynccontextmanager
async def answering(
    answer: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Any], **options: Any
) -> AsyncIterator[Any]:
    writers: list[asyncio.StreamWriter] = []

    async def noted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        await answer(reader, writer)

    server = await asyncio.start_server(noted, "127.0.0.1", 0, **options)
    try:
        yield server.sockets[0].getsockname()
    finally:
        server.close()
        for writer in writers:
            writer.transport.abort()
        await asyncio.sleep(0.01)


async def test_server_of_another_version() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(8)
        writer.write(b"AMQP\x00\x00\x09\x01")
        writer.close()

    async with answering(answer) as address:
        with pytest.raises(Refusal, match="does not speak 0-8") as caught:
            await dial(address, version="0-8")
        assert caught.value.condition is Condition.NOT_IMPLEMENTED


async def test_server_that_says_nothing() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    async with answering(answer) as address:
        with pytest.raises(TimeoutError):
            await dial(address, version="0-9-1", limits=Limits(handshake_timeout=0.1))


async def test_nobody_there() -> None:
    async with answering(lambda reader, writer: None) as address:
        pass
    with pytest.raises(OSError):
        await dial(address, version="0-9-1")


async def test_tls() -> None:
    authority = trustme.CA()
    theirs, ours = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH), ssl.create_default_context()
    authority.issue_cert("127.0.0.1").configure_cert(theirs)
    puppet = Puppet("0-9-1")
    async with answering(puppet.serve, ssl=theirs) as address:
        authority.configure_trust(ours)
        remote = await dial(address, version="0-9-1", tls=ours)
        await remote.request(BeginSession(1, None))
        await remote.close()
        assert remote.closed == Closed(None, "", theirs=False)


async def test_tls_where_there_is_none() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"AMQP\x00\x00\x09\x01")
        await reader.read()
        writer.close()

    async with answering(answer) as address:
        with pytest.raises(ssl.SSLError):
            await dial(address, version="0-9-1", tls=ssl.create_default_context())


async def test_redial_waits_longer_each_time() -> None:
    waited: list[float] = []
    failures: list[Exception] = [OSError("no")] * 6
    failures += [Refusal(Condition.CONNECTION_FORCED, "stopping")]
    found = Remote()

    async def attempt() -> Remote:
        if failures:
            raise failures.pop(0)
        return found

    async def sleep(seconds: float) -> None:
        waited.append(seconds)

    assert await redial(attempt, first=1, longest=8, sleep=sleep) is found
    for seconds, most in zip(waited, (1, 2, 4, 8, 8, 8, 8), strict=True):
        assert most / 2 <= seconds <= most


@pytest.mark.parametrize("condition", dialer.HOPELESS)
async def test_redial_does_not_insist(condition: Condition) -> None:
    async def attempt() -> Remote:
        raise Refusal(condition, "never", Lost.CONNECTION)

    with pytest.raises(Refusal, match="never"):
        await redial(attempt)

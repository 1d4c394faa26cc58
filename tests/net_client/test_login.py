"""Logging in, and the life of a connection."""

import asyncio
import ssl
from pathlib import Path

import pytest

from gateway.adapters import Credentials, Limits
from gateway.errors import Condition, Lost, Refusal
from gateway.net.dialer import dial, redial
from gateway.operations import (
    BeginSession,
    Blocked,
    Closed,
    DeclareExchange,
    DeclareQueue,
    Fetch,
    Unblocked,
    UpdateSecret,
)
from tests.interop.servers import (
    rabbitmq_memory_alarm,
    rabbitmq_missing,
    start,
    start_gateway,
)
from tests.net_client.places import Place, Talk, ending, following

pytestmark = pytest.mark.interop


@pytest.mark.parametrize("mechanism", ["PLAIN", "AMQPLAIN"])
async def test_login(place: Place, mechanism: str) -> None:
    remote = await place.dial(credentials=Credentials(mechanism=mechanism))
    assert remote.peer.product == place.expected("product")
    assert remote.peer.mechanism == mechanism
    assert remote.closed is None
    await remote.close()
    assert remote.closed == Closed(None, "", theirs=False)
    assert [operation async for operation in remote] == [remote.closed]
    with pytest.raises(Refusal):
        await remote.request(BeginSession(1, None))


@pytest.mark.parametrize("mechanism", ["PLAIN", "AMQPLAIN"])
@pytest.mark.parametrize("user", ["guest", "nobody"])
async def test_wrong_password(place: Place, mechanism: str, user: str) -> None:
    with pytest.raises(Refusal) as caught:
        await place.dial(credentials=Credentials(user, "wrong", mechanism))
    assert caught.value.condition is Condition.ACCESS_REFUSED
    assert caught.value.lost is Lost.CONNECTION
    assert "Login was refused" in caught.value.text


async def test_unoffered_mechanism(place: Place) -> None:
    with pytest.raises(Refusal) as caught:
        await place.dial(credentials=Credentials(mechanism="GSSAPI"))
    assert caught.value.condition is Condition.NOT_ALLOWED


async def test_missing_vhost(place: Place) -> None:
    with pytest.raises(Refusal) as caught:
        await place.dial(vhost="nowhere")
    expected = Condition.INVALID_PATH if place.documented else Condition.NOT_ALLOWED
    assert caught.value.condition is expected
    assert caught.value.lost is Lost.CONNECTION
    assert "vhost nowhere not found" in caught.value.text


@pytest.mark.parametrize("frame_max", [4096, 8192, 131_072])
async def test_smaller_frames(talk: Talk, frame_max: int) -> None:
    await talk.open(limits=Limits(frame_max=frame_max))
    queue = await talk.queue()
    for size in (frame_max - 9, frame_max - 8, frame_max - 7, 3 * frame_max):
        talk.publish(queue, bytes(size))
        await talk.settled(queue, 1)
        found = await talk.fetch(queue)
        assert found is not None and found.message.body == bytes(size)


async def test_channel_number_above_the_limit(place: Place) -> None:
    remote = await place.dial(limits=Limits(channel_max=5))
    await remote.request(BeginSession(5, None))
    await remote.close()


@pytest.mark.parametrize("place", ["0-9-1"], indirect=True)
async def test_heartbeats(place: Place) -> None:
    """Neither side gives up a peer that says nothing else for more than two intervals."""
    remote = await place.dial(limits=Limits(heartbeat=2))
    await asyncio.sleep(5.5)
    assert remote.closed is None
    await remote.request(BeginSession(1, None))
    await remote.close()


async def test_update_secret(place: Place) -> None:
    place.need("update secret")
    remote = await place.dial()
    await remote.request(UpdateSecret(None, b"guest", "expired"))
    await remote.request(BeginSession(1, None))
    await remote.close()


async def test_a_channel_dies_and_the_connection_lives(talk: Talk) -> None:
    remote = await talk.open()
    await remote.request(BeginSession(2, None))
    bad = remote.request(DeclareQueue(1, None, "q", arguments={"x-max-length": "many"}))
    alive = remote.request(DeclareQueue(2, None, talk.name, exclusive=True))
    with pytest.raises(Refusal) as caught:
        await bad
    assert caught.value.condition is Condition.PRECONDITION_FAILED
    with pytest.raises(Refusal):
        remote.send(DeclareQueue(1, None, "q"))
    assert (await alive).name == talk.name
    assert remote.closed is None


async def test_the_connection_dies(talk: Talk) -> None:
    """A hard error: everything asked fails with it, the last operation says why."""
    remote = await talk.open()
    await remote.request(BeginSession(2, None))
    asked = [
        remote.request(DeclareExchange(1, None, talk.name, "x-nonsense")),
        remote.request(Fetch(2, None, "missing")),
    ]
    with pytest.raises(Refusal, match="unknown exchange type") as caught:
        await asked[0]
    assert caught.value.condition is Condition.COMMAND_INVALID
    assert caught.value.lost is Lost.CONNECTION
    with pytest.raises(Refusal):
        await asked[1]
    closed = await ending(remote)
    assert (closed.condition, closed.theirs) == (Condition.COMMAND_INVALID, True)
    with pytest.raises(Refusal):
        await remote.drain()


async def test_memory_alarm(talk: Talk) -> None:
    """Publishers hear of it and ``drain`` waits. Only RabbitMQ can be told from outside."""
    if talk.version != "0-9-1" or talk.broker != "rabbitmq":
        pytest.skip("connection.blocked is said in 0-9-1, and provoked in RabbitMQ only")
    remote = await talk.open()
    queue = await talk.queue()
    alarm = rabbitmq_memory_alarm(talk.place.server)
    await asyncio.to_thread(alarm.__enter__)
    try:
        talk.publish(queue, b"x")
        blocked = await following(remote, Blocked, 20)
        assert blocked.reason
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                await remote.drain()
    finally:
        await asyncio.to_thread(alarm.__exit__, None, None, None)
    await following(remote, Unblocked, 20)
    await remote.drain()
    await talk.settled(queue, 1)


async def test_gateway_short_of_disk(tmp_path: Path) -> None:
    """The gateway says it at once when it starts with too little."""
    config = tmp_path / "gateway.toml"
    config.write_text("[limits]\ndisk_free_octets = 1_000_000_000_000_000\n")
    server = start_gateway(tmp_path, extra=["--config", str(config)])
    try:
        remote = await Place(server, "0-9-1").dial()
        assert (await following(remote, Blocked, 5)).reason
        await remote.close()
    finally:
        server.stop()


@pytest.mark.parametrize("name", ["rabbitmq", "gateway"])
async def test_tls(name: str, tmp_path: Path) -> None:
    if name == "rabbitmq" and (reason := rabbitmq_missing()):
        pytest.skip(reason)
    server = start(name, tmp_path, tls=True)
    try:
        assert server.certificates is not None and server.amqps_port is not None
        context = ssl.create_default_context(cafile=server.certificates.ca)
        address = ("127.0.0.1", server.amqps_port)
        remote = await dial(address, version="0-9-1", tls=context)
        await remote.request(BeginSession(1, None))
        await remote.close()
        assert remote.closed == Closed(None, "", theirs=False)
        with pytest.raises(ssl.SSLCertVerificationError):
            await dial(address, version="0-9-1", tls=ssl.create_default_context())
    finally:
        server.stop()


async def test_redial_after_a_crash(tmp_path: Path) -> None:
    """Durable things are there again, the connection is another."""
    server = start_gateway(tmp_path)
    place = Place(server, "0-9-1")
    try:
        first = await place.dial()
        await first.request(BeginSession(1, None))
        await first.request(DeclareQueue(1, None, "kept", durable=True))
        server.kill()
        assert (await ending(first)).condition is Condition.CONNECTION_FORCED
        again = asyncio.ensure_future(redial(place.dial, first=0.05, longest=0.2))
        await asyncio.sleep(0.3)
        assert not again.done()
        server = await asyncio.to_thread(start_gateway, tmp_path, port=server.port)
        second = await again
        await second.request(BeginSession(1, None))
        assert (await second.request(DeclareQueue(1, None, "kept", passive=True))).name == "kept"
        await second.close()
    finally:
        server.stop()

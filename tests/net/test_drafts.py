"""The drafts of 2005 end to end: our client role over a socket, pika at the other end, one queue.

The header AMQP 1 1 0 9 means what the listener says; the same queues are there for everybody.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import httpx
import pika
import pytest

from gateway.adapters import Credentials
from gateway.adapters.methods.content import BASIC
from gateway.adapters.methods.drafts.content import CONTENTS
from gateway.adapters.methods.wire import layouts_0_9a6 as w
from gateway.errors import Condition, LocalError, Refusal
from gateway.message import Message, Properties
from gateway.net.dialer import Remote, dial
from gateway.operations import (
    BeginSession,
    Bind,
    DeclareExchange,
    DeclareQueue,
    Deliver,
    EndSession,
    Fetch,
    Fetched,
    Outcome,
    Publish,
    PurgeQueue,
    Returned,
    SessionLost,
    Settle,
    Subscribe,
)
from tests.net.running import Running

DRAFTS = ("0-9a0", "0-9a0-7", "0-9a6")
JMS = {"0-9a0": 6, "0-9a0-7": 6, "0-9a6": 7}


@pytest.fixture(scope="module", params=DRAFTS)
def served(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, Running]]:
    """A gateway on whose port the header means this draft."""
    version = request.param
    folder = tmp_path_factory.mktemp(version)
    with Running(folder, amqp__header_0_9=version) as gateway:
        yield version, gateway


def text(body: bytes, exchange: str = "", key: str = "shared") -> Message:
    properties = Properties(
        durable=True, content_type="text/plain", message_id="m-1", application={"n": 7, "ok": True}
    )
    header = BASIC.write(properties)
    return Message(BASIC, header, body, exchange, key, BASIC.essentials(header))


def pika_channel(gateway: Running) -> tuple[pika.BlockingConnection, object]:
    connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", gateway.port))
    return connection, connection.channel()


@asynccontextmanager
async def dialled(served: tuple[str, Running]) -> AsyncIterator[Remote]:
    """A connection with channel 1 open."""
    version, gateway = served
    async with asyncio.timeout(60):
        remote = await dial(("127.0.0.1", gateway.port), version=version)
        try:
            await remote.request(BeginSession(1, None))
            yield remote
        finally:
            await remote.close()


async def received(remote: Remote, count: int) -> list[Deliver]:
    found: list[Deliver] = []
    async for operation in remote:
        assert isinstance(operation, Deliver), operation
        found.append(operation)
        if len(found) == count:
            break
    return found


def test_published_by_the_draft_and_consumed_by_pika(served: tuple[str, Running]) -> None:
    version, gateway = served
    connection, channel = pika_channel(gateway)
    channel.queue_declare("shared", durable=True)  # type: ignore[attr-defined]
    body = b"x" * 200_000

    async def say() -> None:
        async with dialled(served) as remote:
            state = await remote.request(DeclareQueue(1, None, "shared"))
            assert state.name == "shared"
            remote.send(Publish(1, text(b"hello"), False, False))
            remote.send(Publish(1, text(body), False, False))
            remote.send(Publish(1, text(b""), False, False))
            await remote.drain()
            await remote.request(EndSession(1, None))

    asyncio.run(say())
    try:
        for expected in (b"hello", body, b""):
            method, properties, found = channel.basic_get("shared", auto_ack=True)  # type: ignore[attr-defined]
            assert found == expected
            assert properties.content_type == "text/plain" and properties.message_id == "m-1"
            assert properties.delivery_mode == 2
            headers = {k: v for k, v in properties.headers.items() if not k.startswith("x-")}
            assert headers == {"n": 7, "ok": True}
    finally:
        connection.close()


def test_published_by_pika_and_http_and_consumed_by_the_draft(
    served: tuple[str, Running],
) -> None:
    version, gateway = served
    connection, channel = pika_channel(gateway)
    channel.queue_declare("back", durable=True)  # type: ignore[attr-defined]
    properties = pika.BasicProperties(content_type="text/plain", headers={"a": "b"}, priority=3)
    channel.basic_publish("", "back", b"one", properties)  # type: ignore[attr-defined]
    channel.basic_publish("", "back", b"y" * 150_000)  # type: ignore[attr-defined]
    connection.close()
    url = f"http://127.0.0.1:{gateway.http_port}/v1/%2F/queues/back/messages"
    answer = httpx.post(url, content=b"three", auth=("guest", "guest"))
    assert answer.status_code < 300, (answer.status_code, answer.text)

    async def hear() -> list[Deliver]:
        async with dialled(served) as remote:
            await remote.request(Subscribe(1, None, "back", "mine"))
            found = await received(remote, 3)
            remote.send(Settle(1, 1, False, Outcome.ACCEPT))
            remote.send(Settle(1, 3, True, Outcome.RELEASE))
            # What a channel gives back is for others (0-9a0 §4.7.10).
            await remote.request(BeginSession(2, None))
            await remote.request(Subscribe(2, None, "back", "other"))
            again = await received(remote, 2)
            assert [(d.channel, d.redelivered) for d in again] == [(2, True), (2, True)]
            remote.send(Settle(2, 0, True, Outcome.ACCEPT))
            assert await remote.request(PurgeQueue(2, None, "back")) == 0
            return found

    found = asyncio.run(hear())
    assert [d.message.body for d in found] == [b"one", b"y" * 150_000, b"three"]
    first = found[0].message
    assert first.dialect is CONTENTS[version, JMS[version]]
    assert first.properties.priority == 3 and first.properties.application == {"a": "b"}
    assert first.key == "back"


def test_a_body_too_large_for_memory_goes_out_in_portions(served: tuple[str, Running]) -> None:
    """Large bodies stand in files; another channel's messages go between their frames."""
    _, gateway = served
    body = bytes(range(256)) * (12 << 10)
    connection, channel = pika_channel(gateway)
    channel.queue_declare("large", durable=True)  # type: ignore[attr-defined]
    channel.basic_publish("", "large", body)  # type: ignore[attr-defined]
    channel.basic_publish("", "large", b"behind it")  # type: ignore[attr-defined]
    connection.close()

    async def hear() -> list[Deliver]:
        async with dialled(served) as remote:
            await remote.request(Subscribe(1, None, "large", "mine", no_ack=True))
            return await received(remote, 2)

    found = asyncio.run(hear())
    assert [d.message.body[:] for d in found] == [body, b"behind it"]


def test_a_topic_is_shared(served: tuple[str, Running]) -> None:
    version, gateway = served
    connection, channel = pika_channel(gateway)
    queue = channel.queue_declare("", exclusive=True).method.queue  # type: ignore[attr-defined]
    channel.queue_bind(queue, "amq.topic", "news.#")  # type: ignore[attr-defined]

    async def talk() -> list[Deliver]:
        async with dialled(served) as remote:
            name = "subscription:mine"
            await remote.request(DeclareQueue(1, None, name))
            await remote.request(Bind(1, None, name, "amq.topic", "news.*"))
            await remote.request(Subscribe(1, None, name, "mine", no_ack=True))
            remote.send(Publish(1, text(b"from the draft", "amq.topic", "news.one"), False, False))
            found = await received(remote, 1)
            channel.basic_publish("amq.topic", "news.two", b"from pika")  # type: ignore[attr-defined]
            found += await received(remote, 1)
            return found

    try:
        found = asyncio.run(talk())
        assert [(d.message.key, d.message.body) for d in found] == [
            ("news.one", b"from the draft"),
            ("news.two", b"from pika"),
        ]
        assert all(d.message.exchange == "amq.topic" for d in found)
        bodies = [channel.basic_get(queue, auto_ack=True)[2] for _ in range(2)]  # type: ignore[attr-defined]
        assert bodies == [b"from the draft", b"from pika"]
    finally:
        connection.close()


def test_a_subscription_chooses_and_does_so_after_a_restart(served: tuple[str, Running]) -> None:
    """By a regular expression over topics and a condition: other messages never enter the queue."""
    version, gateway = served
    if version == "0-9a6":
        return
    name = "subscription:choosy"

    async def define() -> None:
        async with dialled(served) as remote:
            await remote.request(DeclareQueue(1, None, name))
            given = {"x-regexp": True, "x-selector": "n = 7 AND ok"}
            await remote.request(Bind(1, None, name, "amq.topic", "^(news|sport)/", given))

    asyncio.run(define())
    gateway.stop()
    gateway.start()
    connection, channel = pika_channel(gateway)
    for key, number in (("news/a", 7), ("news/a", 8), ("no/news/a", 7), ("sport/b", 7)):
        properties = pika.BasicProperties(headers={"n": number, "ok": True})
        channel.basic_publish("amq.topic", key, key.encode(), properties)  # type: ignore[attr-defined]
    assert channel.queue_declare(name, passive=True).method.message_count == 2  # type: ignore[attr-defined]
    connection.close()

    async def hear() -> list[Deliver]:
        async with dialled(served) as remote:
            await remote.request(Subscribe(1, None, name, "mine", no_ack=True))
            return await received(remote, 2)

    assert [d.message.body for d in asyncio.run(hear())] == [b"news/a", b"sport/b"]


def test_a_stream_has_a_rate(served: tuple[str, Running]) -> None:
    """The third message waits for the next second, and comes without anybody asking for it."""
    version, _ = served
    if version != "0-9a6":
        return

    async def talk() -> list[Deliver]:
        async with dialled(served) as remote:
            await remote.request(DeclareQueue(1, None, "paced"))
            for body in (b"a", b"b", b"c"):
                remote.send(Publish(1, text(body * 700, key="paced"), False, False))
            mapping = remote.adapter.mapping  # type: ignore[attr-defined]
            asked = {Subscribe: lambda place, op: [w.StreamConsume(0, "", op.queue, 0, 0, 900)]}
            heard = {"stream.consume-ok": mapping.reply_readers["jms.consume-ok"]}
            remote.adapter.mapping = mapping._replace(  # type: ignore[attr-defined]
                request_encoders=mapping.request_encoders | asked,
                reply_readers=mapping.reply_readers | heard,
            )
            await remote.request(Subscribe(1, None, "paced", "mine"))
            return await received(remote, 3)

    assert [d.message.body[:1] for d in asyncio.run(talk())] == [b"a", b"b", b"c"]


def test_one_message_at_a_time(served: tuple[str, Running]) -> None:
    async def talk() -> None:
        async with dialled(served) as remote:
            await remote.request(DeclareQueue(1, None, "single"))
            assert await remote.request(Fetch(1, None, "single", True)) is None
            remote.send(Publish(1, text(b"1", key="single"), False, False))
            remote.send(Publish(1, text(b"2", key="single"), False, False))
            fetched = await remote.request(Fetch(1, None, "single", False))
            assert isinstance(fetched, Fetched)
            assert (fetched.message.body, fetched.remaining, fetched.redelivered) == (
                b"1",
                1,
                False,
            )
            remote.send(Settle(1, fetched.delivery, False, Outcome.RELEASE))
            fetched = await remote.request(Fetch(1, None, "single", True))
            assert fetched.message.body == b"2", "what was given back is for others"
            await remote.request(BeginSession(2, None))
            fetched = await remote.request(Fetch(2, None, "single", True))
            assert fetched.message.body == b"1" and fetched.redelivered

    asyncio.run(talk())


def test_missing_destinations(served: tuple[str, Running]) -> None:
    """0-9a0 closes the channel, 0-9a6 gives the message back."""
    version, _ = served

    async def talk() -> None:
        async with dialled(served) as remote:
            remote.send(Publish(1, text(b"lost", key="nowhere"), True, False))
            await remote.drain()
            operation = await anext(aiter(remote))
            if version == "0-9a6":
                assert isinstance(operation, Returned)
                assert operation.message.body == b"lost" and operation.message.key == "nowhere"
                await remote.request(BeginSession(2, None))
                with pytest.raises(Refusal) as caught:
                    await remote.request(Subscribe(2, None, "nowhere"))
            else:
                assert isinstance(operation, SessionLost)
                assert operation.condition is Condition.NOT_FOUND
                await remote.request(BeginSession(2, None))
                with pytest.raises(Refusal) as caught:
                    await remote.request(Subscribe(2, None, "nowhere"))
            assert caught.value.condition is Condition.NOT_FOUND

    asyncio.run(talk())


def test_an_exchange_of_its_own(served: tuple[str, Running]) -> None:
    version, _ = served

    async def talk() -> None:
        async with dialled(served) as remote:
            if version != "0-9a6":
                with pytest.raises(LocalError):
                    remote.request(DeclareExchange(1, None, "x-fanout", "fanout"))
                return
            for kind, key, bound in (
                ("fanout", "any", ""), ("direct", "k", "k"), ("topic", "a.b", "a.#"),
            ):  # fmt: skip
                name = f"x-{kind}"
                await remote.request(DeclareExchange(1, None, name, kind))
                await remote.request(DeclareQueue(1, None, f"q-{kind}"))
                await remote.request(Bind(1, None, f"q-{kind}", name, bound))
                remote.send(Publish(1, text(b"by " + kind.encode(), name, key), False, False))
                fetched = await remote.request(Fetch(1, None, f"q-{kind}", True))
                assert fetched.message.body == b"by " + kind.encode()
                assert (fetched.message.exchange, fetched.message.key) == (name, key)
            with pytest.raises(Refusal):
                await remote.request(DeclareExchange(1, None, "amq.topic", "direct"))

    asyncio.run(talk())


def test_classes_that_only_the_draft_names(served: tuple[str, Running]) -> None:
    """Declared by the draft and by HTTP, bound by all, published to by pika."""
    version, gateway = served
    if version != "0-9a6":
        return
    api = f"http://127.0.0.1:{gateway.http_port}/api"

    async def wire() -> None:
        async with dialled(served) as remote:
            for name in ("by-draft", "by-http", "by-pika"):
                await remote.request(DeclareQueue(1, None, name))
            await remote.request(DeclareExchange(1, None, "choose", "x-selector", durable=True))
            given = {"selector": "n > 5 AND ok"}
            await remote.request(Bind(1, None, "by-draft", "choose", "", given))
            await remote.request(BeginSession(2, None))
            with pytest.raises(Refusal) as caught:
                await remote.request(Bind(2, None, "by-draft", "choose", "", {"selector": "n >"}))
            assert caught.value.condition is Condition.COMMAND_INVALID

    asyncio.run(wire())
    connection, channel = pika_channel(gateway)
    try:
        with httpx.Client(auth=("guest", "guest")) as http:
            wanted = {"type": "x-matcher", "durable": True}
            assert http.put(f"{api}/exchanges/%2F/match", json=wanted).status_code == 201
            bound = {"routing_key": "", "arguments": {"content-type": "text/*"}}
            path = f"{api}/bindings/%2F/e/match/q/by-http"
            assert http.post(path, json=bound).status_code == 201
        channel.exchange_declare("lose", "x-lossy", arguments={"x-loss": 0})  # type: ignore[attr-defined]
        channel.queue_bind("by-pika", "lose")  # type: ignore[attr-defined]
        properties = pika.BasicProperties(content_type="text/plain", headers={"n": 7, "ok": True})
        for exchange in ("choose", "match", "lose"):
            channel.basic_publish(exchange, "", exchange.encode(), properties)  # type: ignore[attr-defined]
            channel.basic_publish(exchange, "", b"other")  # type: ignore[attr-defined]
        found = {
            name: [channel.basic_get(name, auto_ack=True)[2] for _ in range(2)]  # type: ignore[attr-defined]
            for name in ("by-draft", "by-http", "by-pika")
        }
        assert found["by-pika"] == [b"lose", b"other"]
        assert (found["by-draft"], found["by-http"]) == ([b"choose", None], [b"match", None])
    finally:
        connection.close()


def test_a_wrong_password(served: tuple[str, Running]) -> None:
    version, gateway = served

    async def talk() -> None:
        with pytest.raises((Refusal, OSError)):
            await dial(
                ("127.0.0.1", gateway.port),
                version=version,
                credentials=Credentials("guest", "wrong"),
            )

    asyncio.run(talk())


def test_a_durable_message_survives(served: tuple[str, Running]) -> None:
    """Its dialect is known to the store after a restart."""
    version, gateway = served

    async def say() -> None:
        async with dialled(served) as remote:
            await remote.request(DeclareQueue(1, None, "kept", durable=True))
            remote.send(Publish(1, text(b"kept", key="kept"), False, False))
            await remote.drain()
            await remote.request(EndSession(1, None))

    asyncio.run(say())
    gateway.stop()
    gateway.start()
    connection, channel = pika_channel(gateway)
    try:
        _, properties, body = channel.basic_get("kept", auto_ack=True)  # type: ignore[attr-defined]
        assert body == b"kept" and properties.message_id == "m-1"
    finally:
        connection.close()

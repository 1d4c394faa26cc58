"""One queue for all versions: each receives the messages of each, with their common properties.

All speak with our client role to one gateway, whose further listeners know the drafts of 2005 and
the transitional 0-10; what other people's clients see is in ``tests/interop``.
"""

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from gateway.adapters import Product
from gateway.adapters.methods.content import BASIC
from gateway.message import Message, Properties
from gateway.net.dialer import Remote, dial
from gateway.operations import (
    BeginSession,
    Closed,
    DeclareQueue,
    Deliver,
    EndSession,
    Outcome,
    Publish,
    PurgeQueue,
    Settle,
    Subscribe,
    Unsubscribe,
)
from tests import in_memory
from tests.net.running import PATIENCE, Running

DRAFTS = ("0-9a0", "0-9a0-7", "0-9a6")
TRANSITIONAL = ("0-10-07-24", "0-10-07-27")
VERSIONS = ("0.8a2", *DRAFTS, "0-8", "0-9", "0-9-1", *TRANSITIONAL, "0-10", "1.0")
CHOSEN = {
    **dict.fromkeys(DRAFTS, ("header_0_9", "1 1 0 9")),
    **dict.fromkeys(TRANSITIONAL, ("header_0_10", "1 1 0 10")),
}
"""The setting that chooses a version, and the name of its header in the log."""
LISTENERS = "".join(
    f'[[amqp.listeners]]\nport = 0\n{setting} = "{name}"\n' for name, (setting, _) in CHOSEN.items()
)
HOUR = 3_600_000
QUEUE = "shared"

GIVEN: dict[str, Any] = {
    "durable": True,
    "priority": 7,
    "content_type": "text/plain",
    "content_encoding": "identity",
    "message_id": "message-1",
    "correlation_id": "question-1",
    "reply_to": "answers",
    "application": {"text": "grün", "number": 7, "large": 1 << 40, "yes": True},
}
BODIES = (b"", b"small", bytes(range(256)) * 1024)


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder: Path = tmp_path_factory.mktemp("every")
    file = folder / "gateway.toml"
    file.write_text(LISTENERS)
    with Running(folder, "--config", file) as running:
        yield running


def port_of(gateway: Running, version: str) -> int:
    if version not in CHOSEN:
        return gateway.port
    return gateway._port(rf"AMQP on \S+:(\d+), where .*{CHOSEN[version][1]} is {version}\s")


@asynccontextmanager
async def entered(gateway: Running, version: str, name: str) -> AsyncIterator[Remote]:
    """A connection with channel 1 open. A name is taken once in 0.8a2."""
    async with asyncio.timeout(PATIENCE):
        remote = await dial(
            ("127.0.0.1", port_of(gateway, version)), version=version, product=Product(name=name)
        )
        try:
            await remote.request(BeginSession(1, None))
            yield remote
        finally:
            await remote.close()


def message(body: bytes, **given: Any) -> Message:
    header = BASIC.write(Properties(**given))
    return Message(BASIC, header, body, "", QUEUE, BASIC.essentials(header))


async def heard(remote: Remote) -> Deliver:
    """The next delivery, accepted."""
    async for operation in remote:
        if isinstance(operation, Deliver):
            remote.send(Settle(1, operation.delivery, False, Outcome.ACCEPT))
            return operation
    raise AssertionError(f"the connection ended: {remote.closed}")


def application(found: Properties) -> dict[str, Any]:
    """Without additions of the broker or a conversion."""
    return {name: v for name, v in (found.application or {}).items() if not name.startswith("x-")}


@pytest.mark.parametrize("consumer", VERSIONS)
def test_every_pair(gateway: Running, consumer: str) -> None:
    async def all_publish() -> None:
        async with entered(gateway, "0-9-1", "maker") as maker:
            await maker.request(DeclareQueue(1, None, QUEUE, durable=True))
            await maker.request(PurgeQueue(1, None, QUEUE))
        async with entered(gateway, consumer, "reader") as reader:
            await reader.request(Subscribe(1, None, QUEUE, "mine"))
            for publisher in VERSIONS:
                async with entered(gateway, publisher, "writer") as writer:
                    for body in BODIES:
                        before = time.time() * 1000
                        writer.send(Publish(1, message(body, ttl=HOUR, **GIVEN), False, False))
                        await writer.drain()
                        delivery = await heard(reader)
                        assert delivery.message.body == body, publisher
                        check(delivery.message.properties, {publisher, consumer}, before)
            await reader.request(Unsubscribe(1, None, "mine"))

    asyncio.run(all_publish())


LETTERED = {**GIVEN["application"], "large": str(1 << 40), "yes": 1}
"""Values in the letters of July 2007."""


def check(found: Properties, pair: set[str], before: float) -> None:
    """Nothing is lost, and nothing has another type but what the transitional 0-10 has no letter
    for. An hour is an hour or the date of its end,
    which 0.8a2 has in seconds."""
    given = {**GIVEN, "application": LETTERED} if pair & {*TRANSITIONAL} else GIVEN
    seen = {name: getattr(found, name) for name in GIVEN}
    seen["application"] = application(found)
    assert seen == given, pair
    assert all(
        isinstance(value, type(given["application"][name]))
        for name, value in seen["application"].items()
    ), pair
    if found.ttl is not None:
        assert 0 < found.ttl <= HOUR, pair
    else:
        ends = found.absolute_expiry_time
        assert ends is not None, pair
        assert before + HOUR - 1000 <= ends <= time.time() * 1000 + HOUR + 1000, pair


def test_consumers_of_all_versions_share_the_work(gateway: Running) -> None:
    """Many publishers, many consumers: each message once."""
    each = 20
    expected = sorted(f"{version} {n}" for version in VERSIONS for n in range(each))
    taken: dict[str, list[str]] = {version: [] for version in VERSIONS}

    async def take(remote: Remote, version: str, enough: asyncio.Event) -> None:
        while True:
            taken[version].append(in_memory.text((await heard(remote)).message))
            if sum(map(len, taken.values())) == len(expected):
                enough.set()

    async def share() -> None:
        async with AsyncExitStack() as stack:
            remotes = {
                version: await stack.enter_async_context(entered(gateway, version, "both"))
                for version in VERSIONS
            }
            await remotes["0-9-1"].request(DeclareQueue(1, None, QUEUE, durable=True))
            await remotes["0-9-1"].request(PurgeQueue(1, None, QUEUE))
            enough = asyncio.Event()
            for remote in remotes.values():
                await remote.request(Subscribe(1, None, QUEUE, "mine"))
            tasks = [asyncio.create_task(take(r, v, enough)) for v, r in remotes.items()]
            for n, (version, remote) in itertools.product(range(each), remotes.items()):
                remote.send(Publish(1, message(f"{version} {n}".encode()), False, False))
                await remote.drain()
            async with asyncio.timeout(PATIENCE):
                await enough.wait()
            for task in tasks:
                task.cancel()

    asyncio.run(share())
    assert sorted(itertools.chain(*taken.values())) == expected
    assert all(taken.values()), "somebody was given nothing"


@pytest.mark.parametrize("ending", ["session", "connection"])
def test_messages_published_before_the_end_are_there(gateway: Running, ending: str) -> None:
    """Even without waiting for it, and in 1.0 without credit yet."""

    async def publish_and_leave() -> None:
        async with entered(gateway, "0-9-1", "maker") as maker:
            await maker.request(DeclareQueue(1, None, QUEUE, durable=True))
            await maker.request(PurgeQueue(1, None, QUEUE))
            for version in VERSIONS:
                async with entered(gateway, version, "writer") as writer:
                    for n in range(3):
                        said = message(f"{version} {n}".encode(), durable=True)
                        writer.send(Publish(1, said, False, False))
                    if ending == "session":
                        await writer.request(EndSession(1, None))
                assert writer.closed == Closed(None, "", theirs=False), version
            await maker.request(Subscribe(1, None, QUEUE, "mine"))
            bodies = [
                in_memory.text((await heard(maker)).message) for _ in range(3 * len(VERSIONS))
            ]
            assert sorted(bodies) == sorted(f"{v} {n}" for v in VERSIONS for n in range(3))
            await maker.request(Unsubscribe(1, None, "mine"))

    asyncio.run(publish_and_leave())

"""A facade before another gateway, which plays the broker, in every version of either side."""

import asyncio
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gateway.adapters.methods.content import BASIC
from gateway.errors import Condition, Refusal
from gateway.message import Message, Properties
from gateway.net.dialer import Remote, dial
from gateway.operations import (
    BeginSession,
    Bind,
    Confirm,
    DeclareExchange,
    DeclareQueue,
    DeleteExchange,
    DeleteQueue,
    Deliver,
    Fetch,
    Fetched,
    Outcome,
    Prefetch,
    Publish,
    PurgeQueue,
    QueueState,
    Returned,
    SelectConfirms,
    Settle,
    Subscribe,
)
from tests.bridge.relay import Relay
from tests.net.running import PATIENCE, Running, until

VERSIONS = ("0-8", "0-9", "0-9-1", "0-10", "1.0")


def message(n: int, key: str, exchange: str = "", **more: object) -> Message:
    """A durable message that no other is like."""
    properties = Properties(durable=True, application={"n": n, "text": f"ü {n}"}, **more)
    header = BASIC.write(properties)
    return Message(BASIC, header, f"body {n}".encode(), exchange, key, BASIC.essentials(header))


async def entered(port: int, version: str = "0-9-1") -> Remote:
    remote = await dial(("127.0.0.1", port), version=version)
    await remote.request(BeginSession(1, None))
    return remote


async def confirmed(remote: Remote, messages: list[Message]) -> int:
    """Publish with confirms; how many were accepted."""
    await remote.request(SelectConfirms(1, None))
    for one in messages:
        remote.send(Publish(1, one, True, False))
    remote.wake()
    accepted = told = 0
    async for operation in remote:
        if isinstance(operation, Confirm):
            accepted += (operation.sequence - told) * operation.accepted
            told = operation.sequence
            if told >= len(messages):
                break
    return accepted


async def deliveries(remote: Remote, count: int) -> list[Deliver]:
    found: list[Deliver] = []
    async for operation in remote:
        if isinstance(operation, Deliver):
            found.append(operation)
            if len(found) == count:
                break
    return found


def numbers(found: list[Deliver]) -> list[object]:
    return [(one.message.properties.application or {}).get("n") for one in found]


@contextmanager
def facade(
    folder: Path, port: int, version: str = "auto", more: str = "", upstream: str = ""
) -> Iterator[Running]:
    """A facade before the gateway at a port. ``more`` are settings of the facade, ``upstream`` of
    its upstream."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "gateway.toml"
    file.write_text(
        f'[[upstreams]]\nname = "old"\naddresses = ["amqp://127.0.0.1:{port}"]\n'
        f'version = "{version}"\n{upstream}[[facades]]\nupstream = "old"\n{more}'
    )
    with Running(folder, "--config", file) as running:
        yield running


def depth(running: Running, queue: str) -> int:
    found = {one["name"]: one["messages"] for one in running.asked("/api/queues")}
    return int(found.get(queue, -1))


def run(work: Awaitable[None]) -> None:
    async def soon() -> None:
        await asyncio.wait_for(work, PATIENCE)

    asyncio.run(soon())


@pytest.mark.parametrize("version", VERSIONS)
def test_a_queue_is_used(front: Running, old: Running, version: str) -> None:
    async def use() -> None:
        queue = f"used-{version}-{front.port}"
        remote = await entered(front.port)
        state = await remote.request(DeclareQueue(1, None, queue, durable=True))
        assert state == QueueState(queue, 0, 0)
        assert await confirmed(remote, [message(n, queue) for n in range(20)]) == 20
        assert depth(old, queue) == 20
        other = await entered(front.port, version)
        await other.request(Prefetch(1, None, 5))
        await other.request(Subscribe(1, None, queue))
        first = await deliveries(other, 5)
        assert numbers(first) == [0, 1, 2, 3, 4]
        held = until(
            lambda: [q for q in old.asked("/api/queues") if q["name"] == queue], "listing"
        )[0]["messages_unacknowledged"]
        assert held <= 10  # no more than the consumer may have, and as many again when it settles
        for one in first[:4]:
            other.send(Settle(1, one.delivery, False, Outcome.ACCEPT))
        other.wake()
        assert numbers(await deliveries(other, 4)) == [5, 6, 7, 8]
        await other.close()  # six are given back
        until(lambda: depth(old, queue) == 16, "return")
        await remote.request(PurgeQueue(1, None, queue))
        assert depth(old, queue) == 0
        await remote.request(DeleteQueue(1, None, queue))
        assert depth(old, queue) == -1
        await remote.close()

    run(use())


def test_fetches_and_their_outcomes(front: Running, old: Running) -> None:
    async def use() -> None:
        queue, dead = f"fetched-{front.port}", f"dead-{front.port}"
        remote = await entered(front.port)
        letters = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead}
        await remote.request(DeclareQueue(1, None, dead, durable=True))
        await remote.request(DeclareQueue(1, None, queue, durable=True, arguments=letters))
        assert await remote.request(Fetch(1, None, queue)) is None
        assert await confirmed(remote, [message(n, queue) for n in range(3)]) == 3
        for outcome in (Outcome.ACCEPT, Outcome.REJECT, Outcome.RELEASE):
            fetched = await remote.request(Fetch(1, None, queue))
            assert isinstance(fetched, Fetched)
            remote.send(Settle(1, fetched.delivery, False, outcome))
        remote.wake()
        until(lambda: (depth(old, queue), depth(old, dead)) == (1, 1), "outcomes")
        again = await remote.request(Fetch(1, None, queue, no_ack=True))
        assert again.redelivered
        assert await remote.request(Fetch(1, None, queue)) is None
        await remote.close()

    run(use())


def test_exchanges_and_bindings_are_those_of_the_upstream(front: Running, old: Running) -> None:
    async def use() -> None:
        name = f"topics-{front.port}"
        remote = await entered(front.port)
        await remote.request(DeclareExchange(1, None, name, "topic", durable=True))
        state = await remote.request(DeclareQueue(1, None, "", exclusive=True))
        await remote.request(Bind(1, None, state.name, name, "a.#"))
        assert await confirmed(remote, [message(1, "a.b", name), message(2, "b", name)]) == 2
        fetched = await remote.request(Fetch(1, None, state.name))
        assert (fetched.message.exchange, fetched.message.key) == (name, "a.b")
        found = {one["name"] for one in old.asked("/api/exchanges")}
        assert name in found
        await remote.close()
        until(lambda: depth(old, state.name) == -1, "end of the exclusive queue")

    run(use())


def test_what_is_unroutable_is_returned(front: Running) -> None:
    async def use() -> None:
        remote = await entered(front.port)
        await remote.request(SelectConfirms(1, None))
        remote.send(Publish(1, message(1, "nowhere"), True, False))
        remote.wake()
        returned = await anext(remote)
        assert isinstance(returned, Returned)
        assert returned.condition is Condition.NO_ROUTE
        told = await anext(remote)
        assert isinstance(told, Confirm)
        assert told.accepted
        await remote.close()

    run(use())


@pytest.mark.parametrize(
    ("operation", "condition"),
    [
        (Subscribe(1, None, "missing"), Condition.NOT_FOUND),
        (DeclareQueue(1, None, "missing", passive=True), Condition.NOT_FOUND),
        (Fetch(1, None, "missing"), Condition.NOT_FOUND),
        (Bind(1, None, "missing", "amq.topic", "k"), Condition.NOT_FOUND),
        (Subscribe(1, None, "there", copy=True), Condition.NOT_IMPLEMENTED),
    ],
)
def test_refusals(front: Running, operation: object, condition: Condition) -> None:
    async def use() -> None:
        maker = await entered(front.port)
        await maker.request(DeclareQueue(1, None, "there", durable=True))
        remote = await entered(front.port, "0-10" if getattr(operation, "copy", 0) else "0-9-1")
        with pytest.raises(Refusal) as refused:
            await remote.request(operation)
        assert refused.value.condition is condition
        await remote.close()
        await maker.close()

    run(use())


def test_a_different_declaration_is_refused_by_the_upstream(old: Running, tmp_path: Path) -> None:
    async def use(port: int) -> None:
        remote = await entered(port)
        await remote.request(DeclareQueue(1, None, "durable", durable=True))
        with pytest.raises(Refusal, match="inequivalent arg 'durable'") as refused:
            await remote.request(DeclareQueue(1, None, "durable"))
        assert refused.value.condition is Condition.PRECONDITION_FAILED
        await remote.close()

    with facade(tmp_path, old.port) as front:
        run(use(front.port))


def test_two_facades_share_a_queue(old: Running, tmp_path: Path) -> None:
    async def use(one: int, two: int) -> None:
        first, second = await entered(one), await entered(two)
        await first.request(DeclareQueue(1, None, "shared", durable=True))
        for remote in (first, second):
            await remote.request(Prefetch(1, None, 3))
            await remote.request(Subscribe(1, None, "shared"))
        publisher = await entered(two)
        assert await confirmed(publisher, [message(n, "shared") for n in range(6)]) == 6
        got = numbers(await deliveries(first, 3)) + numbers(await deliveries(second, 3))
        assert sorted(map(str, got)) == list("012345")
        for remote in (first, second, publisher):
            await remote.close()

    with facade(tmp_path / "1", old.port) as one, facade(tmp_path / "2", old.port) as two:
        run(use(one.port, two.port))


def test_the_upstream_dies_and_comes_back(tmp_path: Path) -> None:
    """Clients stay connected; nothing confirmed is lost, and deliveries go on."""

    async def use(old: Running, front: Running, relay: Relay) -> None:
        remote = await entered(front.port)
        await remote.request(DeclareQueue(1, None, "kept", durable=True))
        temporary = (await remote.request(DeclareQueue(1, None, "", exclusive=True))).name
        await remote.request(Bind(1, None, temporary, "amq.fanout"))
        assert await confirmed(remote, [message(n, "kept") for n in range(10)]) == 10
        reader = await entered(front.port)
        await reader.request(Prefetch(1, None, 4))
        await reader.request(Subscribe(1, None, "kept"))
        held = await deliveries(reader, 4)
        old.kill()
        until(lambda: state(front) != "connected", "loss")
        for n in range(10, 20):
            remote.send(Publish(1, message(n, "kept"), True, False))
        remote.wake()
        for one in held:  # of a connection that is lost: they come again
            reader.send(Settle(1, one.delivery, False, Outcome.ACCEPT))
        reader.wake()
        old.start()
        relay.target = old.port
        until(lambda: state(front) == "connected", "connection")
        told = 10
        async for operation in remote:
            assert isinstance(operation, Confirm)
            assert operation.accepted
            told = operation.sequence
            if told == 20:
                break
        seen: set[object] = set()
        async for operation in reader:
            if isinstance(operation, Deliver):
                seen.add((operation.message.properties.application or {}).get("n"))
                reader.send(Settle(1, operation.delivery, False, Outcome.ACCEPT))
                reader.wake()
                if len(seen) == 20:
                    break
        await remote.request(DeclareQueue(1, None, temporary, passive=True))
        await confirmed_again(remote, message(1, "", "amq.fanout"), 21)
        fetched = await remote.request(Fetch(1, None, temporary))
        assert fetched.message.exchange == "amq.fanout"
        await remote.close()
        await reader.close()

    with (
        Running(tmp_path / "old") as old,
        Relay(old.port) as relay,
        facade(tmp_path / "front", relay.port) as front,
    ):
        run(use(old, front, relay))


async def confirmed_again(remote: Remote, one: Message, sequence: int) -> None:
    remote.send(Publish(1, one, True, False))
    remote.wake()
    async for operation in remote:
        if isinstance(operation, Confirm) and operation.sequence == sequence:
            break


def state(front: Running) -> str:
    return str(front.asked("/v1/admin/facades")["facades"][0]["state"])


def test_a_message_that_the_upstream_ends_its_channel_over(old: Running, tmp_path: Path) -> None:
    """It alone is refused: the exchange was deleted behind the facade's back."""

    async def use(port: int) -> None:
        remote = await entered(port)
        await remote.request(DeclareQueue(1, None, "good", durable=True))
        await remote.request(DeclareExchange(1, None, "doomed", "fanout"))
        assert await confirmed(remote, [message(0, "", "doomed")]) == 1
        behind = await entered(old.port)
        await behind.request(DeleteExchange(1, None, "doomed"))
        other = await entered(port)
        messages = [message(n, "good") for n in range(5)]
        bad = [*messages[:2], message(9, "", "doomed"), *messages[2:]]
        assert await confirmed(other, bad) == 5
        until(lambda: depth(old, "good") >= 5, "others")
        with pytest.raises(Refusal):
            other.send(Publish(1, message(9, "", "doomed"), True, False))
            await other.request(DeclareQueue(1, None, "good", passive=True))
        for one in (remote, behind, other):
            await one.close()

    with facade(tmp_path, old.port) as front:
        run(use(front.port))

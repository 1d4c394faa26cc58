"""Transactions of a facade's clients are committed by its upstream, another gateway here."""

import asyncio
import contextlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from gateway.errors import Condition, Refusal
from gateway.net.dialer import Remote
from gateway.operations import (
    Commit,
    DeclareQueue,
    Deliver,
    EndSession,
    Fetch,
    Fetched,
    Outcome,
    Prefetch,
    Publish,
    Returned,
    Rollback,
    Select,
    Settle,
    Subscribe,
)
from tests.bridge.relay import Relay
from tests.bridge.test_facade import (
    VERSIONS,
    confirmed,
    deliveries,
    depth,
    entered,
    facade,
    message,
    run,
)
from tests.net.running import Running, until


@pytest.fixture(scope="module")
def plain(old: Running, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A facade that talks to the broker over 0-9-1."""
    with facade(tmp_path_factory.mktemp("plain"), old.port, "0-9-1") as running:
        yield running


async def made(port: int, *queues: str) -> Remote:
    remote = await entered(port)
    for queue in queues:
        await remote.request(DeclareQueue(1, None, queue, durable=True))
    return remote


async def selected(port: int, version: str = "0-9-1") -> Remote:
    remote = await entered(port, version)
    await remote.request(Select(1, None))
    return remote


def counts(old: Running, queue: str) -> tuple[int, int]:
    """Messages that are ready at the broker, and those that are unsettled."""
    found = {one["name"]: one for one in old.asked("/api/queues")}[queue]
    return found["messages_ready"], found["messages_unacknowledged"]


async def comes_to(old: Running, queue: str, ready: int) -> None:
    await asyncio.to_thread(until, lambda: counts(old, queue) == (ready, 0), f"{queue}: {ready}")


@pytest.mark.parametrize("version", VERSIONS)
def test_publishes_and_acceptances(front: Running, old: Running, version: str) -> None:
    """Are there together after a commit, and never after a rollback."""

    async def use() -> None:
        given, answers = f"given-{version}-{front.port}", f"answers-{version}-{front.port}"
        maker = await made(old.port, given, answers)
        remote = await selected(front.port, version)

        async def publish(queue: str, *numbers: int) -> None:
            for n in numbers:
                remote.send(Publish(1, message(n, queue), False, False))
            remote.wake()

        await publish(given, 1, 2)
        await remote.request(Rollback(1, None))
        await publish(given, 3, 4, 5)
        assert counts(old, given) == (0, 0)
        await remote.request(Commit(1, None))
        assert counts(old, given) == (3, 0)

        await remote.request(Prefetch(1, None, 2))
        await remote.request(Subscribe(1, None, given))
        first, second = await deliveries(remote, 2)
        assert [bytes(one.message.body[:]) for one in (first, second)] == [b"body 3", b"body 4"]
        if version != "1.0":  # whose client role forgets what it settles: it would come again
            remote.send(Settle(1, first.delivery, False, Outcome.ACCEPT))
        await publish(answers, 30)
        await remote.request(Rollback(1, None))
        assert sum(counts(old, given)) == 3
        assert counts(old, answers) == (0, 0)

        remote.send(Settle(1, first.delivery, False, Outcome.ACCEPT))
        remote.send(Settle(1, second.delivery, False, Outcome.ACCEPT))
        await publish(answers, 31, 41)
        assert sum(counts(old, given)) == 3
        await remote.request(Commit(1, None))
        assert counts(old, answers) == (2, 0)
        assert sum(counts(old, given)) == 1
        (third,) = await deliveries(remote, 1)
        assert third.message.body == b"body 5"
        remote.send(Settle(1, third.delivery, False, Outcome.ACCEPT))
        await remote.request(Commit(1, None))
        assert sum(counts(old, given)) == 0
        await remote.close()
        await maker.close()

    run(use())


def test_other_outcomes_follow_the_commit(plain: Running, old: Running) -> None:
    async def use() -> None:
        maker = await entered(old.port)
        await maker.request(DeclareQueue(1, None, "dead", durable=True))
        arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
        await maker.request(DeclareQueue(1, None, "outcomes", durable=True, arguments=arguments))
        assert await confirmed(maker, [message(n, "outcomes") for n in range(3)]) == 3
        remote = await selected(plain.port)
        await remote.request(Subscribe(1, None, "outcomes"))
        found = await deliveries(remote, 3)
        kinds = (Outcome.ACCEPT, Outcome.REJECT, Outcome.RELEASE)
        for one, outcome in zip(found, kinds, strict=True):
            remote.send(Settle(1, one.delivery, False, outcome))
        remote.wake()
        await remote.request(DeclareQueue(1, None, "outcomes", passive=True))
        assert counts(old, "outcomes") == (0, 3)
        await remote.request(Commit(1, None))
        (again,) = await deliveries(remote, 1)
        assert again.message.body == b"body 2"
        await comes_to(old, "dead", 1)
        assert sum(counts(old, "outcomes")) == 1
        await remote.close()
        await comes_to(old, "outcomes", 1)
        await maker.close()

    run(use())


def test_a_message_that_cannot_be_routed_comes_back(plain: Running) -> None:
    """At the commit, before its answer, if it is mandatory."""

    async def use() -> None:
        remote = await selected(plain.port)
        remote.send(Publish(1, message(1, "nowhere"), True, False))
        remote.send(Publish(1, message(2, "nowhere"), False, False))
        remote.wake()
        await remote.request(Commit(1, None))
        returned = await anext(remote)
        assert isinstance(returned, Returned)
        assert (returned.message.body, returned.message.key) == (b"body 1", "nowhere")
        assert remote.waiting() is None
        await remote.close()

    run(use())


def test_fetched_messages(plain: Running, old: Running) -> None:
    """Fetches of all clients share a channel at the upstream: settlements outside of
    transactions are made too."""

    async def use() -> None:
        maker = await made(old.port, "fetched")
        assert await confirmed(maker, [message(n, "fetched") for n in range(3)]) == 3
        inside, outside = await selected(plain.port), await entered(plain.port)
        mine = await inside.request(Fetch(1, None, "fetched"))
        theirs = await outside.request(Fetch(1, None, "fetched"))
        assert isinstance(mine, Fetched) and isinstance(theirs, Fetched)
        inside.send(Settle(1, mine.delivery, False, Outcome.ACCEPT))
        await inside.request(Commit(1, None))
        assert sum(counts(old, "fetched")) == 2
        outside.send(Settle(1, theirs.delivery, False, Outcome.ACCEPT))
        outside.wake()
        await comes_to(old, "fetched", 1)
        last = await outside.request(Fetch(1, None, "fetched"))
        assert isinstance(last, Fetched)
        outside.send(Settle(1, last.delivery, False, Outcome.RELEASE))
        outside.wake()
        await comes_to(old, "fetched", 1)
        await outside.request(EndSession(1, None))
        await outside.close()
        await inside.close()
        await maker.close()

    run(use())


@pytest.mark.parametrize("version", ("0-9-1", "1.0"))
def test_two_subscriptions_in_one_transaction(plain: Running, old: Running, version: str) -> None:
    """Are refused, as the upstream would make two commits of them; nothing of it is done."""

    async def use() -> None:
        queues = f"left-{version}", f"right-{version}"
        maker = await made(old.port, *queues, f"none-{version}")
        for queue in queues:
            assert await confirmed(maker, [message(1, queue)]) >= 1
            await maker.request(EndSession(1, None))
            await maker.close()
            maker = await entered(old.port)
        remote = await selected(plain.port, version)
        for queue in queues:
            await remote.request(Subscribe(1, None, queue))
        for one in await deliveries(remote, 2):
            remote.send(Settle(1, one.delivery, False, Outcome.ACCEPT))
        remote.send(Publish(1, message(1, f"none-{version}"), False, False))
        with pytest.raises(Refusal) as refused:
            await remote.request(Commit(1, None))
        assert "several subscriptions" in refused.value.text
        await remote.close()
        for queue in queues:
            await comes_to(old, queue, 1)
        assert counts(old, f"none-{version}") == (0, 0)
        await maker.close()

    run(use())


async def begun(port: int, queue: str) -> tuple[Remote, Deliver]:
    """A transaction with one publish and one accepted delivery."""
    remote = await selected(port)
    await remote.request(Subscribe(1, None, queue))
    (found,) = await deliveries(remote, 1)
    remote.send(Settle(1, found.delivery, False, Outcome.ACCEPT))
    remote.send(Publish(1, message(9, f"{queue}-answers"), False, False))
    remote.wake()
    return remote, found


def test_a_connection_that_is_lost_before_the_commit(old: Running, tmp_path: Path) -> None:
    """The deliveries come again, so that a commit with them is refused. Publishes alone are
    committed over the next connection."""

    async def use(front: Running, relay: Relay) -> None:
        maker = await made(old.port, "cut", "cut-answers")
        assert await confirmed(maker, [message(1, "cut")]) == 1
        remote, _ = await begun(front.port, "cut")
        writer = await selected(front.port)
        writer.send(Publish(1, message(7, "cut-answers"), False, False))
        writer.wake()
        relay.cut()
        with pytest.raises(Refusal) as refused:
            await remote.request(Commit(1, None))
        assert refused.value.condition is Condition.RESOURCE_ERROR
        await writer.request(Commit(1, None))
        assert counts(old, "cut-answers") == (1, 0)
        assert sum(counts(old, "cut")) == 1
        assert remote.closed is None  # only the channel has ended
        await remote.close()
        await writer.close()
        await comes_to(old, "cut", 1)
        await maker.close()

    with Relay(old.port) as relay, facade(tmp_path, relay.port, "0-9-1") as front:
        run(use(front, relay))


@pytest.mark.parametrize("delivered", (True, False))
def test_an_answer_that_is_lost(old: Running, tmp_path: Path, delivered: bool) -> None:
    """The commit is refused, as it may have been made, and not made again."""
    queue = f"unknown-{delivered}"

    async def use(front: Running, relay: Relay) -> None:
        maker = await made(old.port, queue, f"{queue}-answers")
        assert await confirmed(maker, [message(n, queue) for n in range(2)]) == 2
        remote = await selected(front.port)
        await remote.request(Prefetch(1, None, 1))
        await remote.request(Subscribe(1, None, queue))
        for number in range(2):  # the channel has transactions since the first
            if delivered:
                (found,) = await deliveries(remote, 1)
                remote.send(Settle(1, found.delivery, False, Outcome.ACCEPT))
            remote.send(Publish(1, message(number, f"{queue}-answers"), False, False))
            if not number:
                await remote.request(Commit(1, None))
        relay.deaf = True
        commit = asyncio.ensure_future(remote.request(Commit(1, None)))
        await asyncio.to_thread(until, lambda: relay.lost > 0, "the commit is sent")
        relay.cut()
        relay.deaf = False
        with pytest.raises(Refusal) as refused:
            await commit
        assert "not known" in refused.value.text
        await remote.close()
        await comes_to(old, queue, 1 if delivered else 2)
        assert counts(old, f"{queue}-answers") == (1, 0)
        await maker.close()

    with Relay(old.port) as relay, facade(tmp_path, relay.port, "0-9-1") as front:
        run(use(front, relay))


def test_a_client_that_goes_before_the_answer(old: Running, tmp_path: Path) -> None:
    """Its commit is made, and its deliveries are not given back."""

    async def use(front: Running, relay: Relay) -> None:
        maker = await made(old.port, "gone", "gone-answers")
        assert await confirmed(maker, [message(1, "gone")]) == 1
        remote, _ = await begun(front.port, "gone")
        relay.delay = 0.1
        commit = asyncio.ensure_future(remote.request(Commit(1, None)))
        await asyncio.sleep(0.05)
        assert remote._transport is not None
        remote._transport.abort()
        with contextlib.suppress(Refusal):
            await commit
        await comes_to(old, "gone-answers", 1)
        await comes_to(old, "gone", 0)
        await maker.close()

    with Relay(old.port) as relay, facade(tmp_path, relay.port, "0-9-1") as front:
        run(use(front, relay))


def test_kills_in_the_middle(old: Running, tmp_path: Path) -> None:
    """Two queues get a message each in each transaction: both or none."""
    rounds, done = 4, 0

    async def write(front: Running) -> None:
        nonlocal done
        remote = await selected(front.port)
        while True:
            for queue in ("both-a", "both-b"):
                for _ in range(20):
                    remote.send(Publish(1, message(done, queue), False, False))
            await remote.request(Commit(1, None))
            done += 1

    def reached(least: int) -> bool:
        return done >= least

    async def use(front: Running) -> None:
        maker = await made(old.port, "both-a", "both-b")
        for number in range(rounds):
            least = done + 5 * (number + 1)
            writers = [asyncio.ensure_future(write(front)) for _ in range(3)]
            await asyncio.to_thread(until, partial(reached, least), "commits")
            front.kill()
            await asyncio.gather(*writers, return_exceptions=True)
            await asyncio.to_thread(front.start)
        await asyncio.sleep(0.1)
        left, right = depth(old, "both-a"), depth(old, "both-b")
        assert left == right >= 20 * done
        assert left % 20 == 0
        await maker.close()

    with facade(tmp_path, old.port, "0-9-1") as front:
        run(use(front))


def test_many_messages(plain: Running, old: Running) -> None:
    """More than one turn of the loop handles."""
    count = 5000

    async def use() -> None:
        maker = await made(old.port, "much", "more")
        assert await confirmed(maker, [message(n, "much") for n in range(count)]) == count
        remote = await selected(plain.port)
        await remote.request(Subscribe(1, None, "much"))
        for one in await deliveries(remote, count):
            remote.send(Settle(1, one.delivery, False, Outcome.ACCEPT))
            remote.send(Publish(1, one.message.routed_as("", "more"), False, False))
            await remote.drain()
        await remote.request(Commit(1, None))
        assert sum(counts(old, "much")) == 0
        assert counts(old, "more") == (count, 0)
        await remote.close()
        await maker.close()

    run(use())


def test_the_journal_has_what_was_committed(old: Running, tmp_path: Path) -> None:
    """Without messages that were rolled back or came back."""

    async def use(front: Running) -> None:
        maker = await made(old.port, "recorded")
        remote = await selected(front.port)
        remote.send(Publish(1, message(1, "recorded"), False, False))
        await remote.request(Rollback(1, None))
        for n in (2, 3):
            remote.send(Publish(1, message(n, "recorded"), True, False))
        remote.send(Publish(1, message(4, "not-there"), True, False))
        await remote.request(Commit(1, None))
        assert isinstance(await anext(remote), Returned)
        await remote.close()
        await maker.close()

    more = '[[journal.recording]]\nvhost = "*"\n'
    with facade(tmp_path, old.port, "0-9-1", more) as front:
        run(use(front))
        found = front.asked("/v1/%2F/journal")["entries"]
        assert [(one["address"], one["offset"]) for one in found] == [
            ("/queues/recorded", 0),
            ("/queues/recorded", 1),
        ]

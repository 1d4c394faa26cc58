"""Consumers, settling, confirms and transactions."""

import asyncio
from typing import Any

import pytest

from gateway.errors import Condition, Refusal
from gateway.operations import (
    Cancelled,
    Closed,
    Commit,
    Confirm,
    DeclareQueue,
    DeleteQueue,
    Deliver,
    Fetch,
    Flow,
    Outcome,
    Prefetch,
    Recover,
    Returned,
    Rollback,
    Select,
    SelectConfirms,
    SessionLost,
    Subscribe,
    Unsubscribe,
)
from tests.net_client.places import Talk, following, refusal_of

pytestmark = pytest.mark.interop

ACCEPT, RELEASE, REJECT = Outcome.ACCEPT, Outcome.RELEASE, Outcome.REJECT


async def filled(talk: Talk, count: int, **options: Any) -> str:
    """A queue with messages 0, 1, 2 ..."""
    queue = await talk.queue(**options)
    for number in range(count):
        talk.publish(queue, b"%d" % number)
    await talk.settled(queue, count)
    return queue


async def test_ack_one_and_many(talk: Talk) -> None:
    await talk.open()
    queue = await filled(talk, 5)
    await talk.subscribe(queue)
    tags = [(await talk.delivery()).delivery for _ in range(5)]
    assert tags == [1, 2, 3, 4, 5]
    talk.settle(2, ACCEPT)
    talk.settle(4, ACCEPT, multiple=True)
    await talk.reopen()
    await talk.settled(queue, 1)
    found = await talk.fetch(queue)
    assert found is not None and (found.message.body, found.redelivered) == (b"4", True)


async def test_zero_is_all(talk: Talk) -> None:
    await talk.open()
    queue = await filled(talk, 3)
    await talk.subscribe(queue)
    for _ in range(3):
        await talk.delivery()
    talk.settle(0, ACCEPT, multiple=True)
    await talk.reopen()
    await talk.settled(queue, 0)


async def test_release_comes_back_in_place(talk: Talk) -> None:
    await talk.open()
    queue = await filled(talk, 3)
    await talk.ask(Prefetch(1, None, 1))
    await talk.subscribe(queue)
    first = await talk.delivery()
    assert not first.redelivered
    talk.settle(first.delivery, RELEASE)
    again = await talk.delivery()
    assert (again.message.body, again.redelivered) == (b"0", True)


@pytest.mark.parametrize("multiple", [False, True])
async def test_reject_and_nack_to_the_dead(talk: Talk, multiple: bool) -> None:
    if multiple:
        talk.place.need("nack")
    await talk.open()
    dead = await talk.queue(".dead")
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead}
    queue = await filled(talk, 2, arguments=arguments)
    await talk.subscribe(queue)
    for _ in range(2):
        last = await talk.delivery()
    talk.settle(last.delivery, REJECT, multiple)
    await talk.settled(dead, 2 if multiple else 1)
    found = await talk.fetch(dead)
    assert found is not None
    death = (found.message.properties.application or {})["x-death"][0]
    assert (death["queue"], death["reason"], death["count"]) == (queue, "rejected", 1)


async def test_unknown_delivery(talk: Talk) -> None:
    await talk.open()
    talk.settle(77, ACCEPT)
    lost = await talk.next(SessionLost)
    assert lost.condition is Condition.PRECONDITION_FAILED
    assert "unknown delivery tag 77" in lost.text
    with pytest.raises(Refusal):
        talk.settle(78, ACCEPT)
    await talk.reopen(ended=True)


async def test_get(talk: Talk) -> None:
    await talk.open()
    queue = await filled(talk, 2)
    first = await talk.fetch(queue, no_ack=False)
    assert first is not None and (first.delivery, first.remaining) == (1, 1)
    second = await talk.fetch(queue)
    assert second is not None and (second.message.body, second.remaining) == (b"1", 0)
    assert await talk.fetch(queue) is None
    talk.settle(first.delivery, RELEASE)
    again = await talk.fetch(queue)
    assert again is not None and (again.message.body, again.redelivered) == (b"0", True)
    await talk.refused(Fetch(1, None, "missing"), Condition.NOT_FOUND, "no queue 'missing'")


async def test_many_gets_in_a_row(talk: Talk) -> None:
    remote = await talk.open()
    queue = await filled(talk, 20)
    asked = [remote.request(Fetch(1, None, queue, True)) for _ in range(22)]
    found = [await answer for answer in asked]
    assert [one and one.message.body for one in found[:20]] == [b"%d" % n for n in range(20)]
    assert found[20:] == [None, None]


async def test_recover(talk: Talk) -> None:
    await talk.open()
    queue = await filled(talk, 2)
    await talk.subscribe(queue)
    for _ in range(2):
        await talk.delivery()
    await talk.ask(Recover(1, None, True))
    again = [await talk.delivery() for _ in range(2)]
    assert [(one.message.body, one.redelivered) for one in again] == [(b"0", True), (b"1", True)]
    talk.settle(again[-1].delivery, ACCEPT, multiple=True)
    await talk.reopen()
    await talk.settled(queue, 0)


async def test_recover_without_requeue(talk: Talk) -> None:
    remote = await talk.open()
    queue = await filled(talk, 1)
    await talk.subscribe(queue)
    await talk.delivery()
    outcome: object
    try:
        await remote.request(Recover(1, None, False))  # on 0-8 there is no answer
        found = await anext(remote)
        outcome = type(found).__name__
        if isinstance(found, Closed):
            outcome = found.condition, "CONNECTION"
    except Refusal as refusal:
        outcome = refusal.condition, refusal.lost.name
    assert outcome == talk.place.expected("recover without requeue")


@pytest.mark.parametrize("shared", [False, True])
async def test_prefetch(talk: Talk, shared: bool) -> None:
    await talk.open()
    queue = await filled(talk, 10)
    await talk.ask(Prefetch(1, None, 2, 0, shared))
    await talk.subscribe(queue, tag="one")
    await talk.subscribe(queue, tag="two")
    # 0-8 and 0-9 know a prefetch of the channel only.
    limit = 2 if shared or talk.place.documented else 4
    held = [await talk.delivery() for _ in range(limit)]
    await talk.settled(queue, 10 - limit)
    talk.settle(held[0].delivery, ACCEPT)
    await talk.delivery()
    await talk.settled(queue, 10 - limit - 1)


async def test_prefetch_in_octets(talk: Talk) -> None:
    await talk.open()
    expected = talk.place.expected("prefetch in octets")
    if expected is not None:
        refusal = await refusal_of(talk.remote, Prefetch(1, None, 0, 1000))
        assert (refusal.condition, refusal.lost.name) == expected
        return
    queue = await talk.queue()
    for _ in range(5):
        talk.publish(queue, bytes(400))
    await talk.settled(queue, 5)
    await talk.ask(Prefetch(1, None, 0, 1000))
    await talk.subscribe(queue)
    for _ in range(2):
        await talk.delivery()
    await talk.settled(queue, 3)


async def test_flow(talk: Talk) -> None:
    """We ask the server to hold its deliveries."""
    await talk.open()
    queue = await filled(talk, 2)
    expected = talk.place.expected("stop the server's flow")
    if expected is not None:
        refusal = await refusal_of(talk.remote, Flow(1, None, False))
        assert (refusal.condition, refusal.lost.name) == expected
        return
    assert await talk.ask(Flow(1, None, False)) is False
    await talk.subscribe(queue, no_ack=True)
    await talk.settled(queue, 2)
    assert await talk.ask(Flow(1, None, True)) is True
    assert [(await talk.delivery()).message.body for _ in range(2)] == [b"0", b"1"]


async def test_cancel_keeps_unsettled_deliveries(talk: Talk) -> None:
    await talk.open()
    queue = await filled(talk, 3)
    await talk.ask(Prefetch(1, None, 1))
    tag = await talk.subscribe(queue, tag="mine")
    assert tag == "mine"
    first = await talk.delivery()
    assert await talk.ask(Unsubscribe(1, None, tag)) == tag
    await talk.settled(queue, 2)
    talk.settle(first.delivery, ACCEPT)
    await talk.settled(queue, 2)
    assert await talk.ask(Unsubscribe(1, None, "nobody")) == "nobody"


async def test_consumers_are_counted_and_exclusive(talk: Talk) -> None:
    await talk.open()
    queue = await talk.queue()
    tag = await talk.subscribe(queue, exclusive=True)
    assert tag.startswith("amq.ctag-")
    state = await talk.ask(DeclareQueue(1, None, queue, passive=True))
    assert state.consumers == 1
    again = Subscribe(1, None, queue, exclusive=True)
    await talk.refused(again, Condition.ACCESS_REFUSED, "in exclusive use")


async def test_same_tag_twice(talk: Talk) -> None:
    """A hard error in every version."""
    remote = await talk.open()
    queue = await talk.queue()
    await talk.subscribe(queue, tag="mine")
    refusal = await refusal_of(remote, Subscribe(1, None, queue, "mine"))
    assert (refusal.condition, refusal.lost.name) == (Condition.NOT_ALLOWED, "CONNECTION")


async def test_queue_dies_under_its_consumer(talk: Talk) -> None:
    await talk.open()
    await talk.ask(DeclareQueue(1, None, talk.name))
    tag = await talk.subscribe(talk.name)
    other = await talk.another()
    await other.request(DeleteQueue(1, None, talk.name))
    assert await talk.next(Cancelled) == Cancelled(1, tag)
    await talk.queue(".after")


async def test_deliveries_are_shared_between_connections(talk: Talk) -> None:
    one = await talk.open()
    two = await talk.another()
    await talk.ask(DeclareQueue(1, None, talk.name, auto_delete=True))
    for remote in (one, two):
        await remote.request(Prefetch(1, None, 1))
        await remote.request(Subscribe(1, None, talk.name))
    for number in range(2):
        talk.publish(talk.name, b"%d" % number)
    found = {(await following(remote, Deliver)).message.body for remote in (one, two)}
    assert found == {b"0", b"1"}


async def test_confirms(talk: Talk) -> None:
    talk.place.need("confirms")
    await talk.open()
    queue = await talk.queue(durable=True)
    await talk.ask(SelectConfirms(1, None))
    for number in range(100):
        talk.publish(queue, b"%d" % number, durable=True)
    assert await confirmed(talk, 100) == (set(range(1, 101)), set())


async def test_confirms_of_returned(talk: Talk) -> None:
    talk.place.need("confirms")
    await talk.open()
    await talk.ask(SelectConfirms(1, None))
    talk.publish("nobody", b"x", "amq.direct", mandatory=True)
    await talk.next(Returned)
    assert await talk.next(Confirm) == Confirm(1, 1, False, True)


async def test_negative_confirm(talk: Talk) -> None:
    talk.place.need("confirms")
    await talk.open()
    arguments = {"x-max-length": 2, "x-overflow": "reject-publish"}
    queue = await talk.queue(arguments=arguments)
    await talk.ask(SelectConfirms(1, None))
    for number in range(4):
        talk.publish(queue, b"%d" % number)
    assert await confirmed(talk, 4) == ({1, 2}, {3, 4})


async def confirmed(talk: Talk, count: int) -> tuple[set[int], set[int]]:
    """Sequence numbers accepted and refused, when that many are known."""
    good: set[int] = set()
    bad: set[int] = set()
    while len(good) + len(bad) < count:
        confirm = await talk.next(Confirm)
        first = 1 if confirm.multiple else confirm.sequence
        found = set(range(first, confirm.sequence + 1)) - good - bad
        assert found, "confirmed twice"
        (good if confirm.accepted else bad).update(found)
    return good, bad


async def test_commit_and_rollback(talk: Talk) -> None:
    await talk.open()
    queue = await talk.queue()
    await talk.ask(Select(1, None))
    talk.publish(queue, b"never")
    await talk.ask(Rollback(1, None))
    talk.publish(queue, b"one")
    talk.publish(queue, b"two")
    await asyncio.sleep(0.05)
    assert (await talk.ask(DeclareQueue(1, None, queue, passive=True))).messages == 0
    await talk.ask(Commit(1, None))
    await talk.settled(queue, 2)
    first = await talk.fetch(queue, no_ack=False)
    assert first is not None and first.message.body == b"one"
    talk.settle(first.delivery, ACCEPT)
    await talk.ask(Rollback(1, None))
    talk.settle(first.delivery, ACCEPT)
    await talk.ask(Commit(1, None))
    await talk.reopen()
    await talk.settled(queue, 1)


async def test_commit_without_select(talk: Talk) -> None:
    await talk.open()
    await talk.refused(Commit(1, None), Condition.PRECONDITION_FAILED, "channel is not tran")


async def test_transaction_and_confirms_exclude_each_other(talk: Talk) -> None:
    talk.place.need("confirms")
    await talk.open()
    await talk.ask(Select(1, None))
    await talk.refused(
        SelectConfirms(1, None), Condition.PRECONDITION_FAILED, "cannot switch from tx to confirm"
    )
    await talk.ask(SelectConfirms(1, None))
    await talk.refused(
        Select(1, None), Condition.PRECONDITION_FAILED, "cannot switch from confirm to tx"
    )

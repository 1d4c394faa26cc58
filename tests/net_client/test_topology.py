"""Exchanges, queues and bindings: made, looked at, refused and taken away."""

from typing import Any

import pytest

from gateway.adapters import Limits
from gateway.errors import Condition, Refusal
from gateway.operations import (
    Bind,
    DeclareExchange,
    DeclareQueue,
    DeleteExchange,
    DeleteQueue,
    Operation,
    PurgeQueue,
    QueueState,
    SessionLost,
    Subscribe,
    Unbind,
)
from tests.net_client.places import Talk, refusal_of

pytestmark = pytest.mark.interop

NOT_FOUND, FAILED = Condition.NOT_FOUND, Condition.PRECONDITION_FAILED
REFUSED, LOCKED = Condition.ACCESS_REFUSED, Condition.RESOURCE_LOCKED


async def test_queue_from_birth_to_death(talk: Talk) -> None:
    await talk.open()
    name = talk.name
    declared = DeclareQueue(1, None, name, durable=True)
    try:
        assert await talk.ask(declared) == QueueState(name, 0, 0)
        assert await talk.ask(declared) == QueueState(name, 0, 0)
        for number in range(5):
            talk.publish(name, b"%d" % number)
        await talk.settled(name, 5)
        assert await talk.ask(PurgeQueue(1, None, name)) == 5
        talk.publish(name, b"last")
        await talk.settled(name, 1)
        await talk.refused(DeleteQueue(1, None, name, if_empty=True), FAILED, "not empty")
        await talk.subscribe(name, no_ack=False)
        assert (await talk.delivery()).message.body == b"last"
        await talk.refused(DeleteQueue(1, None, name, if_unused=True), FAILED, "in use")
    finally:
        assert await talk.ask(DeleteQueue(1, None, name)) == 1
    await talk.missing(DeleteQueue(1, None, name), 0)


async def test_server_names_a_queue(talk: Talk) -> None:
    await talk.open()
    one = await talk.ask(DeclareQueue(1, None, "", exclusive=True))
    two = await talk.ask(DeclareQueue(1, None, "", exclusive=True))
    assert one.name.startswith("amq.gen-") and one.name != two.name
    # An empty name is the queue last declared on this channel (0-9-1 §1.7.2.1).
    await talk.ask(Bind(1, None, "", "amq.direct", "k"))
    talk.publish("k", b"to the last", "amq.direct")
    await talk.settled(two.name, 1)
    again = DeclareQueue(1, None, "", passive=True)
    await talk.answered(again, "passive declare without a name")


async def test_exchange_from_birth_to_death(talk: Talk) -> None:
    await talk.open()
    name = talk.name
    for kind in ("direct", "fanout", "topic", "headers"):
        await talk.ask(DeclareExchange(1, None, name, kind))
        await talk.ask(DeclareExchange(1, None, name, kind))
        await talk.ask(DeclareExchange(1, None, name, kind, passive=True))
        await talk.ask(DeleteExchange(1, None, name))
    await talk.refused(DeclareExchange(1, None, name, passive=True), NOT_FOUND, "no exchange")
    await talk.missing(DeleteExchange(1, None, name))


ARGUED = {"x-max-length": 3, "x-dead-letter-exchange": "amq.fanout"}


def errors(name: str) -> list[tuple[Operation, Condition, str]]:
    """Requests that cost the channel, after a plain queue and a direct exchange ``name``."""
    return [
        (DeclareQueue(1, None, "missing", passive=True), NOT_FOUND, "no queue 'missing'"),
        (DeclareQueue(1, None, name, exclusive=True, arguments=ARGUED), FAILED, "inequivalent arg"),
        (DeclareQueue(1, None, "amq.mine"), REFUSED, "reserved prefix"),
        (
            DeclareQueue(1, None, "bad", arguments={"x-max-length": "many"}),
            FAILED,
            "invalid arg 'x-max-length' for queue 'bad' in vhost '/'",
        ),
        (PurgeQueue(1, None, "missing"), NOT_FOUND, "no queue 'missing' in vhost '/'"),
        (DeclareExchange(1, None, "amq.mine"), REFUSED, "reserved prefix"),
        (DeclareExchange(1, None, "amq.none", passive=True), NOT_FOUND, "no exchange 'amq.none'"),
        (DeleteExchange(1, None, "amq.direct"), REFUSED, ""),
        (DeleteExchange(1, None, name, if_unused=True), FAILED, "in use"),
        (Bind(1, None, name, "missing", "k"), NOT_FOUND, "no exchange 'missing'"),
        (Bind(1, None, "missing", name, "k"), NOT_FOUND, "no queue 'missing'"),
        (Subscribe(1, None, "missing"), NOT_FOUND, "no queue 'missing'"),
    ]


@pytest.mark.parametrize("number", range(len(errors(""))))
async def test_error_costs_the_channel_only(talk: Talk, number: int) -> None:
    await talk.open()
    queue = await talk.queue()
    await talk.ask(DeclareExchange(1, None, talk.name, "direct", auto_delete=True))
    await talk.ask(Bind(1, None, queue, talk.name, "bound"))
    operation, condition, text = errors(talk.name)[number]
    await talk.refused(operation, condition, text)
    await talk.settled(queue, 0)


async def test_an_exchange_that_is_something_else(talk: Talk) -> None:
    """0-8 and 0-9: another type ends the connection (530), other flags are ignored."""
    await talk.open()
    await talk.ask(DeclareExchange(1, None, talk.name, "direct", auto_delete=True))
    flags = DeclareExchange(1, None, talk.name, "direct", durable=True, auto_delete=True)
    other = DeclareExchange(1, None, talk.name, "fanout", auto_delete=True)
    if talk.place.documented:
        await talk.ask(flags)
        await talk.ask(DeleteExchange(1, None, talk.name))
        await talk.ask(DeclareExchange(1, None, talk.name, "direct", auto_delete=True))
        refusal = await refusal_of(talk.remote, other)
        assert (refusal.condition, refusal.lost.name) == (Condition.NOT_ALLOWED, "CONNECTION")
    else:
        await talk.refused(flags, FAILED, "inequivalent arg 'durable'")
        await talk.refused(other, FAILED, "inequivalent arg 'type'")


async def test_bound_to_the_default_exchange(talk: Talk) -> None:
    await talk.open()
    queue = await talk.queue()
    bind = Bind(1, None, queue, "", talk.name + ".key")
    if talk.place.documented:
        await talk.ask(bind)
        talk.publish(talk.name + ".key", b"by another key")
        await talk.settled(queue, 1)
    else:
        await talk.refused(bind, REFUSED, "default exchange")


async def test_where_the_brokers_differ(talk: Talk) -> None:
    await talk.open()
    name = await talk.queue()
    durable = DeclareQueue(1, None, name, durable=True, exclusive=True)
    quorum = DeclareQueue(1, None, f"{name}.q", durable=True, arguments={"x-queue-type": "quorum"})
    await talk.ask(quorum)
    await talk.ask(DeleteQueue(1, None, f"{name}.q"))
    if talk.version != "0-8":
        if not talk.place.documented:
            await talk.answered(durable, "durable differs on an exclusive queue")
        await talk.refused(DeclareExchange(1, None, "", "direct"), REFUSED, "")


async def test_unknown_exchange_type(talk: Talk) -> None:
    """A hard error: the connection goes."""
    remote = await talk.open()
    refusal = await refusal_of(remote, DeclareExchange(1, None, talk.name, "x-nonsense"))
    assert (refusal.condition, refusal.lost.name) == (Condition.COMMAND_INVALID, "CONNECTION")


async def test_exclusive_queue_is_locked_for_others(talk: Talk) -> None:
    await talk.open()
    queue = await talk.queue()
    other = await talk.another()
    refusal = await refusal_of(other, DeclareQueue(1, None, queue, passive=True))
    assert refusal.condition is LOCKED
    assert "cannot obtain exclusive access to locked queue" in refusal.text


async def test_bind_and_unbind(talk: Talk) -> None:
    await talk.open()
    queue = await talk.queue()
    await talk.ask(DeclareExchange(1, None, talk.name, "topic", auto_delete=True))
    bind: Any = (1, None, queue, talk.name, "a.*.#")
    await talk.ask(Bind(*bind))
    await talk.ask(Bind(*bind))
    await talk.ask(Bind(1, None, queue, talk.name, "keep"))
    for key in ("a", "a.b", "a.b.c.d", "b.a"):
        talk.publish(key, key.encode(), talk.name)
    await talk.settled(queue, 2)
    assert await talk.bodies(queue) == [b"a.b", b"a.b.c.d"]
    await talk.ask(Unbind(*bind))
    await talk.missing(Unbind(*bind))
    talk.publish("a.b", b"nowhere", talk.name)
    talk.publish("keep", b"kept", talk.name)
    await talk.settled(queue, 1)
    assert await talk.bodies(queue) == [b"kept"]


async def test_unbind_from_a_deleted_exchange(talk: Talk) -> None:
    await talk.open()
    await talk.missing(Unbind(1, None, "missing", "amq.direct", "k"))
    queue = await talk.queue()
    await talk.missing(Unbind(1, None, queue, "missing", "k"))


async def test_headers_exchange(talk: Talk) -> None:
    await talk.open()
    queue = await talk.queue()
    arguments = {"x-match": "all", "colour": "red", "size": 7}
    await talk.ask(Bind(1, None, queue, "amq.headers", "", arguments))
    talk.publish("", b"no", "amq.headers", application={"colour": "red"})
    talk.publish("", b"yes", "amq.headers", application={"colour": "red", "size": 7, "more": 1})
    await talk.settled(queue, 1)
    assert await talk.bodies(queue) == [b"yes"]


async def test_exchange_to_exchange(talk: Talk) -> None:
    talk.place.need("exchange to exchange")
    await talk.open()
    queue = await talk.queue()
    source, target = f"{talk.name}.a", f"{talk.name}.b"
    await talk.ask(DeclareExchange(1, None, source, "direct"))
    await talk.ask(DeclareExchange(1, None, target, "fanout", internal=True))
    try:
        await talk.ask(Bind(1, None, queue, target, ""))
        await talk.ask(Bind(1, None, target, source, "k", to_exchange=True))
        talk.publish("k", b"through two", source)
        talk.publish("other", b"nowhere", source)
        await talk.settled(queue, 1)
        assert await talk.bodies(queue) == [b"through two"]
        await talk.ask(Unbind(1, None, target, source, "k", to_exchange=True))
        talk.publish("k", b"nowhere", source)
        await talk.settled(queue, 0)
        missing = Bind(1, None, "missing", source, "k", to_exchange=True)
        await talk.refused(missing, NOT_FOUND, "no exchange 'missing'")
    finally:
        await talk.ask(DeleteExchange(1, None, source))
        await talk.ask(DeleteExchange(1, None, target))


async def test_publish_to_a_missing_exchange(talk: Talk) -> None:
    """Nobody waits for an answer, so only the channel's end tells."""
    await talk.open()
    talk.publish("k", b"x", "missing")
    lost = await talk.next(SessionLost)
    assert (lost.channel, lost.condition) == (1, NOT_FOUND)
    await talk.reopen(ended=True)


async def test_requests_in_a_row(talk: Talk) -> None:
    """Pipelined requests are answered in order; the first refusal takes the rest of its channel."""
    remote = await talk.open(limits=Limits(heartbeat=0))
    names = [f"{talk.name}.{number}" for number in range(50)]
    asked = [remote.request(DeclareQueue(1, None, name, exclusive=True)) for name in names]
    assert [(await answer).name for answer in asked] == names
    mixed = [names[0], "missing", *names[1:3]]
    asked = [remote.request(DeclareQueue(1, None, name, passive=True)) for name in mixed]
    assert (await asked[0]).name == names[0]
    for late in asked[1:]:
        with pytest.raises(Refusal, match="missing"):
            await late
    assert isinstance(await talk.next(SessionLost), SessionLost)
    await talk.reopen(ended=True)

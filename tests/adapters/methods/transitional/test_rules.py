"""Rules of the definition of 24 July 2007, sentence by sentence, on a real broker.

Those that are not kept are departures (``departures.py``)."""

from typing import Any

import pytest

from gateway.adapters.methods.wire import layouts_0_10_07 as w
from tests.adapters.methods.transitional.serving import Client, Said

VERSIONS = ("0-10-07-24", "0-10-07-27")
START = w.ConnectionStartOk(b"", "PLAIN", b"\0guest\0guest", "en_US")


def queue(name: str = "q", **fields: Any) -> w.QueueDeclare:
    return w.QueueDeclare(queue=name, **fields)


def exchange(name: str = "e", kind: str = "direct", **fields: Any) -> w.ExchangeDeclare:
    return w.ExchangeDeclare(exchange=name, type=kind, **fields)


def bind(name: str = "q", to: str = "amq.direct", key: str = "k") -> w.QueueBind:
    return w.QueueBind(queue=name, exchange=to, routing_key=key)


def consume(name: str = "q", tag: str = "c", **fields: Any) -> w.BasicConsume:
    return w.BasicConsume(queue=name, consumer_tag=tag, **fields)


def take(name: str = "q", tag: str = "c", **fields: Any) -> w.MessageConsume:
    return w.MessageConsume(queue=name, destination=tag, **fields)


def publish(key: str = "q", destination: str = "") -> w.MessageTransfer:
    return w.MessageTransfer(destination=destination, routing_key=key, body=b"\0body")


Q, E = queue(), exchange()
CHANNEL, CONNECTION = "channel.close", "connection.close"

REFUSED: dict[str, tuple[list[Any], str, int]] = {
    # class exchange
    "The default exchange MUST NOT be accessible": ([exchange("")], CHANNEL, 403),
    "deleted by its empty name": ([w.ExchangeDelete(exchange="")], CHANNEL, 403),
    'an exchange starting with "amq."': ([exchange("amq.mine")], CHANNEL, 403),
    "redeclare with a different type": ([E, exchange(kind="fanout")], CONNECTION, 530),
    "a type that the server does not support": ([exchange(kind="odd")], CONNECTION, 503),
    "a different alternate-exchange": (
        [exchange(alternate_exchange="amq.fanout"), exchange(alternate_exchange="amq.topic")],
        CHANNEL,
        406,
    ),
    "passive and does not exist": ([exchange("none", passive=True)], CHANNEL, 404),
    "delete an exchange that does not exist": ([w.ExchangeDelete(exchange="none")], CHANNEL, 404),
    "delete an exchange in use": (
        [E, Q, bind(to="e"), w.ExchangeDelete(exchange="e", if_unused=True)],
        CHANNEL,
        406,
    ),
    "delete an exchange that is the alternate of one": (
        [E, exchange("f", alternate_exchange="e"), w.ExchangeDelete(exchange="e")],
        CHANNEL,
        530,
    ),
    "delete an exchange that is the alternate of a queue": (
        [E, queue(alternate_exchange="e"), w.ExchangeDelete(exchange="e")],
        CHANNEL,
        530,
    ),
    # class queue
    'a queue starting with "amq."': ([queue("amq.mine")], CHANNEL, 403),
    "passive and no such queue": ([queue("amq.mine", passive=True)], CHANNEL, 404),
    "a queue with a different alternate-exchange": (
        [queue(alternate_exchange="amq.fanout"), queue(alternate_exchange="amq.topic")],
        CHANNEL,
        406,
    ),
    "bind a non-existent and unnamed queue": ([bind("")], CONNECTION, 530),
    "bind a non-existent queue": ([bind("none")], CHANNEL, 404),
    "bind a queue to a non-existent exchange": ([Q, bind(to="none")], CHANNEL, 404),
    "unbind: the queue does not exist": (
        [w.QueueUnbind(queue="none", exchange="amq.direct", routing_key="k")],
        CHANNEL,
        404,
    ),
    "unbind: the exchange does not exist": (
        [Q, w.QueueUnbind(queue="q", exchange="none", routing_key="k")],
        CHANNEL,
        404,
    ),
    "purge: no queue was declared": ([w.QueuePurge(queue="")], CONNECTION, 530),
    "purge a non-existing queue": ([w.QueuePurge(queue="none")], CHANNEL, 404),
    "delete: no queue was declared": ([w.QueueDelete(queue="")], CONNECTION, 530),
    "delete a non-existing queue": ([w.QueueDelete(queue="none")], CHANNEL, 404),
    "respect the if-unused flag": (
        [Q, consume(), w.QueueDelete(queue="q", if_unused=True)],
        CHANNEL,
        406,
    ),
    "the queue is not empty": (
        [Q, publish(), w.QueueDelete(queue="q", if_empty=True)],
        CHANNEL,
        406,
    ),
    # classes basic and message
    "basic: no queue was declared": ([consume("")], CONNECTION, 530),
    "message: no queue was declared": ([take("")], CONNECTION, 530),
    "basic: a tag of an existing consumer": ([Q, consume(), consume()], CONNECTION, 530),
    "message: a destination of an existing consumer": ([Q, take(), take()], CONNECTION, 530),
    "basic: exclusive, and there are consumers": (
        [Q, consume(), consume(tag="d", exclusive=True)],
        CHANNEL,
        403,
    ),
    "message: exclusive, and there are consumers": (
        [Q, take(), take(tag="d", exclusive=True)],
        CHANNEL,
        403,
    ),
    "basic: get of no queue": ([w.BasicGet(queue="")], CONNECTION, 530),
    "message: get of no queue": ([w.MessageGet(queue="", destination="d")], CONNECTION, 530),
    "the reference is open": ([w.MessageOpen(b"r"), w.MessageOpen(b"r")], CONNECTION, 503),
    "append: the reference is not open": ([w.MessageAppend(b"r", b"x")], CONNECTION, 503),
    "close: the reference is not open": ([w.MessageClose(b"r")], CONNECTION, 503),
    "checkpoint: the reference is not open": ([w.MessageCheckpoint(b"r", "i")], CONNECTION, 503),
    "resume: the reference is open": (
        [w.MessageOpen(b"r"), w.MessageResume(b"r", "i")],
        CONNECTION,
        503,
    ),
    # class channel
    "use open on an already-opened channel": ([w.ChannelOpen()], CONNECTION, 504),
}
"""What is said, which of both it costs, and the code."""

TAKEN: dict[str, list[Any]] = {
    **{
        f"pre-declare {name}": [exchange(name, "", passive=True)]
        for name in ("amq.direct", "amq.fanout", "amq.topic", "amq.match", "amq.headers")
    },
    "exchange: ignore the durable field": [E, exchange(durable=True)],
    "exchange: ignore the auto-delete field": [E, exchange(auto_delete=True)],
    "queue: ignore the durable field": [Q, queue(durable=True)],
    "queue: ignore the auto-delete field": [Q, queue(auto_delete=True)],
    "ignore duplicate bindings": [Q, bind(), bind()],
    "basic: cancel where the queue does not exist": [
        Q, consume(), w.QueueDelete(queue="q"), w.BasicCancel(consumer_tag="c"),
    ],
    "message: cancel where the queue does not exist": [
        Q, take(), w.QueueDelete(queue="q"), w.MessageCancel(destination="c"),
    ],
}  # fmt: skip


def heard(version: str, records: list[Any]) -> list[Said]:
    client = Client(version).open()
    for record in records[:-1]:
        said = client.say(1, record)
        assert not [each for each in said if each.name.endswith(".close")], record
    return client.say(1, records[-1])


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("sentence", REFUSED)
def test_refused(version: str, sentence: str) -> None:
    records, scope, code = REFUSED[sentence]
    (close,) = [each for each in heard(version, records) if each.name.endswith(".close")]
    assert (close.name, close.record.reply_code) == (scope, code)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("sentence", TAKEN)
def test_taken(version: str, sentence: str) -> None:
    said = heard(version, TAKEN[sentence])
    assert not [each for each in said if each.name.endswith(".close")]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_mechanism_that_was_not_proposed(version: str) -> None:
    """The connection is closed "without sending any further data"."""
    client = Client(version)
    client.served.receive(client.table.header)
    said = client.answer(0, w.ConnectionStartOk(b"", "KERBEROS", b"x", "en_US"), 1)
    assert said == [] and client.served.adapter.closing


@pytest.mark.parametrize("version", VERSIONS)
def test_names_of_queues_are_made(version: str) -> None:
    """Unique ones, each bound to the default exchange by its name."""
    client = Client(version).open()
    made = [client.say(1, queue(""))[0].record.queue for _ in range(3)]
    assert len(set(made)) == 3 and all(made)
    client.say(1, publish(made[0]))
    queues = client.served.broker.vhosts["/"].queues
    assert [queues[name].depth for name in made] == [1, 0, 0]


@pytest.mark.parametrize("version", VERSIONS)
def test_what_no_queue_takes_goes_to_the_alternate_exchange(version: str) -> None:
    """Without one it is dropped silently."""
    client = Client(version).open()
    for record in (Q, bind(to="amq.fanout"), exchange("e", alternate_exchange="amq.fanout")):
        client.say(1, record)
    for destination in ("e", "amq.direct"):
        said = client.say(1, publish("nothing", destination))
        assert not [each for each in said if each.name.endswith((".close", "reject"))]
    assert client.served.broker.vhosts["/"].queues["q"].depth == 1


@pytest.mark.parametrize("version", VERSIONS)
def test_what_is_left_in_a_deleted_queue_goes_to_its_alternate_exchange(version: str) -> None:
    client = Client(version).open()
    for record in (
        queue("dead"),
        bind("dead", "amq.fanout"),
        queue(alternate_exchange="amq.fanout"),
    ):
        client.say(1, record)
    client.say(1, publish())
    client.say(1, publish())
    client.say(1, w.QueueDelete(queue="q"))
    assert client.served.broker.vhosts["/"].queues["dead"].depth == 2


@pytest.mark.parametrize("version", VERSIONS)
def test_purging(version: str) -> None:
    """The queue is empty, and what was sent to a client on a transacted channel is still its."""
    client = Client(version).open()
    for record in (Q, w.TxSelect(), publish(), publish(), w.TxCommit()):
        client.say(1, record)
    client.say(1, w.MessageQos(0, 1))
    client.say(1, take())
    held = client.served.broker.vhosts["/"].queues["q"]
    assert (held.depth, held.unsettled) == (1, 1)
    client.say(1, w.QueuePurge(queue="q"))
    assert (held.depth, held.unsettled) == (0, 1)


@pytest.mark.parametrize("version", VERSIONS)
def test_virtual_hosts_are_apart(version: str) -> None:
    client = Client(version)
    client.served.broker.create_vhost("other")
    client.served.broker.access.set_permissions("guest", "other", ".*", ".*", ".*")
    client.open().say(1, Q)
    assert "q" not in client.served.broker.vhosts["other"].queues


@pytest.mark.parametrize("version", VERSIONS)
def test_a_message_larger_than_the_window_goes_alone(version: str) -> None:
    """ "the prefetch size does not limit the transfer of single messages"."""
    client = Client(version).open()
    client.say(1, Q)
    client.say(1, w.MessageQos(2, 0))
    client.say(1, take())
    assert "message.transfer" in [each.name for each in client.say(1, publish())]
    assert "message.transfer" not in [each.name for each in client.say(1, publish())]

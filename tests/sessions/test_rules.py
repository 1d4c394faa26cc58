"""What 0-8 and 0-9 demand of a broker by their documents, and 0-9-1 as RabbitMQ has it."""

from typing import Any

import pytest

from gateway.adapters import Limits
from gateway.adapters.methods import types as fields
from gateway.adapters.methods.wire import layouts as w
from tests.pair import VERSIONS
from tests.sessions.wired import Wired, kinds
from tests.talk import body, header, method

PUBLISHED = ("0-8", "0-9")


def answer(wired: Wired, *records: Any) -> Any:
    """To the last of these requests."""
    wired.says(1, *records)
    wired.settle()
    return wired.hears()[-1]


def outcome(record: Any) -> tuple[type[Any], int]:
    return type(record), getattr(record, "reply_code", 0)


def published(version: str, key: str, content: bytes = b"m", exchange: str = "") -> bytes:
    publish = method(version, 1, w.BasicPublish(exchange=exchange, routing_key=key))
    return publish + header(1, len(content)) + (body(1, content) if content else b"")


@pytest.mark.parametrize("version", VERSIONS)
def test_an_unknown_virtual_host(version: str) -> None:
    (close,) = Wired(version, "nowhere").hears()
    assert outcome(close) == (w.ConnectionClose, 402 if version in PUBLISHED else 530)


X = w.ExchangeDeclare(exchange="x", type="topic")
Q = w.QueueDeclare(queue="q")
BIND = w.QueueBind(queue="q", exchange="x", routing_key="k")
GONE = (w.ChannelClose, 404)
NOT_ALLOWED = (w.ConnectionClose, 530)


@pytest.mark.parametrize(
    ("asked", "by_documents", "by_rabbitmq"),
    [
        ((w.QueueDelete(queue="none"),), GONE, (w.QueueDeleteOk, 0)),
        ((w.ExchangeDelete(exchange="none"),), GONE, (w.ExchangeDeleteOk, 0)),
        ((X, w.ExchangeDeclare(exchange="x", type="direct")), NOT_ALLOWED, (w.ChannelClose, 406)),
        (
            (X, w.ExchangeDeclare(exchange="x", type="topic", durable=True)),
            (w.ExchangeDeclareOk, 0),
            (w.ChannelClose, 406),
        ),
        (
            (w.ExchangeDeclare(exchange="x", type="topic", durable=True), X),
            (w.ExchangeDeclareOk, 0),
            (w.ChannelClose, 406),
        ),
        (
            (Q, w.QueueDeclare(queue="q", durable=True, auto_delete=True)),
            (w.QueueDeclareOk, 0),
            (w.ChannelClose, 406),
        ),
        ((w.QueuePurge(),), NOT_ALLOWED, GONE),
        ((w.QueueBind(exchange="amq.topic"),), NOT_ALLOWED, GONE),
        ((w.QueueDelete(),), NOT_ALLOWED, GONE),
        ((w.BasicGet(),), NOT_ALLOWED, GONE),
        ((w.BasicConsume(),), NOT_ALLOWED, GONE),
        ((Q, w.QueueBind(queue="q", routing_key="k")), (w.QueueBindOk, 0), (w.ChannelClose, 403)),
    ],
)
@pytest.mark.parametrize("version", VERSIONS)
def test_rules(version: str, asked: Any, by_documents: Any, by_rabbitmq: Any) -> None:
    expected = by_documents if version in PUBLISHED else by_rabbitmq
    assert outcome(answer(Wired(version), *asked)) == expected


@pytest.mark.parametrize(
    "asked",
    [
        (w.QueueUnbind(queue="none", exchange="amq.topic"),),
        (Q, w.QueueUnbind(queue="q", exchange="none")),
        (X, Q, w.QueueUnbind(queue="q", exchange="x", routing_key="k")),
    ],
)
@pytest.mark.parametrize("version", VERSIONS)
def test_unbinding_a_missing_binding(version: str, asked: Any) -> None:
    expected = GONE if version in PUBLISHED else (w.QueueUnbindOk, 0)
    assert outcome(answer(Wired(version), *asked)) == expected


@pytest.mark.parametrize("version", VERSIONS)
def test_unbinding_an_existing_binding(version: str) -> None:
    unbind = w.QueueUnbind(queue="q", exchange="x", routing_key="k")
    assert isinstance(answer(Wired(version), X, Q, BIND, unbind), w.QueueUnbindOk)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("passive", [False, True])
def test_the_default_exchange_is_not_declared(version: str, passive: bool) -> None:
    asked = w.ExchangeDeclare(exchange="", type="direct", passive=passive)
    refused = answer(Wired(version), asked)
    assert outcome(refused) == (w.ChannelClose, 403)
    expected = "ACCESS_REFUSED - operation not permitted on the default exchange"
    assert refused.reply_text == expected


@pytest.mark.parametrize("version", PUBLISHED)
def test_bound_to_the_default_exchange(version: str) -> None:
    """By a key of its own, besides that of its name; and not any more."""
    wired = Wired(version)
    bind = w.QueueBind(queue="q", routing_key="k")
    answer(wired, Q, w.QueueDeclare(queue="k2"), bind)
    wired.says(1, published(version, "k"), published(version, "q"), published(version, "k2"))
    queues = wired.broker.vhosts["/"].queues
    assert (queues["q"].depth, queues["k2"].depth) == (2, 1)
    answer(wired, w.QueueDeclare(queue="k"))
    wired.says(1, published(version, "k"))
    assert (queues["q"].depth, queues["k"].depth) == (3, 1)
    assert isinstance(answer(wired, w.QueueUnbind(queue="q", routing_key="k")), w.QueueUnbindOk)
    wired.says(1, published(version, "k"))
    assert (queues["q"].depth, queues["k"].depth) == (3, 2)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("qos", [w.BasicQos(prefetch_count=2), w.BasicQos(prefetch_size=2)])
def test_qos_of_a_running_consumer(version: str, qos: w.BasicQos) -> None:
    """The channel's on 0-8 and 0-9; in RabbitMQ's 0-9-1 it is for consumers that start later."""
    wired = Wired(version)
    answer(wired, Q, w.BasicConsume(queue="q"))
    answer(wired, qos)
    wired.says(1, published(version, "q") * 5)
    assert kinds(wired.hears()) == [w.BasicDeliver] * (2 if version in PUBLISHED else 5)
    wired.says(1, w.BasicAck(1))
    assert kinds(wired.hears()) == [w.BasicDeliver] * (1 if version in PUBLISHED else 0)


@pytest.mark.parametrize("version", PUBLISHED)
def test_qos_of_the_connection(version: str) -> None:
    """It is for the channels there are and for those to come."""
    wired = Wired(version)
    answer(wired, Q, w.BasicConsume(queue="q"))
    wired.says(2, w.ChannelOpen())
    wired.says(2, w.BasicQos(prefetch_count=1, global_=True))
    wired.hears()
    wired.says(1, published(version, "q") * 4)
    assert kinds(wired.hears()) == [w.BasicDeliver]
    wired.says(3, w.ChannelOpen())
    wired.says(3, w.BasicConsume(queue="q"))
    assert kinds(wired.hears()) == [w.ChannelOpenOk, w.BasicConsumeOk, w.BasicDeliver]


@pytest.mark.parametrize("version", VERSIONS)
def test_flow_ok_comes_before_the_deliveries_it_allows(version: str) -> None:
    wired = Wired(version)
    answer(wired, Q, w.BasicConsume(queue="q"), w.ChannelFlow(False))
    wired.says(1, published(version, "q"))
    assert wired.hears() == []
    wired.says(1, w.ChannelFlow(True))
    assert kinds(wired.hears()) == [w.ChannelFlowOk, w.BasicDeliver]


@pytest.mark.parametrize("version", VERSIONS)
def test_channel_max_is_a_count(version: str) -> None:
    wired = Wired(version, limits=Limits(channel_max=2))
    wired.says(700, w.ChannelOpen())
    assert kinds(wired.hears()) == [w.ChannelOpenOk]
    wired.says(2, w.ChannelOpen())
    (close,) = wired.hears()
    assert outcome(close) == NOT_ALLOWED
    expected = "number of channels opened (2) has reached the negotiated channel_max (2)"
    assert close.reply_text == f"NOT_ALLOWED - {expected}"


def test_a_new_secret_is_taken() -> None:
    """A password does not expire: nothing is looked at. RabbitMQ's libraries send it."""
    wired = Wired()
    wired.says(0, w.ConnectionUpdateSecret(b"anything", "why"))
    assert kinds(wired.hears()) == [w.ConnectionUpdateSecretOk]
    wired.broker.access.remove_user("guest")
    wired.says(0, w.ConnectionUpdateSecret(b"guest", "why"))
    assert outcome(wired.hears()[-1]) == NOT_ALLOWED


def table(**arguments: Any) -> bytes:
    named = {"x-" + name.replace("_", "-"): value for name, value in arguments.items()}
    return fields.write_table(named)

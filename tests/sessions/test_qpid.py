"""Extensions that clients of Qpid use beyond the documents of 0-8 to 0-9-1 (docs/jms.md)."""

from typing import Any

import pytest

from gateway.adapters import Role, adapter_for
from gateway.adapters.methods import types as fields
from gateway.adapters.methods.wire import layouts as w
from gateway.adapters.methods.wire.tables import VERSIONS as TABLES
from tests.pair import VERSIONS
from tests.sessions import wired
from tests.sessions.wired import Wired, kinds
from tests.talk import body, frames, header, method

QPID = w.ConnectionStartOk(
    fields.write_table({"product": "qpid"}), "PLAIN", b"\0guest\0guest", "en_US"
)


@pytest.fixture
def qpid(monkeypatch: pytest.MonkeyPatch) -> None:
    """Connections are those of a client of Qpid."""
    monkeypatch.setattr(wired, "LOGIN", QPID)


def answers(peer: Wired, *records: Any) -> list[Any]:
    peer.says(1, *records)
    peer.settle()
    return peer.hears()


def published(version: str, key: str, exchange: str = "", content: bytes = b"m") -> bytes:
    publish = method(version, 1, w.BasicPublish(exchange=exchange, routing_key=key))
    return publish + header(1, len(content)) + body(1, content)


def consume(**arguments: Any) -> w.BasicConsume:
    return w.BasicConsume(queue="q", consumer_tag="c", arguments=fields.write_table(arguments))


Q = w.QueueDeclare(queue="q")


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        (("amq.direct", "", ""), 0),
        (("none", "", ""), 1),
        (("amq.topic", "", ""), 3),
        (("amq.direct", "", "none"), 2),
        (("amq.direct", "", "q"), 0),
        (("amq.direct", "", "other"), 4),
        (("amq.direct", "k", ""), 0),
        (("amq.direct", "other", ""), 5),
        (("amq.direct", "k", "q"), 0),
        (("amq.direct", "other", "q"), 6),
        (("amq.direct", "k", "other"), 6),
        (("", "", ""), 0),
        (("", "", "q"), 0),
        (("", "", "none"), 2),
        (("", "q", "q"), 0),
        (("", "k", "q"), 6),
        (("", "q", ""), 0),
        (("", "k", ""), 5),
    ],
)
@pytest.mark.parametrize("version", VERSIONS)
def test_bound(version: str, asked: tuple[str, str, str], code: int) -> None:
    peer = Wired(version)
    bind = w.QueueBind(queue="q", exchange="amq.direct", routing_key="k")
    answers(peer, Q, w.QueueDeclare(queue="other"), bind)
    (ok,) = answers(peer, w.ExchangeBound(*asked))
    assert (type(ok), ok.reply_code) == (w.ExchangeBoundOk, code)
    assert (ok.reply_text == "") is (code == 0)


def test_a_consumer_of_0_8_may_have_arguments() -> None:
    peer = Wired("0-8")
    answers(peer, Q)
    plain = method("0-8", 1, w.BasicConsume(queue="q", consumer_tag="plain"))
    table = fields.write_table({"x-priority": 3})
    more = method("0-8", 1, w.BasicConsume(queue="q", consumer_tag="more", arguments=table))
    assert len(more) > len(plain) + len(table)
    assert kinds(answers(peer, plain, more)) == [w.BasicConsumeOk] * 2
    consumers = peer.broker.vhosts["/"].queues["q"].consumers
    assert {one.tag: one.priority for one in consumers} == {"plain": 0, "more": 3}


def test_other_octets_behind_the_arguments_of_0_8_are_refused() -> None:
    peer = Wired("0-8")
    answers(peer, Q)
    frame = method("0-8", 1, w.BasicConsume(queue="q", consumer_tag="c"))
    size = int.from_bytes(frame[3:7], "big") + 1
    (close,) = answers(peer, frame[:3] + size.to_bytes(4, "big") + frame[7:-1] + b"\1\xce")
    assert (type(close), close.reply_code) == (w.ConnectionClose, 502)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_selector(version: str) -> None:
    peer = Wired(version)
    answers(peer, Q, consume(**{"x-filter-jms-selector": "JMSPriority IS NULL"}))
    assert answers(peer, published(version, "q")) == []
    queue = peer.broker.vhosts["/"].queues["q"]
    assert queue.depth == 1
    (selected,) = queue.consumers
    assert selected.cursor is not None


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("wrong", ["a >", 5])
def test_a_wrong_selector_costs_the_channel(version: str, wrong: Any) -> None:
    peer = Wired(version)
    answers(peer, Q)
    (close,) = answers(peer, consume(**{"x-filter-jms-selector": wrong}))
    assert (type(close), close.reply_code) == (w.ChannelClose, 406)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_browser_ends_when_it_has_seen_all(version: str) -> None:
    peer = Wired(version)
    answers(peer, Q, published(version, "q"), published(version, "q"))
    browse = consume(**{"x-filter-no-consume": True, "x-filter-auto-close": True})
    seen = kinds(answers(peer, browse))
    assert seen == [w.BasicConsumeOk, w.BasicDeliver, w.BasicDeliver, w.BasicCancelOk]
    queue = peer.broker.vhosts["/"].queues["q"]
    assert (queue.depth, list(queue.consumers)) == (2, [])


@pytest.mark.parametrize("version", VERSIONS)
def test_a_selector_of_a_binding(version: str) -> None:
    peer = Wired(version)
    for selector in ("", "x = 1"):
        arguments = fields.write_table({"x-filter-jms-selector": selector})
        bind = w.QueueBind(queue="q", exchange="amq.topic", routing_key="k", arguments=arguments)
        answers(peer, Q, bind)
    exchange = peer.broker.vhosts["/"].exchanges["amq.topic"]
    assert [one.arguments for one in exchange.bindings] == [{}, {"x-selector": "x = 1"}]


DURABLE = w.QueueDeclare(queue="d", durable=True, exclusive=True)


@pytest.mark.usefixtures("qpid")
@pytest.mark.parametrize("version", VERSIONS)
def test_a_durable_exclusive_queue_of_qpid_outlives_its_connection(version: str) -> None:
    peer = Wired(version)
    answers(peer, DURABLE)
    peer.session.end()
    assert "d" in peer.broker.vhosts["/"].queues


@pytest.mark.parametrize("version", VERSIONS)
def test_that_of_others_does_not(version: str) -> None:
    peer = Wired(version)
    answers(peer, DURABLE)
    peer.session.end()
    assert "d" not in peer.broker.vhosts["/"].queues


def rolled_back(version: str) -> list[type[Any]]:
    peer = Wired(version)
    answers(peer, Q, w.TxSelect(), consume(), published(version, "q"), w.TxCommit())
    return kinds(answers(peer, w.BasicReject(1, True), w.TxRollback()))


@pytest.mark.usefixtures("qpid")
@pytest.mark.parametrize("version", VERSIONS)
def test_clients_of_qpid_get_messages_again_after_a_rollback(version: str) -> None:
    assert rolled_back(version) == [w.TxRollbackOk, w.BasicDeliver]


@pytest.mark.parametrize("version", VERSIONS)
def test_others_recover_them(version: str) -> None:
    assert rolled_back(version) == [w.TxRollbackOk]


@pytest.mark.parametrize("version", VERSIONS)
def test_the_product_has_qpid_in_its_name(version: str) -> None:
    """Or clients of Qpid do not use exchange.bound."""
    adapter = adapter_for(version, Role.SERVER)
    adapter.receive(TABLES[version].header)
    ((_, start),) = frames(version, b"".join(adapter.output()))
    product = fields.read_table(start.server_properties)["product"]
    assert product == "amqp-gateway (Qpid extensions)"

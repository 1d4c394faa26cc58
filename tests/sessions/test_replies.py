"""Whatever comes in one read is answered in the order in which it was asked."""

import math
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as some

from gateway.adapters.methods.wire import layouts as w
from gateway.adapters.methods.wire.tables import VERSIONS as TABLES
from gateway.errors import Condition
from tests.pair import VERSIONS
from tests.sessions.wired import Wired, kinds
from tests.talk import body, header, method

DURABLE = w.QueueDeclare(queue="d", durable=True)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        (w.BasicConsume(queue="d"), w.BasicConsumeOk),
        (w.BasicGet(queue="d"), w.BasicGetEmpty),
        (w.ChannelClose(200, "bye"), w.ChannelCloseOk),
        (w.QueueDeclare(queue="other"), w.QueueDeclareOk),
        (w.QueueBind(queue="d", exchange="amq.topic"), w.QueueBindOk),
        (w.QueueDelete(queue="d"), w.QueueDeleteOk),
        (w.ExchangeDeclare(exchange="x", type="topic", durable=True), w.ExchangeDeclareOk),
        (w.BasicQos(prefetch_count=1), w.BasicQosOk),
        (w.BasicCancel("nobody"), w.BasicCancelOk),
        (w.TxSelect(), w.TxSelectOk),
        (w.ChannelFlow(False), w.ChannelFlowOk),
        (w.QueueBind(queue="none", exchange="amq.topic"), w.ChannelClose),
    ],
)
def test_behind_a_durable_declaration(version: str, asked: Any, answer: type[Any]) -> None:
    wired = Wired(version)
    wired.says(1, DURABLE, asked)
    assert wired.hears() == []
    wired.settle()
    assert kinds(wired.hears()) == [w.QueueDeclareOk, answer]


@pytest.mark.parametrize("version", VERSIONS)
def test_the_connection_ends_behind_earlier_requests(version: str) -> None:
    wired = Wired(version)
    publish = method(version, 1, w.BasicPublish(routing_key="d")) + header(1, 1) + body(1, b"m")
    octets = wired.octets(1, DURABLE, publish, w.BasicGet(queue="d"), w.ChannelFlow(False))
    wired.read(octets + wired.octets(0, w.ConnectionClose(200, "bye")))
    assert wired.hears() == [] and not wired.adapter.closing
    wired.says(1, w.BasicGet(queue="d"))  # after their last word: nobody hears it
    wired.settle()
    assert kinds(wired.hears()) == [
        w.QueueDeclareOk, w.BasicGetOk, w.ChannelFlowOk, w.ConnectionCloseOk,
    ]  # fmt: skip
    assert wired.adapter.closing and wired.session.closed
    assert wired.broker.vhosts["/"].queues["d"].depth == 1


def test_requests_before_a_hang_up_are_performed() -> None:
    """What waits for an answer that nobody will hear is done all the same."""
    wired = Wired()
    publish = method("0-9-1", 1, w.BasicPublish(routing_key="d")) + header(1, 1) + body(1, b"m")
    wired.says(1, w.ConfirmSelect(), DURABLE, publish)
    assert wired.broker.vhosts["/"].queues["d"].depth == 0
    wired.session.perform(wired.adapter.lost())
    wired.session.end()
    assert wired.broker.vhosts["/"].queues["d"].depth == 1


def test_pipelined_declarations_share_a_commit() -> None:
    wired = Wired()
    before = wired.commits
    asked: list[Any] = []
    for number in range(50):
        name = f"d{number}"
        asked += [
            w.QueueDeclare(queue=name, durable=True),
            w.QueueBind(queue=name, exchange="amq.topic", routing_key="k"),
            w.BasicConsume(queue=name),
        ]
    wired.says(1, *asked)
    wired.settle()
    assert wired.commits == before + 1
    assert kinds(wired.hears()) == [w.QueueDeclareOk, w.QueueBindOk, w.BasicConsumeOk] * 50


def test_deliveries_begin_behind_consume_ok() -> None:
    wired = Wired()
    wired.says(1, DURABLE)
    wired.says(1, method("0-9-1", 1, w.BasicPublish(routing_key="d")) + header(1, 0))
    wired.settle()
    wired.hears()
    wired.says(1, w.QueueDeclare(queue="e", durable=True), w.BasicConsume(queue="d"))
    assert wired.hears() == []
    wired.settle()
    assert kinds(wired.hears()) == [w.QueueDeclareOk, w.BasicConsumeOk, w.BasicDeliver]


def test_a_return_comes_before_its_confirm_and_behind_the_answer() -> None:
    wired = Wired()
    wired.says(1, w.ConfirmSelect())
    wired.hears()
    lost = method("0-9-1", 1, w.BasicPublish(routing_key="none", mandatory=True)) + header(1, 0)
    wired.says(1, DURABLE, lost)
    assert wired.hears() == []
    wired.settle()
    assert kinds(wired.hears()) == [w.QueueDeclareOk, w.BasicReturn, w.BasicAck]


def test_other_channels_do_not_wait() -> None:
    wired = Wired()
    wired.says(2, w.ChannelOpen())
    wired.hears()
    wired.read(wired.octets(1, DURABLE, w.BasicGet()) + wired.octets(2, w.BasicGet(queue="d")))
    assert kinds(wired.hears()) == [w.BasicGetEmpty]
    assert wired.session.has_pending  # nothing more is read until the channel has caught up
    wired.settle()
    assert kinds(wired.hears()) == [w.QueueDeclareOk, w.BasicGetEmpty]
    assert not wired.session.has_pending


def test_a_bad_message_is_told_behind_the_answer_before_it() -> None:
    wired = Wired()
    expires = method("0-9-1", 1, w.BasicPublish(routing_key="d")) + header(1, 0, b"\x01\0\x03abc")
    wired.says(1, DURABLE, expires, w.BasicGet(queue="d"), w.ChannelClose(200, "bye"))
    assert wired.hears() == []
    wired.settle()
    answer, close, close_ok = wired.hears()
    assert (type(answer), type(close)) == (w.QueueDeclareOk, w.ChannelClose)
    assert close.reply_code == 406 and isinstance(close_ok, w.ChannelCloseOk)
    wired.says(1, w.ChannelCloseOk(), w.ChannelOpen())
    assert kinds(wired.hears()) == [w.ChannelOpenOk]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("durable", [False, True])
@pytest.mark.parametrize("no_wait", [False, True])
def test_an_empty_name_is_the_queue_declared_last(
    version: str, durable: bool, no_wait: bool
) -> None:
    """Declared and used in one read, before the name was told."""
    wired = Wired(version)
    wired.says(
        1,
        w.QueueDeclare(durable=durable, no_wait=no_wait),
        w.QueueBind(exchange="amq.direct"),
        w.BasicConsume(consumer_tag="c"),
        w.QueueDeclare(queue="q"),
        w.BasicGet(),
    )
    wired.settle()
    heard = wired.hears()
    answers = [w.QueueBindOk, w.BasicConsumeOk, w.QueueDeclareOk, w.BasicGetEmpty]
    assert kinds(heard) == ([] if no_wait else [w.QueueDeclareOk]) + answers
    (name,) = wired.broker.vhosts["/"].queues.keys() - {"q"}
    vhost = wired.broker.vhosts["/"]
    queue = vhost.queues[name]
    bindings = vhost.bindings_to(queue)
    assert [binding.key for binding in bindings if binding.source.name] == [name]
    assert [consumer.tag for consumer in queue.consumers] == ["c"]


REQUESTS: list[Any] = [
    w.QueueDeclare(queue="d", durable=True),
    w.QueueDeclare(queue="e", durable=True),
    w.QueueDeclare(queue="t"),
    w.QueueDeclare(durable=True),
    w.QueueDeclare(queue="d", passive=True),
    w.QueueBind(queue="d", exchange="amq.topic"),
    w.QueueUnbind(queue="d", exchange="amq.topic"),
    w.QueuePurge(queue="d"),
    w.QueueDelete(queue="d"),
    w.ExchangeDeclare(exchange="x", type="topic", durable=True),
    w.ExchangeDelete(exchange="x"),
    w.BasicConsume(queue="d", consumer_tag="c"),
    w.BasicConsume(),
    w.BasicCancel("c"),
    w.BasicGet(queue="d", no_ack=True),
    w.BasicGet(queue="e"),
    w.BasicQos(prefetch_count=3),
    w.BasicRecover(True),
    w.ChannelFlow(True),
    w.TxSelect(),
    w.TxCommit(),
    w.TxRollback(),
    method("0-9-1", 1, w.BasicPublish(routing_key="d")) + header(1, 1) + body(1, b"m"),
    method("0-9-1", 1, w.BasicPublish(routing_key="no", mandatory=True)) + header(1, 0),
    method("0-9-1", 1, w.BasicPublish(routing_key="d")) + header(1, 0, b"\x01\0\x03abc"),
    w.ChannelClose(200, "bye"),
]
VIOLATIONS: dict[str, tuple[bytes, Condition]] = {
    "a frame of no kind": (b"\x09\0\x01\0\0\0\0\xce", Condition.FRAME_ERROR),
    "no end of a frame": (b"\x01\0\x01\0\0\0\x04\0\x14\0\x0a\0", Condition.FRAME_ERROR),
    "an unknown method": (
        b"\x01\0\x01\0\0\0\x04\0\x99\0\x0a\xce", Condition.COMMAND_INVALID,
    ),
    "a channel that is not open": (
        method("0-9-1", 9, w.BasicGet(queue="d")), Condition.CHANNEL_ERROR,
    ),
    "a method cut short": (
        b"\x01\0\x01\0\0\0\x05\0\x32\0\x0a\0\xce", Condition.SYNTAX_ERROR,
    ),
    "a second channel.open": (method("0-9-1", 1, w.ChannelOpen()), Condition.CHANNEL_ERROR),
    "a header that nobody announced": (header(1, 1), Condition.UNEXPECTED_FRAME),
}  # fmt: skip
"""What costs the connection, whatever the version, and why."""
UNSEEN = frozenset(list(VIOLATIONS)[-3:])
"""Those that are not looked at on a channel that is lost already."""
LAST = some.sampled_from(["", "goodbye", *VIOLATIONS])
GOT: dict[type[Any], type[Any]] = {w.BasicGetOk: w.BasicGetEmpty}
"""Whether a message is fetched or delivered is chance."""


def answers(wired: Wired) -> list[type[Any]]:
    heard = [kind for kind in kinds(wired.hears()) if kind not in (w.BasicDeliver, w.BasicCancel)]
    return [GOT.get(kind, kind) for kind in heard]


@given(
    some.lists(some.sampled_from(REQUESTS), min_size=1, max_size=12),
    LAST,
    some.sampled_from(VERSIONS),
    some.sampled_from([math.inf, -1.0]),
)
def test_any_requests_in_one_read(asked: list[Any], last: str, version: str, share: float) -> None:
    """They are answered as they are when each is answered before the next is asked, whether they
    are performed in one turn or in as many as there are requests; then comes the end of the
    connection, if they are followed by a goodbye or by what costs it."""
    patient, hasty = Wired(version), Wired(version, share=share)
    expected: list[type[Any]] = []
    engine = cast(Any, patient.adapter)
    for record in asked:
        if engine.channels.get(1) is None:
            break
        patient.says(1, record)
        patient.settle()
        expected += answers(patient)
        if w.ChannelClose in expected or patient.session.closed:
            break
    sent = asked[: asked.index(REQUESTS[-1]) + 1] if REQUESTS[-1] in asked else asked
    octets = hasty.octets(1, *sent)
    if last == "goodbye":
        octets += hasty.octets(0, w.ConnectionClose(200, "bye"))
    elif last:
        octets += VIOLATIONS[last][0]
    hasty.read(octets)
    hasty.settle()
    heard = answers(hasty)
    ended = w.ConnectionClose in expected
    if last == "goodbye" and not ended:
        assert heard and heard.pop() is w.ConnectionCloseOk
    elif last and not ended:
        if heard and heard[-1] is w.ConnectionClose:
            heard.pop()
            assert hasty.adapter.closing and hasty.session.closed
        else:
            assert last in UNSEEN and w.ChannelClose in expected
    if ended and heard[-1] is w.ConnectionCloseOk:
        heard.pop()  # their goodbye met our close
    if w.ChannelClose in heard and heard[-1] is w.ChannelCloseOk:
        heard.pop()  # their close met ours
    assert heard == expected, f"{asked!r} {last!r} {version} {share}"


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("share", [math.inf, -1.0])
@pytest.mark.parametrize("last", [w.ChannelClose(200, "bye"), w.QueueDelete(queue="d")])
def test_nothing_is_performed_or_sent_behind_a_fatal_error(
    version: str, share: float, last: Any
) -> None:
    wired = Wired(version, share=share)
    wired.says(1, DURABLE)
    wired.settle()
    wired.hears()
    wired.says(1, w.BasicConsume(queue="d", consumer_tag="c"))
    wired.hears()
    wired.says(1, w.BasicConsume(queue="d", consumer_tag="c"), last, w.TxSelect())
    wired.settle()
    assert kinds(wired.hears()) == [w.ConnectionClose]
    assert "d" in wired.broker.vhosts["/"].queues


@pytest.mark.parametrize("last", ["goodbye", "an unknown method"])
def test_an_answer_that_is_due_at_once_does_not_end_the_connection(last: str) -> None:
    """The second declaration changes nothing, and is answered while what follows it waits."""
    wired = Wired()
    octets = wired.octets(1, DURABLE, w.BasicRecover(True), DURABLE, w.TxCommit())
    goodbye = wired.octets(0, w.ConnectionClose(200, "bye"))
    wired.read(octets + (goodbye if last == "goodbye" else VIOLATIONS[last][0]))
    wired.settle()
    declared = [w.QueueDeclareOk, w.BasicRecoverOk, w.QueueDeclareOk]
    assert kinds(wired.hears())[:-1] == [*declared, w.ChannelClose]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_return_comes_before_the_end_of_its_channel(version: str) -> None:
    wired = Wired(version)
    lost = method(version, 1, w.BasicPublish(routing_key="none", mandatory=True)) + header(1, 0)
    wired.says(1, lost, w.ChannelClose(200, "bye"))
    assert kinds(wired.hears()) == [w.BasicReturn, w.ChannelCloseOk]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("violation", VIOLATIONS)
def test_a_violation_is_told_behind_the_answer_before_it(version: str, violation: str) -> None:
    wired = Wired(version)
    octets, condition = VIOLATIONS[violation]
    wired.read(wired.octets(1, DURABLE, w.BasicGet(queue="d")) + octets)
    assert wired.hears() == [] and not wired.adapter.closing
    wired.says(1, w.BasicGet(queue="d"))  # after it: nobody hears it
    wired.settle()
    declared, got, close = wired.hears()
    assert kinds([declared, got]) == [w.QueueDeclareOk, w.BasicGetEmpty]
    assert isinstance(close, w.ConnectionClose)
    assert close.reply_code == TABLES[version].codes[condition.value][0]
    assert wired.adapter.closing and wired.session.closed and not wired.session.peer_closed

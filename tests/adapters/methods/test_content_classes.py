"""Streams, files, tunnels and tests of 0-8 and 0-9, adapter against adapter and by octets."""

from typing import Any

import pytest

from gateway.adapters import Limits
from gateway.adapters.methods.content import BASIC
from gateway.adapters.methods.contents.published import CONTENTS
from gateway.adapters.methods.pending import Awaited
from gateway.adapters.methods.wire import layouts as w
from gateway.adapters.methods.wire.tables import VERSIONS as TABLES
from gateway.bodies import LargeBody, Spool
from gateway.errors import Condition
from gateway.message import Essentials, Message, Properties
from gateway.operations import (
    Cancelled,
    Credit,
    DeclareQueue,
    Deliver,
    Done,
    EndSession,
    Operation,
    Outcome,
    Prefetch,
    Publish,
    QueueState,
    Returned,
    SessionLost,
    Settle,
    Subscribe,
    Synchronize,
    Unsent,
    Unsubscribe,
)
from gateway.partial_bodies import PartialBodyStore
from tests.adapters.methods.closes import channel_dies, connection_dies
from tests.pair import Cut, Pair, Users, opened, single, sized, whole
from tests.talk import Talk, body, frame, frames, header

VERSIONS = ("0-8", "0-9")
VERSIONS_0_8 = TABLES["0-8"]
every_version = pytest.mark.parametrize("version", VERSIONS)
every_class = pytest.mark.parametrize("group", ["file", "stream"])
FILE, STREAM = (CONTENTS["0-8"][number] for number in (70, 80))
DIALECTS = {"file": FILE, "stream": STREAM}


def message(group: str, octets: bytes, key: str = "k") -> Message:
    dialect = DIALECTS[group]
    given = Properties(
        content_type="video/mpeg", priority=7, application={"a": "s", "n": -7, "t": {"x": True}}
    )
    header_ = dialect.write(given)
    return Message(dialect, header_, octets, "x", key, dialect.essentials(header_))


def both(pair: Pair) -> tuple[Any, Any]:
    """Client and server."""
    return pair.client, pair.server


def said(pair: Pair, *records: Any) -> list[Operation]:
    """What these methods of the client are to the server."""
    client, _ = both(pair)
    for record in records:
        client.write(1, record)
    return pair.to_server()


def answered(pair: Pair, record: Any, result: Any = None) -> list[Operation]:
    """A request of the client, whose operations the server performs with this result; the
    operations."""
    client, _ = both(pair)
    method = client.table.by_record[type(record)]
    client.channel(1).awaited.append(Awaited(method, Synchronize(1, "asked")))
    found = said(pair, record)
    for operation in found:
        token = getattr(operation, "token", None)
        if token is not None:
            done = operation.tag if isinstance(operation, Subscribe) else result
            pair.server.send(Done(1, token, done))
    assert pair.server.found() == []
    (reply,) = pair.to_client()
    assert isinstance(reply, Done) and reply.token == "asked"
    return [*found, reply]


# --- consumers -----------------------------------------------------------------------------------


@every_version
def test_a_stream_is_consumed_without_acknowledgement(version: str) -> None:
    pair = opened(version)
    subscribe, reply = answered(pair, w.StreamConsume(0, "q", "t", True, True))
    assert isinstance(subscribe, Subscribe) and isinstance(reply, Done)
    assert (subscribe.queue, subscribe.tag, subscribe.no_ack) == ("q", "t", True)
    assert subscribe.exclusive and subscribe.no_local and subscribe.credit is None
    assert reply.result == "t"
    cancel, reply = answered(pair, w.StreamCancel("t"), "t")
    assert isinstance(cancel, Unsubscribe) and cancel.tag == "t"
    assert isinstance(reply, Done) and reply.result == "t"


@every_version
@pytest.mark.parametrize("no_ack", [True, False])
def test_a_consumer_of_files(version: str, no_ack: bool) -> None:
    pair = opened(version)
    subscribe, _ = answered(pair, w.FileConsume(0, "q", "", no_ack=no_ack))
    assert isinstance(subscribe, Subscribe) and subscribe.no_ack is no_ack
    assert subscribe.tag.startswith("amq.ctag-") and len(subscribe.tag) > 20
    again, _ = answered(pair, w.FileConsume(0, "q", ""))
    assert isinstance(again, Subscribe) and again.tag != subscribe.tag


@every_version
@every_class
def test_no_reply_if_none_is_waited_for(version: str, group: str) -> None:
    consume, cancel = (
        (w.FileConsume, w.FileCancel) if group == "file" else (w.StreamConsume, w.StreamCancel)
    )
    talk = Talk(version).opened(1)
    for record, result in ((consume(0, "q", "t", no_wait=True), "t"), (cancel("t", True), "t")):
        (operation,) = talk.says(1, record)
        talk.adapter.send(Done(1, operation.token, result))  # type: ignore[attr-defined]
        assert talk.hears() == []


def test_the_filter_of_0_9_is_a_selector() -> None:
    talk = Talk("0-9").opened(1)
    selector = b"\x15x-filter-jms-selectorS\0\0\0\x0fa = 's' AND n<0"
    for record in (w.StreamConsume, w.FileConsume):
        (operation,) = talk.says(1, record(queue="q", arguments=selector))
        assert isinstance(operation, Subscribe) and operation.filter is not None
        assert operation.filter(message("stream", b""))
    wrong = selector.replace(b"a = 's'", b"a = = '")
    found = talk.says(1, w.StreamConsume(queue="q", arguments=wrong))
    channel_dies(talk, found, 406, Condition.PRECONDITION_FAILED)


@every_version
def test_deliveries_of_a_stream_name_the_queue_that_was_declared_last(version: str) -> None:
    talk = Talk(version).opened(1)
    declare, subscribe = talk.says(1, w.StreamConsume(consumer_tag="t"))
    assert isinstance(declare, DeclareQueue) and declare.passive and declare.name == ""
    assert isinstance(subscribe, Subscribe) and subscribe.queue == ""
    talk.adapter.send(Done(1, declare.token, QueueState("last", 0, 0)))
    talk.adapter.send(Done(1, subscribe.token, "t"))
    talk.adapter.outlet(1).deliver("t", 1, False, message("stream", b"1"))
    found = [record for _, record in talk.hears()]
    assert found[:2] == [w.StreamConsumeOk("t"), w.StreamDeliver("t", 1, "x", "last")]


# --- messages ------------------------------------------------------------------------------------

CUTS: list[Cut] = [whole, single, sized(7)]


@every_version
@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("size", [0, 5, 20_000])
def test_a_stream_both_ways(version: str, cut: Cut, size: int) -> None:
    pair = opened(version, cut)
    sent = message("stream", b"x" * size)
    pair.client.send(Publish(1, sent, True, True))
    (publish,) = pair.to_server()
    assert isinstance(publish, Publish) and publish.mandatory and publish.immediate
    assert facts(publish.message) == facts(sent)
    answered(pair, w.StreamConsume(0, "q", "t"))
    pair.server.outlet(1).deliver("t", 9, False, publish.message)
    (delivery,) = pair.to_client()
    assert isinstance(delivery, Deliver)
    assert (delivery.consumer, delivery.delivery) == ("t", 9)
    assert facts(delivery.message) == (*facts(sent)[:4], "")  # a stream's names a queue instead
    pair.server.send(Returned(1, publish.message, Condition.NO_CONSUMERS, ""))
    (returned,) = pair.to_client()
    assert isinstance(returned, Returned) and facts(returned.message) == facts(sent)
    assert not pair.server.closing and not pair.client.closing


def facts(found: Message) -> tuple[Any, ...]:
    return found.dialect, found.header, found.body[:], found.exchange, found.key


@every_version
@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("size", [0, 5, 20_000])
def test_a_file_is_staged_both_ways(version: str, cut: Cut, size: int) -> None:
    pair = opened(version, cut)
    sent = message("file", b"x" * size)
    pair.client.send(Publish(1, sent, True, True))
    found, _ = pair.talk()
    (publish,) = found
    assert isinstance(publish, Publish) and publish.mandatory and publish.immediate
    assert facts(publish.message) == facts(sent) and publish.message.essentials.durable
    answered(pair, w.FileConsume(0, "q", "t"))
    pair.server.outlet(1).deliver("t", 9, True, publish.message)
    _, heard = pair.talk()
    (delivery,) = heard
    assert isinstance(delivery, Deliver)
    assert (delivery.consumer, delivery.delivery, delivery.redelivered) == ("t", 9, True)
    assert facts(delivery.message) == facts(sent)
    pair.server.send(Returned(1, publish.message, Condition.NO_ROUTE, ""))
    (returned,) = pair.to_client()
    assert isinstance(returned, Returned) and facts(returned.message) == facts(sent)
    assert said(pair, w.FileAck(9, True), w.FileReject(4, True), w.FileReject(5)) == [
        Settle(1, 9, True, Outcome.ACCEPT),
        Settle(1, 4, False, Outcome.REFUSE),
        Settle(1, 5, False, Outcome.REJECT),
    ]


@every_version
@every_class
def test_a_basic_message_comes_in_the_class_of_its_consumer(version: str, group: str) -> None:
    pair = opened(version)
    octets = BASIC.write(Properties(content_type="text/plain", message_id="m", type="order"))
    sent = Message(BASIC, octets, b"12345", "x", "k", Essentials())
    answered(pair, w.FileConsume(0, "q", "t") if group == "file" else w.StreamConsume(0, "q", "t"))
    pair.server.outlet(1).deliver("t", 1, False, sent)
    _, (delivery,) = pair.talk()
    assert isinstance(delivery, Deliver) and delivery.message.dialect is DIALECTS[group]
    given = delivery.message.properties.given()
    assert given == {"content_type": "text/plain", "message_id": "m", "type": "order"}


@every_version
def test_a_consumer_of_basic_gets_streams_and_files_as_basic_messages(version: str) -> None:
    talk = Talk(version).opened(1)
    talk.adapter.outlet(1).deliver("t", 1, False, message("file", b"12345"))
    (_, record), (_, octets), _ = talk.hears()
    assert record == w.BasicDeliver("t", 1, False, "x", "k")
    properties = BASIC.read(octets[12:])
    assert properties.priority == 7 and properties.application is not None


@every_version
def test_the_tag_of_a_consumer_may_be_used_again_in_another_class(version: str) -> None:
    talk = Talk(version).opened(1)
    deliver = talk.adapter.outlet(1).deliver
    sent = message("stream", b"")

    def heard() -> str:
        deliver("t", 1, False, sent)
        record = talk.hears()[0][1]
        assert isinstance(record.NAME, str)
        return record.NAME

    assert heard() == "basic.deliver"
    (operation,) = talk.says(1, w.StreamConsume(0, "q", "t"))
    talk.adapter.send(Done(1, operation.token, "t"))  # type: ignore[attr-defined]
    talk.hears()
    assert heard() == "stream.deliver"
    (operation,) = talk.says(1, w.BasicCancel("t"))
    talk.adapter.send(Done(1, operation.token, "t"))  # type: ignore[attr-defined]
    talk.hears()
    assert heard() == "basic.deliver"
    talk.says(1, w.StreamConsume(0, "q", "t"))
    assert heard() == "stream.deliver"
    talk.adapter.send(Cancelled(1, "t"))
    talk.hears()
    assert heard() == "basic.deliver"


@every_version
@every_class
def test_properties_that_do_not_fit_a_frame_are_declined(version: str, group: str) -> None:
    talk = Talk(version, limits=Limits(frame_max=4096)).opened(1)
    record: Any = w.FileConsume if group == "file" else w.StreamConsume
    talk.says(1, record(0, "q", "t"))
    dialect = DIALECTS[group]
    octets = dialect.write(Properties(application={"long": "x" * 5000}))
    large = Message(dialect, octets, b"", "", "q", dialect.essentials(octets))
    talk.adapter.outlet(1).deliver("t", 3, False, large)
    assert talk.hears() == []
    assert talk.adapter.found() == [Unsent(1, "t", 3, large)]


@every_version
@every_class
@pytest.mark.parametrize(
    ("properties", "code"),
    [(b"\x00\x02", 502), (b"\x80\x00\x05x", 502), (b"\0\0behind", 502), (b"\x01", 502)],
)
def test_properties_that_are_wrong(version: str, group: str, properties: bytes, code: int) -> None:
    talk = Talk(version).opened(1)
    number = DIALECTS[group].number
    if group == "file":
        talk.says(1, w.FileOpen("f", 5))
        talk.says(1, w.FileStage())
    else:
        talk.says(1, w.StreamPublish(0, "x", "k"))
    words = talk.sends(header(1, 5, properties, number))
    connection_dies(talk, words, code, Condition.SYNTAX_ERROR)


@every_version
def test_a_content_of_another_class(version: str) -> None:
    talk = Talk(version).opened(1)
    talk.says(1, w.StreamPublish(0, "x", "k"))
    connection_dies(talk, talk.sends(header(1, 5)), 501, Condition.FRAME_ERROR)


@every_version
def test_too_many_headers(version: str) -> None:
    entries = b"\x01at\x01" * 8193
    octets = b"\x20\0" + len(entries).to_bytes(4) + entries
    talk = Talk(version).opened(1)
    talk.says(1, w.StreamPublish(0, "x", "k"))
    words = talk.sends(header(1, 0, octets, 80))
    channel_dies(talk, words, 311, Condition.CONTENT_TOO_LARGE)


# --- quality of service --------------------------------------------------------------------------


@every_version
def test_prefetch_of_files(version: str) -> None:
    pair = opened(version)
    prefetch, _ = answered(pair, w.FileQos(2000, 7, True))
    assert isinstance(prefetch, Prefetch)
    assert (prefetch.count, prefetch.size, prefetch.shared) == (7, 2000, True)


def rates(found: list[Operation]) -> dict[tuple[int, str], int | None]:
    return {(o.channel, o.tag): o.count for o in found if isinstance(o, Credit)}


@every_version
def test_a_rate_is_that_of_streams_that_run_and_of_later_ones(version: str) -> None:
    talk = Talk(version).opened(1)
    talk.says(1, w.StreamConsume(0, "q", "runs"), w.FileConsume(0, "q", "file"))
    found = talk.says(1, w.StreamQos(consume_rate=1000))
    assert rates(found) == {(1, "runs"): 1}
    assert isinstance(found[-1], Synchronize)
    (later,) = talk.says(1, w.StreamConsume(0, "q", "later"))
    assert isinstance(later, Subscribe) and later.credit == 1
    (file,) = talk.says(1, w.FileConsume(0, "q", "another"))
    assert isinstance(file, Subscribe) and file.credit is None
    assert rates(talk.says(1, w.StreamQos())) == {(1, "runs"): None, (1, "later"): None}
    assert rates(talk.says(1, w.StreamQos())) == {}


@every_version
def test_a_rate_for_all_channels(version: str) -> None:
    talk = Talk(version).opened(1, 2, 3)
    talk.says(1, w.StreamConsume(0, "q", "one"))
    talk.says(2, w.StreamConsume(0, "q", "two"))
    found = talk.says(1, w.StreamQos(consume_rate=1000, global_=True))
    assert rates(found) == {(1, "one"): 1, (2, "two"): 1}
    (third,) = talk.says(3, w.StreamConsume(0, "q", "three"))
    assert isinstance(third, Subscribe) and third.credit == 1


@every_version
@pytest.mark.parametrize("size", [100, 25_000])
def test_about_so_many_octets_a_second(version: str, size: int) -> None:
    talk = Talk(version).opened(1)
    adapter = talk.adapter
    talk.says(1, w.StreamQos(consume_rate=10_000))
    (subscribe,) = talk.says(1, w.StreamConsume(0, "q", "t"))
    assert isinstance(subscribe, Subscribe)
    one = message("stream", b"")
    one.body = bytes(size - len(one.header))
    credit, sent, seconds = subscribe.credit or 0, 0, 60
    adapter.tick(5.0)
    for second in range(1, seconds):
        while credit:
            credit -= 1
            sent += 1
            adapter.outlet(1).deliver("t", sent, False, one)
            credit += sum(count or 0 for count in rates(adapter.found()).values())
        talk.hears()
        credit += sum(count or 0 for count in rates(adapter.tick(5.0 + second)).values())
    assert abs(sent * size - 10_000 * seconds) <= max(size, 10_000)


# --- files ---------------------------------------------------------------------------------------


def stage(talk: Talk, rest: bytes, sent: bytes) -> list[Operation]:
    """The rest of a file, of which so much is sent."""
    found = talk.says(1, w.FileStage())
    found += talk.sends(header(1, len(rest), FILE.write(Properties()), 70))
    for at in range(0, len(sent), 1000):
        found += talk.sends(body(1, sent[at : at + 1000]))
    return found


@every_version
def test_a_file_that_was_cut_off_goes_on_where_it_stopped(version: str) -> None:
    content = b"0123456789" * 1000
    partials = PartialBodyStore()
    sizes: list[int] = []
    for cut in (4000, 3000, None):
        talk = Talk(version, partials=partials).opened(1)
        assert talk.says(1, w.FileOpen("film", len(content))) == []
        sizes.append(talk.heard(w.FileOpenOk).staged_size)
        rest = content[sizes[-1] :]
        assert stage(talk, rest, rest[:cut]) == []
        if cut == 4000:
            talk.adapter.lost()
        elif cut:
            assert len(talk.says(1, w.ChannelClose(200, "")))  # with half a content: it fails
    assert sizes == [0, 4000, 7000]
    (publish,) = talk.says(1, w.FilePublish(0, "x", "k", identifier="film"))
    assert isinstance(publish, Publish) and publish.message.body == content
    assert partials.octets == 0 and not partials.kept


@every_version
def test_a_file_is_kept_for_its_user_and_virtual_host(version: str) -> None:
    partials = PartialBodyStore()

    def have(vhost: str, user: str, identifier: str = "film") -> int:
        authority = Users({user: "secret"})
        talk = Talk(version, partials=partials, authority=authority).started()
        login = f"\0{user}\0secret".encode()
        talk.says(0, w.ConnectionStartOk(talk.properties, "PLAIN", login, "en_US"))
        (open_,) = talk.says(0, w.ConnectionTuneOk(0, 0, 0), w.ConnectionOpen(vhost))
        talk.adapter.send(Done(0, open_.token))  # type: ignore[attr-defined]
        talk.says(1, w.ChannelOpen())
        talk.hears()
        talk.says(1, w.FileOpen(identifier, 10))
        found: int = talk.heard(w.FileOpenOk).staged_size
        if not found:
            stage(talk, bytes(10), bytes(5))
        talk.adapter.lost()
        return found

    assert [have("/", "guest"), have("/", "guest")] == [0, 5]
    assert [have("other", "guest"), have("/", "somebody"), have("/", "guest", "other")] == [0, 0, 0]


@every_version
def test_publish_need_not_wait_for_staging(version: str) -> None:
    """file.publish: the client need not wait for staging to finish."""
    talk = Talk(version).opened(1)
    talk.says(1, w.FileOpen("a", 3), w.FileOpen("b", 3))
    assert talk.says(1, w.FilePublish(0, "x", "k", True, identifier="b")) == []
    assert stage(talk, b"aaa", b"aaa") == []
    (publish,) = stage(talk, b"bbb", b"bbb")
    assert isinstance(publish, Publish) and publish.message.body == b"bbb" and publish.mandatory


@every_version
def test_files_that_are_not_there(version: str) -> None:
    def lost(*records: Any) -> Condition:
        found = Talk(version).opened(1).says(1, *records)
        assert isinstance(found[-1], SessionLost), found
        return found[-1].condition

    assert lost(w.FilePublish(identifier="nothing")) is Condition.NOT_FOUND
    assert lost(w.FileOpenOk(5)) is Condition.COMMAND_INVALID
    assert lost(w.FileOpen("huge", 1 << 60)) is Condition.CONTENT_TOO_LARGE
    assert lost(*[w.FileOpen(f"f{n}", 1) for n in range(65)]) is Condition.RESOURCE_ERROR


@every_version
def test_stage_without_open(version: str) -> None:
    talk = Talk(version).opened(1)
    talk.says(1, w.FileStage())
    words = talk.sends(header(1, 1, b"\0\0", 70))
    assert isinstance(words[-1], SessionLost) and words[-1].condition is Condition.COMMAND_INVALID


@every_version
def test_more_than_was_announced(version: str) -> None:
    talk = Talk(version).opened(1)
    talk.says(1, w.FileOpen("f", 5))
    talk.hears()
    channel_dies(talk, stage(talk, bytes(6), b""), 311, Condition.CONTENT_TOO_LARGE)


@every_version
def test_a_large_file_and_a_large_stream_stand_in_files(version: str) -> None:
    spool = Spool(threshold=1000, most_octets=1 << 20)
    talk = Talk(version, spool=spool, partials=PartialBodyStore(spool)).opened(1)
    octets = bytes(range(250)) * 40
    talk.says(1, w.StreamPublish(0, "x", "k"))
    talk.sends(header(1, len(octets), b"\0\0", 80))
    (stream,) = talk.sends(body(1, octets))
    talk.says(1, w.FileOpen("f", len(octets)))
    talk.hears()
    stage(talk, octets, octets)
    (file,) = talk.says(1, w.FilePublish(0, "x", "k", identifier="f"))
    for publish in (stream, file):
        assert isinstance(publish, Publish) and publish.message.body[:] == octets
        assert isinstance(publish.message.body, LargeBody)
    assert talk.adapter.announced == 0  # type: ignore[attr-defined]


# --- tunnel --------------------------------------------------------------------------------------


def tunnelled(talk: Talk, octets: bytes = b"block", **given: Any) -> list[Operation]:
    """A block for a proxy; ``given``: its properties."""
    record = w.TunnelRequest(meta_data=b"\x05orderI\0\0\0\x07")
    content = VERSIONS_0_8.contents[110]
    found = talk.says(1, record)
    return found + talk.sends(
        header(1, len(octets), content.write(w.TunnelProperties(**given)), 110) + body(1, octets)
    )


@every_version
def test_a_tunnelled_block_is_a_message_for_its_proxy(version: str) -> None:
    talk = Talk(version).opened(1)
    (publish,) = tunnelled(
        talk, headers=b"\x01at\x01", proxy_name="proxy", data_name="queue.declare", durable=1
    )
    assert isinstance(publish, Publish) and publish.mandatory
    block = publish.message
    assert (block.exchange, block.key, block.body) == ("", "proxy", b"block")
    assert block.dialect is BASIC and block.essentials.durable
    assert block.properties == Properties(
        durable=True, type="queue.declare",
        application={"a": True, "x-tunnel-meta-data": {"order": 7}},
    )  # fmt: skip
    (publish,) = tunnelled(talk, proxy_name="proxy", broadcast=1)
    assert isinstance(publish, Publish) and not publish.mandatory
    assert (publish.message.exchange, publish.message.key) == ("amq.fanout", "proxy")
    assert not publish.message.essentials.durable


@every_version
def test_a_proxy_that_is_not_there(version: str) -> None:
    talk = Talk(version).opened(1)
    (publish,) = tunnelled(talk, proxy_name="nobody")
    assert isinstance(publish, Publish)
    talk.adapter.send(Returned(1, publish.message, Condition.NO_ROUTE, ""))
    close = talk.heard(w.ChannelClose)
    assert (close.reply_code, close.class_id, close.method_id) == (404, 110, 10)
    assert talk.adapter.found() == [EndSession(1, None)]


@every_version
@pytest.mark.parametrize(
    "properties", [b"\x80\0\0\0\0\x03\x01a!", b"\x04\0", b"\0\0behind", b"\x40\0"]
)
def test_properties_of_a_block_that_are_wrong(version: str, properties: bytes) -> None:
    talk = Talk(version).opened(1)
    talk.says(1, w.TunnelRequest())
    words = talk.sends(header(1, 5, properties, 110))
    connection_dies(talk, words, 502, Condition.SYNTAX_ERROR)


# --- test ----------------------------------------------------------------------------------------


def test_both_sides_answer_tests_of_0_8() -> None:
    cases: list[tuple[Any, Any]] = [
        (w.TestInteger(1, 2, 3, 4, 1), w.TestIntegerOk(10)),
        (w.TestString("b", b"a", 2), w.TestStringOk(b"a")),
        (w.TestTable(b"\x01aI\0\0\0\x07\x01bS\0\0\0\x01x", 3, 1), w.TestTableOk(7, b"x")),
    ]
    for role in ("server", "client"):
        pair = opened("0-8")
        one, other = (pair.client, pair.server) if role == "server" else (pair.server, pair.client)
        engine: Any = one
        for request, answer in cases:
            engine.write(1, request)
            assert other.receive(b"".join(one.output())) == []
            assert frames("0-8", b"".join(other.output())) == [(1, answer)]
    talk = Talk("0-8").opened(1)
    assert talk.says(1, w.TestContent()) == []
    assert talk.sends(header(1, 3, group=120) + body(1, b"\1\2\xff")) == []
    (_, record), (_, head), (_, octets) = talk.hears()
    assert record == w.TestContentOk(258) and octets == b"\1\2\xff"
    assert head == b"\0\x78\0\0" + (3).to_bytes(8) + b"\0\0"
    channel_dies(talk, talk.says(1, w.TestInteger(operation=9)), 503, Condition.COMMAND_INVALID)


def test_answers_to_tests_that_nobody_asked_for() -> None:
    for record in (w.TestIntegerOk(), w.TestStringOk(), w.TestTableOk()):
        talk = Talk("0-8").opened(1)
        connection_dies(talk, talk.says(1, record), 503, Condition.COMMAND_INVALID)
    talk = Talk("0-8").opened(1)
    talk.says(1, w.TestContentOk())
    words = talk.sends(header(1, 0, group=120))
    connection_dies(talk, words, 503, Condition.COMMAND_INVALID)


@every_version
@every_class
def test_replies_that_nobody_asked_for(version: str, group: str) -> None:
    for verb in ("qos", "consume", "cancel"):
        pair = opened(version)
        _, server = both(pair)
        method = server.table.by_name[f"{group}.{verb}-ok"]
        server.write(1, method.record())
        pair.to_client()
        assert pair.client.closing


@every_version
def test_methods_of_the_other_side(version: str) -> None:
    for name in ("file.deliver", "file.return", "stream.deliver", "stream.return", "file.qos-ok"):
        talk = Talk(version).opened(1)
        row = talk.adapter.table.by_name[name]  # type: ignore[attr-defined]
        words = talk.sends(frame(1, 1, row.prefix + row.write(row.record())))
        connection_dies(talk, words, 503, Condition.COMMAND_INVALID)


def test_0_9_1_does_not_have_them() -> None:
    talk = Talk("0-9-1").opened(1)
    row = Talk("0-9").adapter.table.by_name["file.ack"]  # type: ignore[attr-defined]
    words = talk.sends(frame(1, 1, row.prefix + row.write(row.record())))
    assert talk.adapter.closing and words


def test_a_server_without_these_classes_gets_basic_messages() -> None:
    """No other server of these versions is known to have them, but some refuse them with 540."""
    pair = opened("0-9")
    client, _ = both(pair)
    assert client.content_classes == {"basic", "file", "stream"}
    client.content_classes = frozenset()
    for group in ("file", "stream"):
        pair.client.send(Publish(1, message(group, b"12345"), False, False))
    for publish in pair.to_server():
        assert isinstance(publish, Publish) and publish.message.dialect is BASIC

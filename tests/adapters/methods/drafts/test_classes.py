"""Classes that only the drafts have: tickets, files in stages, tests; and the scope of errors."""

from typing import Any

import pytest

from gateway.adapters import Limits
from gateway.adapters.methods.contents.class_test import checksum
from gateway.adapters.methods.drafts import types as tables
from gateway.adapters.methods.wire import layouts_0_9a0 as first
from gateway.adapters.methods.wire import layouts_0_9a6 as second
from gateway.bodies import LargeBody, Spool
from gateway.errors import Condition
from gateway.message import Message, Properties
from gateway.operations import (
    Bind,
    Closed,
    DeclareExchange,
    DeclareQueue,
    Deliver,
    Done,
    EnterRealm,
    Fetch,
    FindQueue,
    FoundQueue,
    Open,
    Operation,
    Outcome,
    Prefetch,
    Publish,
    PurgeQueue,
    Refused,
    Returned,
    Select,
    SelectBranches,
    SessionLost,
    Settle,
    Subscribe,
    Synchronize,
)
from gateway.partial_bodies import PartialBodyStore
from tests.adapters.methods.drafts.talking import VERSIONS, Both, said
from tests.pair import sized

FIRST = ("0-9a0", "0-9a0-7")


def answers(both: Both, record: Any, channel: int = 1) -> list[tuple[str, Any]]:
    """What the server says to one method."""
    both.perform(both.server.receive(both.client.encoded(channel, record)))
    return said(both.client, b"".join(both.server.output()))


def layouts(version: str) -> Any:
    return second if version == "0-9a6" else first


# --- test ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("from_server", [False, True])
def test_both_sides_answer_tests(version: str, from_server: bool) -> None:
    both = Both(version).opened()
    w = layouts(version)
    if from_server:
        both.client, both.server = both.server, both.client
    for operation, number in ((1, 1 + 2 + 3 + (1 << 40)), (2, 1), (3, 1 << 40)):
        ((name, record),) = answers(both, w.TestInteger(1, 2, 3, 1 << 40, operation))
        assert (name, record.result) == ("test.integer-ok", number)
    for operation, text in ((1, b"abcd"), (2, b"ab"), (3, b"cd")):
        ((name, record),) = answers(both, w.TestString("ab", b"cd", operation))
        assert (name, record.result) == ("test.string-ok", text)
    entries = tables.write_table({"a": 5, "b": "xx", "c": 7, "d": "yy"}, version != "0-9a6")
    ((name, record),) = answers(both, w.TestTable(entries, 1, 3))
    assert (record.integer_result, record.string_result) == (12, b"yy")
    entries = tables.write_table({}, version != "0-9a6")
    ((name, record),) = answers(both, w.TestTable(entries, 1, 1))
    assert (record.integer_result, record.string_result) == (0, b"")


@pytest.mark.parametrize("version", VERSIONS)
def test_content_comes_back_with_its_checksum(version: str) -> None:
    both = Both(version).opened()
    w, frames = layouts(version), both.client.frames
    number = both.client.table.by_name["test.content"].number >> 16
    body = bytes(range(256)) * 300
    header = frames.content_header(number, 0, len(body), b"\x80\x00\x04text")
    both.server.receive(both.client.encoded(1, w.TestContent()))
    both.server.receive(frames.frame(2, 1, header))
    for piece in frames.bodies(1, body, 5000):
        both.server.receive(piece)
    found = said(both.client, b"".join(both.server.output()))
    assert found[0][0] == "test.content-ok"
    assert found[0][1].content_checksum == sum(body) & 0xFFFF_FFFF
    assert found[1] == ("header", header)
    assert b"".join(octets for kind, octets in found[2:] if kind == "body") == body


@pytest.mark.parametrize("version", VERSIONS)
def test_an_unknown_operation_costs_the_channel(version: str) -> None:
    both = Both(version).opened()
    ((name, record),) = answers(both, layouts(version).TestInteger(1, 2, 3, 4, 9))
    assert (name, record.reply_code) == ("channel.close", 503)
    assert [type(o) for o in both.asked] == [SessionLost]


# --- access --------------------------------------------------------------------------------------


def test_tickets_of_0_9a6() -> None:
    both = Both("0-9a6").opened()
    ((name, granted),) = answers(both, second.AccessRequest("/data", read=True))
    assert (name, granted.ticket) == ("access.request-ok", 1)
    answers(both, second.JmsConsume(1, "", "q"))
    assert any(isinstance(o, Subscribe) for o in both.asked)
    ((name, record),) = answers(both, second.QueuePurge(7, "", "q"))
    assert (name, record.reply_code) == ("channel.close", 403)


@pytest.mark.parametrize("version", FIRST)
def test_tickets_of_0_9a0(version: str) -> None:
    both = Both(version).opened()
    ((_, one),) = answers(both, first.AccessGrant("/data", purge=True))
    ((_, two),) = answers(both, first.AccessGrant("/data", consume=True, publish=True))
    assert (one.ticket, two.ticket) == (1, 2)
    ((name, _),) = answers(both, first.DestinationPurge(1, 1, "q"))
    assert name == "destination.purge-ok" and isinstance(both.asked[-1], PurgeQueue)
    ((name, record),) = answers(both, first.DestinationPurge(2, 1, "q"))
    assert (name, record.reply_code) == ("channel.close", 403)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_ticket_is_for_a_realm_which_may_be_asked_for_alone(version: str) -> None:
    w = layouts(version)
    request = w.AccessRequest if w is second else w.AccessGrant
    for exclusive in (False, True):
        both = Both(version).opened()
        ((name, _),) = answers(both, request("/data", exclusive=exclusive))
        assert name in ("access.request-ok", "access.grant-ok")
        assert isinstance(both.asked[-1], EnterRealm)
        assert (both.asked[-1].name, both.asked[-1].exclusive) == ("/data", exclusive)
    (enter,) = both.server.receive(both.client.encoded(1, request("/data")))
    both.server.send(Refused(1, enter.token, Condition.ACCESS_REFUSED, "taken"))  # type: ignore[attr-defined]
    ((name, close),) = said(both.client, b"".join(both.server.output()))
    assert (name, close.reply_code) == ("channel.close", 403)


@pytest.mark.parametrize("version", FIRST)
def test_a_ticket_of_another_channel_costs_the_connection(version: str) -> None:
    both = Both(version).opened()
    answers(both, first.ChannelOpen(0, "", 1), 2)
    ((_, one),) = answers(both, first.AccessGrant("/data", purge=True), 1)
    ((_, two),) = answers(both, first.AccessGrant("/data", purge=True), 2)
    assert (one.ticket, two.ticket) == (1, 2)
    answers(both, first.ChannelClose(200, ""), 2)
    ((name, record),) = answers(both, first.DestinationPurge(2, 1, "q"), 1)
    assert (name, record.reply_code) == ("channel.close", 403), "nobody has it any more"
    both = Both(version).opened()
    answers(both, first.ChannelOpen(0, "", 1), 2)
    answers(both, first.AccessGrant("/data", purge=True), 1)
    ((name, record),) = answers(both, first.DestinationPurge(1, 1, "q"), 2)
    assert (name, record.reply_code) == ("connection.close", 403)


# --- 0-9a0: destinations and subscriptions -------------------------------------------------------


def test_a_subscription_with_a_selector() -> None:
    both = Both("0-9a0").opened()
    define = first.SubscriptionDefine(0, "s", "", "a/*", 2, b"n > 3", 2)
    ((name, record),) = answers(both, define)
    assert (name, record.subscription, record.topic_selector) == (
        "subscription.define-ok", "s", "a/*",
    )  # fmt: skip
    bind = both.asked[-1]
    assert isinstance(bind, Bind) and (bind.source, bind.key) == ("amq.topic", "a.*")
    assert bind.arguments == {"x-selector": "n > 3"}
    ((name, record),) = answers(both, first.JmsConsume(0, 2, "", "s", auto_cancel=3))
    subscribe = both.asked[-1]
    assert isinstance(subscribe, Subscribe) and subscribe.queue == "subscription:s"
    assert subscribe.credit == 3 and subscribe.filter is None
    answers(both, first.JmsConsume(0, 1, "q", message_selector=b"n > 3", message_seltype=2))
    subscribe = both.asked[-1]
    assert isinstance(subscribe, Subscribe) and subscribe.filter is not None
    dialect = both.server.channel(1).dialect("jms")
    for number, wanted in ((3, False), (4, True)):
        header = dialect.write(Properties(application={"n": number}))
        message = Message(dialect, header, b"", "", "", dialect.essentials(header))
        assert subscribe.filter(message) is wanted


def test_a_subscription_by_a_regular_expression() -> None:
    both = Both("0-9a0").opened()
    ((name, record),) = answers(both, first.SubscriptionDefine(0, "r", "", "^a.+z$", 3))
    assert (name, record.topic_seltype) == ("subscription.define-ok", 3)
    bind = both.asked[-1]
    assert isinstance(bind, Bind) and (bind.key, bind.arguments) == ("^a.+z$", {"x-regexp": True})
    ((name, record),) = answers(both, first.SubscriptionDefine(0, "s", "", r"(a)\1", 3))
    assert (name, record.reply_code) == ("channel.close", 503)
    assert isinstance(both.asked[-1], SessionLost)


def test_without_an_engine_regular_expressions_are_refused(monkeypatch: Any) -> None:
    monkeypatch.setattr("gateway.selector.expressions.re2", None)
    both = Both("0-9a0").opened()
    ((name, record),) = answers(both, first.SubscriptionDefine(0, "r", "", "a", 3))
    assert (name, record.reply_code) == ("channel.close", 540)


def there(both: Both, name: str, **given: Any) -> None:
    """The broker has a queue of this name."""
    both.results[FindQueue] = FoundQueue(name, 5, 1, **given)


def test_a_subscription_that_is_there_tells_its_own_topics() -> None:
    """Whatever the second definition says, wrong or not."""
    both = Both("0-9a0").opened()
    bound = ("amq.topic", "a|b", {"x-regexp": True})
    there(both, "subscription:s", bindings=(("other", "", {}), bound))
    for selector, kind in (("c.#", 1), ("", 1), ("(", 3), ("c", 9)):
        ((name, record),) = answers(both, first.SubscriptionDefine(0, "s", "", selector, kind))
        assert (name, record.topic_selector, record.topic_seltype) == (
            "subscription.define-ok", "a|b", 3,
        )  # fmt: skip


@pytest.mark.parametrize(
    "record",
    [
        first.SubscriptionDefine(0, "s", "", "a", 1, private=True),
        first.DestinationDefine(0, 1, "s", "", True, False),
        first.JmsConsume(0, 2, "", "s"),
        first.JmsConsume(0, 1, "s"),
        first.JmsBrowse(0, 2, "", "s"),
        first.FileBrowse(0, 1, "s"),
    ],
)
def test_what_is_private_is_its_clients(record: Any) -> None:
    for client, user, allowed in (
        ("", "guest", True),
        ("", "", True),
        ("other", "guest", False),
        ("", "other", False),
    ):
        both = Both("0-9a0").opened()
        owner = {"x-amqp09-owner": client or both.server.connection.client_id}
        if user:
            owner["x-amqp09-owner-user"] = user  # queues made by earlier releases have none
        there(both, "s", arguments=owner)
        ((name, found),) = answers(both, record)
        assert (name != "channel.close") is allowed
        if not allowed:
            assert found.reply_code == 403
            assert isinstance(both.asked[-1], SessionLost)


def test_private_things_outlive_the_connection_unless_they_are_temporary() -> None:
    both = Both("0-9a0").opened()
    ours = {
        "x-amqp09-owner": both.server.connection.client_id,
        "x-amqp09-owner-user": "guest",
    }
    for record, durable in (
        (first.DestinationDefine(0, 1, "p", "", True, False), True),
        (first.DestinationDefine(0, 1, "p", "", True, True), False),
        (first.SubscriptionDefine(0, "p", "", "a", 1, private=True), True),
        (first.SubscriptionDefine(0, "p", "", "a", 1, private=True, auto_cancel=True), False),
    ):
        answers(both, record)
        made = [o for o in both.asked if isinstance(o, DeclareQueue)][-1]
        assert (made.durable, made.exclusive, made.auto_delete) == (
            durable, not durable, not durable,
        )  # fmt: skip
        assert made.arguments == (ours if durable else {})


def test_the_client_identifier_is_given_or_made() -> None:
    for given in ("", "me"):
        both = Both("0-9a0")
        both.client.send(Open("open", "/", "guest", client=given))
        both.run()
        (opened,) = (o for o in both.asked if isinstance(o, Open))
        assert opened.client == (given or both.server.connection.client_id) != ""


def test_a_topic_without_a_subscription_gets_a_private_one() -> None:
    both = Both("0-9a0").opened()
    ((name, _),) = answers(both, first.JmsConsume(0, 2, "news"))
    assert name == "jms.consume-ok"
    declare, bind, limit, subscribe = both.asked
    assert isinstance(declare, DeclareQueue) and declare.exclusive and declare.auto_delete
    assert isinstance(bind, Bind) and bind.destination == declare.name and bind.key == "news"
    assert isinstance(limit, Prefetch)
    assert isinstance(subscribe, Subscribe) and subscribe.queue == declare.name


@pytest.mark.parametrize("there", [False, True])
def test_fuzzy_is_a_queue_if_there_is_one(there: bool) -> None:
    both = Both("0-9a0").opened()
    if there:
        both.queues.add("x")
    ((name, record),) = answers(both, first.DestinationQuery(0, 3, "x"))
    assert record.service_type == (1 if there else 2)
    answers(both, first.JmsConsume(0, 3, "x"))
    assert isinstance(both.asked[0], FindQueue)
    assert isinstance(both.asked[-1], Subscribe)
    assert (both.asked[-1].queue == "x") is there
    ((name, _),) = answers(both, first.JmsBrowse(0, 3, "x"))
    assert name == "jms.browse-empty" and isinstance(both.asked[-1], Fetch) is there
    ((name, record),) = answers(both, first.DestinationDefine(0, 3, "x"))
    assert (name, record.reply_code) == ("channel.close", 503)


def publish(both: Both, record: Any) -> Publish:
    frames = both.client.frames
    number = both.client.table.by_record[type(record)].number >> 16
    both.perform(both.server.receive(both.client.encoded(1, record)))
    head = frames.content_header(number, 0, 0, b"\0\0")
    both.perform(both.server.receive(frames.frame(2, 1, head)))
    found = both.asked[-1]
    assert isinstance(found, Publish)
    return found


def test_publishing_to_fuzzy_destinations() -> None:
    both = Both("0-9a0").opened()
    operation = publish(both, first.JmsPublish(0, 3, "x", False))
    assert (operation.message.exchange, operation.mandatory) == ("", True)
    both.server.send(Returned(1, operation.message, Condition.NO_ROUTE, ""))
    (again,) = both.server.found()
    assert isinstance(again, Publish) and again.message.exchange == "amq.topic"
    assert not again.mandatory and again.message.key == "x"


def test_a_transacted_channel() -> None:
    both = Both("0-9a0").opened()
    both.perform(both.server.receive(both.client.encoded(2, first.ChannelOpen(5000, "", 2))))
    _, limit, select = both.asked
    assert limit == Prefetch(2, None, 0, 5000, True) and isinstance(select, Select)
    both.server.output()
    both.perform(both.server.receive(both.client.encoded(3, first.ChannelOpen(0, "", 3))))
    assert isinstance(both.asked[-1], SelectBranches)


def test_what_is_defined_nowhere_is_refused() -> None:
    for kind in ("nothing", "system", ""):
        both = Both("0-9a6").opened()
        ((name, close),) = answers(both, second.ExchangeDeclare(0, "x", kind))
        assert (name, close.reply_code) == ("channel.close", 503)
    both = Both("0-9a6").opened()
    ((name, close),) = answers(both, second.QueueBind(0, "", "q", "queue", b""))
    assert (name, close.reply_code) == ("channel.close", 503)


def test_classes_by_the_names_of_document_and_programs() -> None:
    both = Both("0-9a6").opened()
    for kind, ours in (
        ("matcher", "x-matcher"), ("prop-wild", "x-matcher"), ("prop_wild", "x-matcher"),
        ("selector", "x-selector"), ("lossy", "x-lossy"), ("prop_test", "headers"),
    ):  # fmt: skip
        answers(both, second.ExchangeDeclare(0, "x", kind))
        made = both.asked[-1]
        assert isinstance(made, DeclareExchange) and made.type == ours
    entries = tables.write_table({"selector": "n > 1", "destination": "a.*"}, False)
    answers(both, second.QueueBind(0, "", "q", "x", entries))
    bound = both.asked[-1]
    assert isinstance(bound, Bind)  # the last class was the one of headers
    assert (bound.key, bound.arguments) == ("", {"selector": "n > 1", "destination": "a.*"})


def test_a_binding_that_means_nothing_costs_the_channel() -> None:
    both = Both("0-9a6").opened()
    (bind,) = both.server.receive(both.client.encoded(1, second.QueueBind(0, "", "q", "x", b"")))
    both.server.send(Refused(1, bind.token, Condition.PRECONDITION_FAILED, "no"))  # type: ignore[attr-defined]
    ((name, close),) = said(both.client, b"".join(both.server.output()))
    assert (name, close.reply_code, close.method_id) == ("channel.close", 503, 3)


@pytest.mark.parametrize("version", FIRST)
def test_channels_share_the_prefetch_of_the_connection(version: str) -> None:
    both = Both(version).opened()
    both.server.connection.prefetch_max = 1000

    def windows(record: Any, channel: int) -> dict[int, int]:
        both.forget()
        answers(both, record, channel)
        found = [o for o in both.asked if isinstance(o, Prefetch)]
        assert all(o.shared and not o.count for o in found)
        return {o.channel: o.size for o in found}

    assert windows(first.ChannelOpen(0, "", 1), 2) == {1: 500, 2: 500}
    assert windows(first.ChannelOpen(100, "", 1), 3) == {1: 250, 2: 250, 3: 100}
    assert windows(first.ChannelOpen(0, "", 1), 4) == {4: 250}
    assert windows(first.ChannelOpen(0, "", 1), 5) == {1: 125, 2: 125, 3: 100, 4: 125, 5: 125}
    for channel in (5, 4, 3):
        assert windows(first.ChannelClose(200, ""), channel) == {}
    assert windows(first.ChannelClose(200, ""), 2) == {1: 250}


@pytest.mark.parametrize(
    "record",
    [
        first.JmsConsume(0, 1, ""),
        first.JmsConsume(0, 2, ""),
        first.JmsConsume(0, 1, "q", "s"),
        first.FileBrowse(0, 3, ""),
        first.DestinationQuery(0, 2, ""),
        first.DestinationCancel(0, 1, ""),
    ],
)
def test_destinations_have_names(record: Any) -> None:
    both = Both("0-9a0").opened()
    ((name, close),) = answers(both, record)
    assert (name, close.reply_code) == ("channel.close", 503)


def flagged(both: Both, record: Any, flag: int, tag: int = 0) -> bytes:
    """A method with a flag and a synchtag (0-9a0)."""
    engine = both.client
    layout = engine.table.geometry.method
    method = engine.table.by_record[type(record)]
    group, name = method.number >> 16, method.number & 0xFFFF
    flags = (flag,) if layout.size == 7 else (0, flag)
    payload = layout.pack(group, name, *flags, tag) + method.write(record)
    return engine.frames.frame(engine.frames.method, 1, payload)


@pytest.mark.parametrize("version", FIRST)
def test_synchreq_is_answered_where_a_setting_says_so(version: str) -> None:
    for synch in (False, True):
        both = Both(version, limits=Limits(synch=synch)).opened()
        engine = both.client
        tags: list[Any] = []
        for record in (
            first.ChannelFlow(False),
            first.JmsCancel(9),
            first.JmsAck(0, True),
            first.JmsReject(1, True),
            first.TestInteger(1, 2, 3, 4, 1),
            first.DestinationQuery(0, 1, "q"),
        ):
            both.perform(both.server.receive(flagged(both, record, 0x80, 0xABCD0001 + len(tags))))
            tags.append(b"".join(both.server.output()))
        answered = [octets for octets in tags if octets[4:6] == bytes((2, 6))]
        assert len(answered) == (4 if synch else 0)
        width = engine.table.geometry.method.size
        for number, octets in enumerate(answered):
            assert octets[4:] == bytes((2, 6)) + bytes(width - 6) + (0xABCD0001 + number).to_bytes(
                4
            )
        publish = flagged(both, first.JmsPublish(0, 1, "q"), 0x80, 7)
        both.forget()
        both.perform(both.server.receive(publish))
        assert not both.asked and not both.server.output()
        frames = engine.frames
        head = frames.content_header(6, 0, 2, bytes(2))
        both.perform(both.server.receive(frames.frame(frames.header, 1, head)))
        assert not both.server.output()
        both.perform(both.server.receive(frames.frame(frames.body, 1, b"hi")))
        kinds = [type(o) for o in both.asked]
        assert kinds == ([Publish, Synchronize] if synch else [Publish])
        assert b"".join(both.server.output())[-4:] == (bytes((0, 0, 0, 7)) if synch else b"")


def test_what_fails_is_not_synchronized() -> None:
    both = Both("0-9a0", limits=Limits(synch=True)).opened()
    found = both.server.receive(flagged(both, first.JmsCancel(9), 0x80, 7))
    assert isinstance(found[-1], Synchronize)
    both.server.send(Refused(1, None, Condition.NOT_FOUND, "no"))
    both.server.send(Done(1, found[-1].token))
    ((name, close),) = said(both.client, b"".join(both.server.output()))
    assert (name, close.reply_code) == ("channel.close", 404)


def test_an_out_of_band_setting_is_refused() -> None:
    for version in VERSIONS:
        both = Both(version).opened()
        w = layouts(version)
        open_ = w.ChannelOpen(out_of_band="shm")
        ((name, close),) = answers(both, open_, 2)
        assert close.reply_code == 540


# --- 0-9a6: namespaces, virtual hosts, closes ----------------------------------------------------


def test_namespaces_of_queues() -> None:
    both = Both("0-9a6").opened()
    ((_, record),) = answers(both, second.QueueDeclare(0, "mine", "q"))
    assert record.queue == "q"
    assert isinstance(both.asked[-1], DeclareQueue) and both.asked[-1].name == "mine:q"
    ((_, consuming),) = answers(both, second.JmsConsume(0, "mine", "q"))
    dialect = both.server.channel(1).dialect("jms")
    header = dialect.write(Properties())
    message = Message(dialect, header, b"b", "", "k", dialect.essentials(header))
    both.server.outlet(1).deliver(str(consuming.consumer_tag), 1, False, message)
    found = said(both.client, b"".join(both.server.output()))
    assert (found[0][1].domain, found[0][1].queue) == ("mine", "q")


def test_one_virtual_host_per_connection() -> None:
    both = Both("0-9a6").opened()
    ((name, close),) = answers(both, second.ChannelOpen("/other"), 2)
    assert (name, close.reply_code) == ("channel.close", 507)


@pytest.mark.parametrize("number", [9, 10])
def test_close_under_either_number(number: int) -> None:
    """9 with fields is a close, and so is 10; 10 without them answers one."""
    both = Both("0-9a6").opened()
    close = second.write_connection_close(second.ConnectionClose(200, "bye"))
    payload = b"\0\1\0" + bytes([number]) + close
    (closed,) = both.server.receive(both.client.frames.frame(1, 0, payload))
    assert closed == Closed(None, "bye")


def test_tune_ok_with_three_fields() -> None:
    both = Both("0-9a6")
    both.server.receive(b"AMQP\x01\x01\x00\x09")
    response = tables.write_table({"LOGIN": "guest", "PASSWORD": "guest"}, False)
    both.server.receive(
        both.client.encoded(0, second.ConnectionStartOk("PLAIN", response, "en_US"))
    )
    tune = both.client.frames.frame(1, 0, bytes.fromhex("00010006 0010 00010000 0000"))
    assert both.server.receive(tune) == [] and not both.server.closing
    assert both.server.channel_max == 16


# --- 0-9a6: files --------------------------------------------------------------------------------


def file_message(both: Both, body: bytes) -> Message:
    dialect = both.client.channel(1).dialect("file")
    header = dialect.write(Properties(content_type="video/mpeg", to="q"))
    return Message(dialect, header, body, "", "q", dialect.essentials(header))


@pytest.mark.parametrize("size", [1, 7, 1 << 30])
def test_a_file_is_staged_both_ways(size: int) -> None:
    both = Both("0-9a6", sized(size)).opened()
    sent = file_message(both, b"frame" * 50_000)
    both.client.send(Publish(1, sent, False, False))
    both.run()
    (operation,) = both.asked
    assert isinstance(operation, Publish)
    got = operation.message
    assert (got.header, got.body, got.key) == (sent.header, sent.body, "q")
    assert got.essentials.durable
    ((_, consuming),) = answers(both, second.FileConsume(0, "", "q", 0, 5))
    tag = str(consuming.consumer_tag)
    both.server.outlet(1).deliver(tag, 1, False, got)
    both.server.outlet(1).deliver(tag, 2, True, got)
    both.run()
    assert [type(o) for o in both.heard] == [Deliver, Deliver]
    for operation, number in zip(both.heard, (1, 2), strict=True):
        assert isinstance(operation, Deliver) and operation.delivery == number
        assert operation.message.body == sent.body and operation.message.header == sent.header
    both.forget()
    both.say(second.FileAck(2, True))
    both.say(second.FileReject(3, False))
    assert both.asked == [
        Settle(1, 2, True, Outcome.ACCEPT),
        Settle(1, 3, False, Outcome.REJECT),
    ]


def test_a_file_that_was_cut_off_goes_on_where_it_stopped() -> None:
    body = b"0123456789" * 1000
    sizes: list[int] = []
    partials = PartialBodyStore()
    for cut in (4000, 3000, None):
        both = Both("0-9a6", partials=partials).opened()
        ((name, record),) = answers(both, second.FileOpen("film", len(body)))
        sizes.append(record.staged_size)
        rest = body[record.staged_size :]
        frames = both.client.frames
        both.server.receive(both.client.encoded(1, second.FileStage()))
        head = frames.content_header(8, 0, len(rest), b"\0\0")
        both.server.receive(frames.frame(2, 1, head))
        for piece in frames.bodies(1, rest if cut is None else rest[:cut], 1000):
            both.server.receive(piece)
        if cut is not None:
            both.server.lost()
    assert sizes == [0, 4000, 7000]
    both.perform(
        both.server.receive(both.client.encoded(1, second.FilePublish(0, "queue", False, "film")))
    )
    (operation,) = both.asked
    assert isinstance(operation, Publish) and operation.message.body == body
    assert partials.octets == 0 and not partials.kept


def test_files_that_are_not_there() -> None:
    def lost(*records: Any) -> list[Operation]:
        both = Both("0-9a6").opened()
        for record in records:
            both.perform(both.server.receive(both.client.encoded(1, record)))
        return both.asked

    (operation,) = lost(second.FilePublish(0, "queue", False, "nothing"))
    assert isinstance(operation, SessionLost) and operation.condition is Condition.NOT_FOUND
    (operation,) = lost(second.FileOpenOk(5))
    assert isinstance(operation, SessionLost)
    (operation,) = lost(second.FileOpen("huge", 1 << 60))
    assert isinstance(operation, SessionLost)
    (operation,) = lost(*[second.FileOpen(f"f{n}", 1) for n in range(65)])
    assert isinstance(operation, SessionLost)
    assert operation.condition is Condition.RESOURCE_ERROR


def test_the_checksum_of_a_large_body() -> None:
    octets = bytes(range(256)) * 1025 + b"\xff" * 1000
    spooled = Spool().start()
    assert spooled is not None
    spooled.add(octets)
    body = spooled.finish()
    assert checksum(body) == checksum(octets) == sum(octets)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_large_body_comes_in_a_file(version: str) -> None:
    """Also one with a child, and nothing is left of one that is cut off."""
    spool = Spool(threshold=1000, most_octets=10_000)
    both = Both(version, spool=spool).opened()
    w, number = layouts(version), 7 if version == "0-9a6" else 6
    body, frames = bytes(range(250)) * 10, both.client.frames
    record = w.JmsPublish(0, "queue") if version == "0-9a6" else w.JmsPublish(0, 1, "q")
    start = both.client.encoded(1, record)
    inner = frames.frame(frames.header, 1, frames.content_header(number, 0, 1, b"\0\0"))
    inner += frames.frame(frames.body, 1, b"c")
    outer = frames.frame(frames.header, 1, frames.content_header(number, 1, len(body), b"\0\0"))
    pieces = frames.bodies(1, body, 600)
    both.perform(both.server.receive(start + outer + inner))
    assert spool.files == 1 and both.server.announced < 100
    for piece in pieces:
        both.perform(both.server.receive(piece))
    (operation,) = both.asked
    assert isinstance(operation, Publish) and isinstance(operation.message.body, LargeBody)
    assert operation.message.body[:] == body and both.server.announced == 0
    del operation
    both.forget()
    assert spool.files == 0
    both.server.receive(start + outer + inner + pieces[0])
    assert spool.octets == 600
    both.server.lost()
    assert spool.files == 0 and both.server.announced == 0


def test_no_room_for_a_large_body_costs_the_channel() -> None:
    spool = Spool(threshold=1000, most_octets=2000)
    both = Both("0-9a6", spool=spool).opened()
    frames = both.client.frames
    start = both.client.encoded(1, second.JmsPublish(0, "queue"))
    head = frames.frame(frames.header, 1, frames.content_header(7, 0, 2001, b"\0\0"))
    (lost,) = both.server.receive(start + head)
    assert isinstance(lost, SessionLost) and lost.condition is Condition.CONTENT_TOO_LARGE
    assert not both.server.closing and spool.files == 0 and both.server.announced == 0

"""The server role where the recordings say nothing: settling, refusals, references, mixed days."""

import random
from typing import Any

import pytest

from gateway.adapters import Limits
from gateway.adapters.methods.transitional import types
from gateway.adapters.methods.wire import layouts_0_10_07 as w
from gateway.bodies import Spool
from gateway.operations import Closed
from tests.adapters.methods.transitional.recorded import NAMES, octets, version_of
from tests.adapters.methods.transitional.serving import Client, Said, Served
from tests.adapters.test_fuzz import mutate

OLDER, NEWER = "0-10-07-24", "0-10-07-27"
both = pytest.mark.parametrize("version", [OLDER, NEWER])


def names(said: list[Said]) -> list[str]:
    return [item.name for item in said]


def inline(body: bytes) -> bytes:
    return types.write_body(types.Body(False, body))


def body_of(said: Said) -> types.Body:
    return types.read_body(said.record.body)


def ready(version: str) -> Client:
    """With a queue ``q``."""
    client = Client(version).open()
    assert names(client.say(1, w.QueueDeclare(queue="q"))) == ["queue.declare-ok"]
    return client


def published(client: Client, *bodies: bytes) -> None:
    for body in bodies:
        client.say(1, w.MessageTransfer(routing_key="q", body=inline(body)))


def consuming(client: Client, **options: Any) -> list[Said]:
    return client.say(1, w.MessageConsume(queue="q", destination="d", **options))


def unsettled(client: Client) -> int:
    """Deliveries on channel 1 that the client has not settled."""
    return len(client.served.adapter.channels[1].deliveries)


def messages_in(client: Client) -> int:
    """Ready messages, as a passive declaration on another channel says."""
    client.say(2, w.ChannelOpen())
    (ok,) = client.say(2, w.QueueDeclare(queue="q", passive=True))
    client.say(2, w.ChannelClose(200, ""))
    count: int = ok.record.message_count
    return count


# --- settling ------------------------------------------------------------------------------------


def test_a_response_settles_its_delivery_and_a_batch_those_behind_it() -> None:
    client = ready(OLDER)
    published(client, b"1", b"2", b"3", b"4")
    said = consuming(client)
    requests = [item.carried.identifier for item in said if item.carried]
    assert requests == [1, 2, 3, 4] and unsettled(client) == 4
    client.answer(1, w.MessageOk(), requests[0], batch=2)
    assert unsettled(client) == 1
    client.answer(1, w.MessageReject(1, "no"), requests[3])
    assert unsettled(client) == 0
    client.say(1, w.ChannelClose(200, ""))
    client.say(1, w.ChannelOpen())
    assert messages_in(client) == 0


def test_a_response_to_nothing_settles_nothing() -> None:
    client = ready(OLDER)
    published(client, b"1")
    consuming(client)
    assert client.answer(1, w.MessageOk(), 100, batch=0xFFFF_FFFF) == []
    assert unsettled(client) == 1


def test_completion_settles_up_to_its_mark_and_single_commands() -> None:
    client = ready(NEWER)
    published(client, b"1", b"2", b"3", b"4")
    assert len(consuming(client)) == 4
    first = 3  # behind channel.open-ok and queue.declare-ok
    client.say(1, w.ExecutionComplete(first))
    assert unsettled(client) == 3
    client.say(1, w.ExecutionComplete(first, types.write_set([(first + 2, first + 2)])))
    assert unsettled(client) == 2
    client.say(1, w.ExecutionComplete(0, types.write_set([(first + 1, first + 3)])))
    assert unsettled(client) == 0


@pytest.mark.parametrize("words", [types.write_set([(77, 77)]), b"\0\0\0\1"])
def test_completion_of_what_was_not_delivered_closes_the_connection(words: bytes) -> None:
    client = ready(NEWER)
    (close,) = client.say(1, w.ExecutionComplete(0, words))
    assert close.record.reply_code == 530 and client.served.adapter.closing


@both
@pytest.mark.parametrize("record", [w.BasicAck(77), w.BasicReject(77), w.BasicReject(77, True)])
def test_an_unknown_delivery_tag_closes_the_channel(version: str, record: Any) -> None:
    client = ready(version)
    (close,) = client.say(1, record)
    assert (close.name, close.record.reply_code) == ("channel.close", 530)


@both
def test_a_close_ok_that_answers_nothing(version: str) -> None:
    """It is out of place (504), not unknown."""
    (close,) = Client(version).open().say(1, w.ChannelCloseOk())
    assert (close.name, close.record.reply_code) == ("connection.close", 504)


@both
def test_unsettled_messages_go_back_when_the_channel_closes(version: str) -> None:
    client = ready(version)
    published(client, b"1", b"2")
    consuming(client)
    assert names(client.say(1, w.ChannelClose(200, ""))) == ["channel.close-ok"]
    assert messages_in(client) == 2


@both
def test_recover_delivers_again(version: str) -> None:
    client = ready(version)
    published(client, b"1")
    consuming(client)
    (again,) = client.say(1, w.MessageRecover(requeue=True))
    assert again.record.redelivered and body_of(again).octets == b"1"
    assert unsettled(client) == 1


@both
def test_basic_get_and_its_tags(version: str) -> None:
    client = ready(version)
    published(client, b"1", b"2")
    for left in (1, 0):
        ok, header, _ = client.say(1, w.BasicGet(queue="q"))
        assert ok.name == "basic.get-ok" and ok.record.message_count == left
        client.say(1, w.BasicAck(ok.record.delivery_tag))
        assert unsettled(client) == 0
    assert names(client.say(1, w.BasicGet(queue="q"))) == ["basic.get-empty"]


@both
def test_basic_ack_of_many(version: str) -> None:
    client = ready(version)
    published(client, b"1", b"2", b"3")
    said = client.say(1, w.BasicConsume(queue="q", consumer_tag="t"))
    tags = [item.record.delivery_tag for item in said if item.name == "basic.deliver"]
    client.say(1, w.BasicAck(tags[1], True))
    assert unsettled(client) == 1
    client.say(1, w.BasicReject(tags[2], False))
    assert unsettled(client) == 0 and messages_in(client) == 0


@both
def test_an_ack_of_many_takes_fetched_ones_in_their_order(version: str) -> None:
    client = ready(version)
    published(client, b"1", b"2", b"3", b"4")
    tags = []
    for _ in range(2):
        ok, *_ = client.say(1, w.BasicGet(queue="q"))
        tags.append(ok.record.delivery_tag)
    said = client.say(1, w.BasicConsume(queue="q", consumer_tag="t"))
    tags += [item.record.delivery_tag for item in said if item.name == "basic.deliver"]
    client.say(1, w.BasicAck(tags[0], True))
    assert unsettled(client) == 3
    client.say(1, w.BasicAck(tags[2], True))
    assert unsettled(client) == 1
    client.say(1, w.BasicAck(0, True))
    assert unsettled(client) == 0 and messages_in(client) == 0


# --- publishing ----------------------------------------------------------------------------------


def test_what_no_queue_takes_is_rejected_if_that_is_wanted() -> None:
    client = ready(OLDER)
    lost = w.MessageTransfer(routing_key="nowhere", body=inline(b"x"))
    assert names(client.say(1, lost)) == ["message.ok"]
    lost.reject_unroutable = True
    (reject,) = client.say(1, lost)
    assert (reject.name, reject.record.code) == ("message.reject", 312)
    assert names(client.say(1, w.MessageTransfer(routing_key="q", body=inline(b"")))) == [
        "message.ok"
    ]


def test_what_comes_back_of_the_class_basic_is_not_kept() -> None:
    client = ready(OLDER)
    publish = client.octets(1, w.BasicPublish(routing_key="q", immediate=True))
    assert client.served.receive(publish + client.content(1, b"\0\0", b"x")) == []
    assert not client.served.adapter.channels[1].transfers
    immediate = w.MessageTransfer(routing_key="q", immediate=True, body=inline(b"x"))
    (reject,) = client.say(1, immediate)
    assert reject.record.code == 313 and not client.served.adapter.channels[1].transfers


def test_transfers_without_responses_are_not_answered() -> None:
    client = ready(NEWER)
    lost = w.MessageTransfer(routing_key="nowhere", reject_unroutable=True, body=inline(b"x"))
    assert client.say(1, lost) == []
    (complete,) = client.say(1, w.ExecutionFlush())
    assert complete.record.cumulative_execution_mark == 3


@both
def test_properties_come_back(version: str) -> None:
    client = ready(version)
    sent = w.MessageTransfer(
        routing_key="q", ttl=60_000, priority=7, timestamp=1_185_000_000, delivery_mode=2,
        message_id="m", correlation_id="c", reply_to="r", content_type="text/plain",
        content_encoding="utf-8", type="t", app_id="a",
        application_headers=types.write_table({"s": "x", "t": {"n": 5}}), body=inline(b"body"),
    )  # fmt: skip
    client.say(1, sent)
    (said,) = consuming(client, no_ack=True)
    got = said.record
    for name in w.MessageTransfer.__slots__:
        if name not in ("destination", "ttl"):
            assert getattr(got, name) == getattr(sent, name), name
    assert got.ttl <= 60_000


@both
def test_numeric_headers_arrive_as_letters(version: str) -> None:
    client = ready(version)
    numeric = b"\x01n\x02\x07" + b"\x01s\x94\x00\x01x"
    client.say(1, w.MessageTransfer(routing_key="q", application_headers=numeric, body=inline(b"")))
    (said,) = consuming(client, no_ack=True)
    assert said.record.application_headers == types.write_table({"n": 7, "s": "x"})


@both
def test_a_body_in_parts_and_two_transfers_of_it(version: str) -> None:
    client = ready(version)
    client.say(1, w.MessageOpen(b"r"))
    for part in (b"ab", b"", b"cd"):
        client.say(1, w.MessageAppend(b"r", part))
    by_name = types.write_body(types.Body(True, b"r"))
    for _ in range(2):
        assert client.say(1, w.MessageTransfer(routing_key="q", body=by_name)) == []
    said = client.say(1, w.MessageClose(b"r"))
    assert names(said) == (["message.ok"] * 2 if version == OLDER else [])
    assert [body_of(item).octets for item in consuming(client, no_ack=True)] == [b"abcd"] * 2
    assert client.served.adapter.announced == 0


@both
def test_references_that_are_misused_close_the_connection(version: str) -> None:
    by_name = types.write_body(types.Body(True, b"r"))
    for record in (
        w.MessageAppend(b"r", b"x"),
        w.MessageClose(b"r"),
        w.MessageTransfer(routing_key="q", body=by_name),
    ):
        client = ready(version)
        (close,) = client.say(1, record)
        assert (close.name, close.record.reply_code) == ("connection.close", 503)
    client = ready(version)
    client.say(1, w.MessageOpen(b"r"))
    (close,) = client.say(1, w.MessageOpen(b"r"))
    assert (close.name, close.record.reply_code) == ("connection.close", 503)


@both
def test_a_reference_is_no_larger_than_a_message(version: str) -> None:
    client = ready(version)
    client.say(1, w.MessageOpen(b"r"))
    part = bytes(90_000)
    assert client.say(1, w.MessageAppend(b"r", part)) == []
    assert client.say(1, w.MessageAppend(b"r", part)) == []
    (close,) = client.say(1, w.MessageAppend(b"r", part))
    assert (close.name, close.record.reply_code) == ("channel.close", 311)
    assert client.served.adapter.channels[1].references.held == 0
    assert client.served.adapter.announced == 0


@both
def test_a_large_body_goes_out_in_parts(version: str) -> None:
    client = ready(version)
    body = bytes(range(256)) * 100
    client.say(1, w.MessageTransfer(routing_key="q", body=inline(body)))
    said = consuming(client)
    kinds = names(said)
    assert kinds[0] == "message.open" and kinds[-2:] == ["message.transfer", "message.close"]
    assert set(kinds[1:-2]) == {"message.append"}
    assert b"".join(item.record.bytes for item in said[1:-2]) == body
    assert body_of(said[-2]).is_reference
    transfer = said[-2]
    if transfer.carried is not None:
        assert [i.carried.identifier for i in said if i.carried] == list(range(1, len(said) + 1))
        client.answer(1, w.MessageOk(), transfer.carried.identifier)
    else:
        client.say(1, w.ExecutionComplete(2 + len(said) - 1))
    assert unsettled(client) == 0


@both
@pytest.mark.parametrize("basic", [True, False])
def test_a_body_in_a_file_goes_out_as_the_socket_takes_it(version: str, basic: bool) -> None:
    client = Client(version, spool=Spool(threshold=1000)).open()
    client.say(1, w.QueueDeclare(queue="q"))
    body = bytes(range(256)) * 100
    publish = client.octets(1, w.BasicPublish(routing_key="q"))
    client.served.receive(publish + client.content(1, b"\0\0", body))
    client.say(1, w.MessageTransfer(routing_key="q", body=inline(b"behind")))
    if basic:
        said = client.say(1, w.BasicConsume(queue="q", consumer_tag="t", no_ack=True))
        parts = b"".join(item.record for item in said[3:] if item.name == "content")
        assert body in parts and parts.endswith(b"behind")
        assert names(said)[:2] == ["basic.consume-ok", "basic.deliver"]
        return
    said = consuming(client)
    appended = [item for item in said if item.name == "message.append"]
    assert b"".join(item.record.bytes for item in appended) == body
    assert names(said)[-3:] == ["message.transfer", "message.close", "message.transfer"]
    numbers = [item.carried.identifier for item in said if item.carried is not None]
    assert numbers == list(range(1, len(said) + 1)) * (version == OLDER)
    assert unsettled(client) == 2


@both
def test_a_content_with_a_header_that_this_version_has_not(version: str) -> None:
    client = ready(version)
    publish = client.octets(1, w.BasicPublish(routing_key="q"))
    said = client.served.receive(publish + client.content(1, b"\0\4\1x", b""))
    assert said[-1].record.reply_code == 502


# --- requests ------------------------------------------------------------------------------------


def test_get_says_what_became_of_it() -> None:
    client = ready(OLDER)
    assert names(client.say(1, w.MessageGet(queue="q", destination="g"))) == ["message.empty"]
    published(client, b"1")
    transfer, ok = client.say(1, w.MessageGet(queue="q", destination="g"))
    assert (transfer.record.destination, ok.name) == ("g", "message.ok")
    assert transfer.carried is not None
    client.answer(1, w.MessageOk(), transfer.carried.identifier)
    assert unsettled(client) == 0


def test_get_without_responses_is_silent_about_nothing() -> None:
    client = ready(NEWER)
    assert client.say(1, w.MessageGet(queue="q", destination="g")) == []
    published(client, b"1")
    assert names(client.say(1, w.MessageGet(queue="q", destination="g"))) == ["message.transfer"]


@both
def test_queries(version: str) -> None:
    client = ready(version)
    (ok,) = client.say(1, w.ExchangeQuery(name="none"))
    assert ok.record == w.ExchangeQueryOk(not_found=True)
    (ok,) = client.say(1, w.ExchangeQuery(name="amq.direct"))
    assert ok.record == w.ExchangeQueryOk("direct", True)
    query = w.BindingQuery(exchange="amq.direct", queue="q", routing_key="k")
    (ok,) = client.say(1, query)
    assert ok.record.queue_not_matched and not ok.record.queue_not_found
    client.say(1, w.QueueBind(queue="q", exchange="amq.direct", routing_key="k"))
    (ok,) = client.say(1, query)
    assert ok.record == w.BindingQueryOk()
    (ok,) = client.say(1, w.BindingQuery(exchange="none", queue="none"))
    assert ok.record.exchange_not_found and ok.record.queue_not_found


@both
def test_nowait_is_not_answered(version: str) -> None:
    client = ready(version)
    assert client.say(1, w.QueuePurge(queue="q", no_wait=True)) == []
    assert client.say(1, w.QueueDelete(queue="q", no_wait=True)) == []


@both
def test_a_consumer_name_is_used_once(version: str) -> None:
    client = ready(version)
    consuming(client)
    (close,) = consuming(client)
    assert (close.name, close.record.reply_code) == ("connection.close", 530)


# --- the end of channels and connections ---------------------------------------------------------


@both
def test_a_channel_that_we_closed_is_opened_again_without_close_ok(version: str) -> None:
    client = ready(version)
    (close,) = client.say(1, w.QueueDeclare(queue="none", passive=True))
    assert (close.name, close.record.reply_code) == ("channel.close", 404)
    assert (close.record.class_id, close.record.method_id) == (50, 10)
    assert client.say(1, w.ExecutionFlush()) == []
    restarted = client.restarted(1)
    (ok,) = restarted.say(1, w.ChannelOpen())
    assert ok.name == "channel.open-ok"
    if ok.carried is not None:
        assert (ok.carried.identifier, ok.carried.other) == (1, 1)
    (complete,) = restarted.say(1, w.ExecutionFlush())
    assert complete.record.cumulative_execution_mark == 1


@both
def test_close_ok_behind_our_close_is_no_error(version: str) -> None:
    client = ready(version)
    (close,) = client.say(1, w.QueueDeclare(queue="none", passive=True))
    assert (
        client.answer(1, w.ChannelCloseOk(), close.carried.identifier if close.carried else 0) == []
    )
    assert not client.served.adapter.channels
    assert names(client.restarted(1).say(1, w.ChannelOpen())) == ["channel.open-ok"]


@both
def test_nobody_waits_for_close_ok_of_the_connection(version: str) -> None:
    client = ready(version)
    said = client.say(1, w.ExchangeDeclare(exchange="amq.direct", type="topic"))
    assert names(said) == ["connection.close"] and said[0].record.reply_code == 530
    assert client.served.adapter.closing and client.served.session.closed
    client.served.lose()


# --- logins and mixed days -----------------------------------------------------------------------


@both
def test_amqplain_is_taken_where_only_plain_is_offered(version: str) -> None:
    client = Client(version, mechanisms=("PLAIN",))
    (start,) = client.served.receive(client.table.header)
    assert start.record.mechanisms == b"PLAIN"
    table = types.write_table({"LOGIN": "guest", "PASSWORD": "guest"})
    (tune,) = client.answer(0, w.ConnectionStartOk(b"", "AMQPLAIN", table, "en_US"), 1)
    assert tune.name == "connection.tune"


@both
def test_a_response_that_is_no_table_costs_the_connection(version: str) -> None:
    client = Client(version, mechanisms=("PLAIN",))
    client.served.receive(client.table.header)
    (close,) = client.answer(0, w.ConnectionStartOk(b"", "AMQPLAIN", b"\1xZ", "en_US"), 1)
    assert close.record.reply_code == 502 and client.served.adapter.closing


@both
def test_the_server_speaks_text_and_numbers_alone(version: str) -> None:
    served = Served(version)
    (start,) = served.receive(Client(version).table.header)
    assert all(type(v) is str for v in types.read_table(start.record.server_properties).values())


@pytest.mark.parametrize(("listener", "requests"), [(OLDER, False), (NEWER, True)])
def test_a_client_of_the_other_day_is_answered_in_its_frames(listener: str, requests: bool) -> None:
    client = Client(listener, requests)
    (start,) = client.served.receive(client.table.header)
    assert (start.carried is not None) == (listener == OLDER)
    client.answer(0, w.ConnectionStartOk(b"", "PLAIN", b"\0guest\0guest", "en_US"), 1)
    client.answer(0, w.ConnectionTuneOk(0, 4096, 0), 2)
    (ok,) = client.say(0, w.ConnectionOpen("/"))
    assert (ok.carried is not None) == requests
    client.say(1, w.ChannelOpen())
    client.say(1, w.QueueDeclare(queue="q"))
    published(client, b"1")
    (said,) = consuming(client)
    assert (said.carried is not None) == requests
    if said.carried is not None:
        client.answer(1, w.MessageOk(), said.carried.identifier)
    else:
        client.say(1, w.ExecutionComplete(3))
    assert unsettled(client) == 0


def test_another_header_is_answered_with_ours() -> None:
    served = Served(NEWER)
    assert served.octets(b"AMQP\0\0\x09\1") == b"AMQP\1\1\0\x0a"
    assert served.adapter.closing


def test_no_large_frame_is_taken_before_the_login() -> None:
    served = Served(NEWER)
    served.octets(b"AMQP\1\1\0\x0a")
    said = served.octets(b"\1\0\0\0\2\0\0")
    assert b"FRAME_ERROR" in said and served.adapter.closing


def test_heartbeats_are_sent_and_a_silent_client_is_given_up() -> None:
    client = Client(NEWER)
    client.served.receive(client.table.header)
    client.answer(0, w.ConnectionStartOk(b"", "PLAIN", b"\0guest\0guest", "en_US"), 1)
    client.answer(0, w.ConnectionTuneOk(0, 4096, 10), 2)
    client.say(0, w.ConnectionOpen("/"))
    adapter = client.served.adapter
    adapter.tick(0.0)
    adapter.tick(1.0)
    assert adapter.tick(7.0) == []
    assert adapter.output() == [client.table.geometry.heartbeat]
    assert isinstance(adapter.tick(30.0)[-1], Closed)


# --- noise ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("other", [False, True])
def test_mutated_recordings(name: str, other: bool) -> None:
    """Nothing is raised, nothing grows, nothing is left behind; also at the other listener."""
    chance = random.Random(f"{name}{other}")
    whole = octets(name, True)
    version = version_of(name)
    if other:
        version = NEWER if version == OLDER else OLDER
    limits = Limits(8192, 100, 0, 20_000)
    for _ in range(40):
        served = Served(version, limits)
        data = mutate(whole, chance)
        size = chance.choice([7, 60, 500, 1 << 20])
        for at in range(0, len(data), size):
            served.octets(data[at : at + size])
            adapter = served.adapter
            if not adapter.closing:
                assert adapter.frames.held <= limits.max_message_octets + (1 << 16) + 8
                assert adapter.announced <= 4 * limits.max_message_octets
        served.lose()

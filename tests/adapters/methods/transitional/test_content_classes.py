"""Streams, files and tunnels of the transitional 0-10, with a broker behind the server."""

import struct
from typing import Any

import pytest

from gateway.adapters.methods.content import BASIC
from gateway.adapters.methods.transitional.contents import CONTENTS
from gateway.adapters.methods.wire import layouts_0_10_07 as w
from gateway.errors import Condition
from gateway.message import Message, Properties
from gateway.operations import DeclareQueue, Deliver, Publish, Returned
from gateway.partial_bodies import PartialBodyStore
from tests.adapters.methods.transitional.serving import Client, Said
from tests.adapters.methods.transitional.test_client import Talk

both = pytest.mark.parametrize("version", ["0-10-07-24", "0-10-07-27"])
FILE, STREAM = CONTENTS[70], CONTENTS[80]
PROPERTIES = Properties(
    content_type="video/mpeg", priority=3, creation_time=1_184_000_000_000,
    application={"title": "grün", "number": 7},
)  # fmt: skip
FILM = b"".join(b"%015d\n" % number for number in range(1000))


def ready(version: str, **options: Any) -> Client:
    """A client with the queue ``q``."""
    client = Client(version, **options).open()
    assert client.say(1, w.QueueDeclare(queue="q"))[0].name == "queue.declare-ok"
    return client


def content(group: int, header: bytes, octets: bytes, size: int = -1) -> bytes:
    """Header and body frames; ``size`` is announced, if it is not that of the octets."""

    def frame(kind: int, payload: bytes) -> bytes:
        return bytes((kind, 0, 1)) + len(payload).to_bytes(4) + payload + b"\xce"

    head = struct.pack(">HHQ", group, 0, len(octets) if size < 0 else size) + header
    return frame(2, head) + (frame(3, octets) if octets else b"")


def stream(client: Client, key: str, octets: bytes, **flags: bool) -> list[Said]:
    start = client.octets(1, w.StreamPublish(routing_key=key, **flags))  # type: ignore[arg-type]
    return client.served.receive(start + content(80, STREAM.write(PROPERTIES), octets))


def staged(client: Client, identifier: str, octets: bytes) -> int:
    """Stage a file; returns how much of it was there."""
    (said,) = client.say(1, w.FileOpen(identifier, len(octets)))
    assert said.name == "file.open-ok"
    assert (said.carried is not None and said.carried.is_response) is client.requests
    have: int = said.record.staged_size
    start = client.octets(1, w.FileStage())
    assert client.served.receive(start + content(70, FILE.write(PROPERTIES), octets[have:])) == []
    return have


def publish(client: Client, identifier: str, key: str = "q", **flags: bool) -> list[Said]:
    record = w.FilePublish(routing_key=key, identifier=identifier, **flags)  # type: ignore[arg-type]
    return client.say(1, record)


def names(said: list[Said]) -> list[str]:
    return [each.name for each in said]


def bodies(said: list[Said]) -> bytes:
    """The octets of the contents among these frames, headers apart."""
    found, headers = b"", 0
    left = 0
    for each in said:
        if each.name != "content":
            continue
        if not left:
            headers += 1
            left = int.from_bytes(each.record[4:12])
        else:
            found += each.record
            left -= len(each.record)
    assert not left and headers
    return found


def taken(client: Client, offered: Said, have: int = 0) -> tuple[Any, bytes]:
    """Take a file that is offered; its delivery and what comes of it."""
    assert offered.name == "file.open"
    request = 0 if offered.carried is None else offered.carried.identifier
    said = client.answer(1, w.FileOpenOk(have), request)
    assert said[0].name == "file.stage" and said[-1].name == "file.deliver"
    assert said[-1].record.identifier == offered.record.identifier
    return said[-1].record, bodies(said)


@both
def test_a_stream(version: str) -> None:
    client = ready(version)
    for octets in (b"packet", FILM):
        assert stream(client, "q", octets) == []
    said = client.say(1, w.StreamConsume(consumer_tag="t", queue="q", exclusive=True))
    assert names(said)[:2] == ["stream.consume-ok", "stream.deliver"]
    assert bodies(said) == b"packet" + FILM
    deliveries = [each.record for each in said if each.name == "stream.deliver"]
    assert [(each.consumer_tag, each.queue) for each in deliveries] == [("t", "q")] * 2
    assert STREAM.read(said[2].record[12:]) == PROPERTIES
    assert names(client.say(1, w.StreamCancel("t"))) == ["stream.cancel-ok"]
    assert client.say(1, w.QueueDeclare(queue="q"))[0].record.message_count == 0
    assert stream(client, "q", b"basic") == []
    got = client.say(1, w.BasicGet(queue="q"))
    assert got[0].name == "basic.get-ok" and bodies(got) == b"basic"
    assert BASIC.read(got[1].record[12:]).application == PROPERTIES.application


@both
def test_what_comes_back(version: str) -> None:
    client = ready(version)
    said = stream(client, "nowhere", b"packet", mandatory=True)
    assert names(said) == ["stream.return", "content", "content"]
    assert said[0].record.reply_code == 312 and bodies(said) == b"packet"
    staged(client, "film", FILM)
    said = publish(client, "film", "q", immediate=True)
    assert said[0].name == "file.return" and said[0].record.reply_code == 313
    assert bodies(said) == FILM


@both
def test_a_rate(version: str) -> None:
    client = ready(version)
    assert names(client.say(1, w.StreamQos(consume_rate=3000))) == ["stream.qos-ok"]
    for _ in range(20):
        stream(client, "q", bytes(1000))
    adapter = client.served.adapter
    adapter.tick(5.0)
    count = names(client.say(1, w.StreamConsume(queue="q", consumer_tag="t"))).count
    assert count("stream.deliver") == 3
    client.served.session.perform(adapter.tick(6.0))
    assert names(client.served.receive(b"")).count("stream.deliver") in (2, 3)


@both
def test_a_file(version: str) -> None:
    client = ready(version)
    for number in range(4):
        assert staged(client, "film", b"%d" % number + FILM) == 0
        assert publish(client, "film") == []
    assert names(client.say(1, w.FileQos(prefetch_count=2))) == ["file.qos-ok"]
    said = client.say(1, w.FileConsume(queue="q", consumer_tag="t"))
    assert names(said) == ["file.consume-ok", "file.open", "file.open"]
    first, octets = taken(client, said[1])
    assert octets == b"0" + FILM
    second, octets = taken(client, said[2], 100)
    assert octets == (b"1" + FILM)[100:]
    offered = client.say(1, w.FileReject(first.delivery_tag, True))
    third, octets = taken(client, offered[0])
    assert octets == b"2" + FILM, "what was rejected is for others"
    offered = client.say(1, w.FileAck(second.delivery_tag))
    fourth, octets = taken(client, offered[0])
    assert octets == b"3" + FILM and fourth.delivery_tag > third.delivery_tag
    assert client.say(1, w.FileAck(fourth.delivery_tag, True)) == []
    assert names(client.say(1, w.FileCancel("t"))) == ["file.cancel-ok"]
    assert client.say(1, w.QueueDeclare(queue="q"))[0].record.message_count == 1
    (close,) = client.say(1, w.FileAck(fourth.delivery_tag))
    assert close.name == "channel.close" and close.record.reply_code == 530


@both
def test_files_are_settled_one_by_one(version: str) -> None:
    """Staged in another order than they were offered among basic messages: an acknowledgement
    of many covers what was delivered, not what is offered."""
    client = ready(version)
    client.say(1, w.QueueDeclare(queue="basic"))
    for _ in range(2):
        staged(client, "film", FILM)
        publish(client, "film")
    offers = client.say(1, w.FileConsume(queue="q", consumer_tag="t"))[1:]
    client.say(1, w.BasicConsume(queue="basic", consumer_tag="b"))
    start = client.octets(1, w.BasicPublish(routing_key="basic"))
    said = client.served.receive(start + content(60, b"\0\0", b"basic"))
    assert said[0].name == "basic.deliver"
    taken(client, offers[0])
    assert client.say(1, w.BasicAck(said[0].record.delivery_tag, True)) == []
    client.served.lose()
    queues = client.served.broker.vhosts["/"].queues
    assert queues["q"].depth == 2 and queues["basic"].depth == 0


@both
def test_a_file_that_was_cut_off(version: str) -> None:
    partials = PartialBodyStore()
    client = ready(version, partials=partials)
    client.say(1, w.FileOpen("film", len(FILM)))
    start = client.octets(1, w.FileStage())
    client.served.receive(start + content(70, FILE.write(PROPERTIES), FILM[:5000], len(FILM)))
    client.served.lose()
    client = ready(version, partials=partials)
    assert staged(client, "film", FILM) == 5000
    publish(client, "film")
    assert bodies(client.say(1, w.BasicGet(queue="q"))) == FILM


@both
def test_a_client_that_waits_for_nothing(version: str) -> None:
    client = ready(version)
    stream(client, "q", b"packet")
    said = client.say(1, w.StreamConsume(queue="q", consumer_tag="t", no_wait=True))
    assert names(said)[0] == "stream.deliver"
    assert client.say(1, w.StreamCancel("t", True)) == []
    said = client.say(1, w.StreamConsume())
    assert names(said) == ["stream.consume-ok"] and said[0].record.consumer_tag
    stream(client, "q", b"packet")


@both
@pytest.mark.parametrize("group", ["file", "stream"])
def test_the_client_role_takes_them(version: str, group: str) -> None:
    """It does not ask for them, and publishes basic messages."""
    talk = Talk(version)
    talk.says(DeclareQueue(1, "t", "q"))
    dialect = FILE if group == "file" else STREAM
    header = dialect.write(PROPERTIES)
    sent = Message(dialect, header, FILM, "", "q", dialect.essentials(header))
    assert talk.tells(Publish(1, sent, False, False)) == []
    consume = w.FileConsume if group == "file" else w.StreamConsume
    talk.client.send_method(1, consume(0, "q", "t", no_wait=True))
    (delivery,) = talk.tells()
    assert isinstance(delivery, Deliver) and delivery.consumer == "t"
    assert delivery.message.dialect is dialect and delivery.message.body == FILM
    assert delivery.message.properties == PROPERTIES
    server = talk.served.adapter
    server.send(Returned(1, sent, Condition.NO_ROUTE, ""))
    talk.client.send_method(1, w.ExecutionFlush())
    heard = talk.tells()
    (returned,) = [each for each in heard if isinstance(each, Returned)]
    assert returned.message.body == FILM and returned.condition is Condition.NO_ROUTE
    assert returned.message.header == header
    assert not talk.client.closing and not server.closing


@both
def test_headers_of_the_definition(version: str) -> None:
    """Values by their numeric codes, which the definition has, beside those by letters."""
    entries = b"\x01a\x02\x07" + b"\x01bS\0\0\0\x01x"
    header = b"\x20\0" + len(entries).to_bytes(4) + entries
    client = ready(version)
    start = client.octets(1, w.StreamPublish(routing_key="q"))
    assert client.served.receive(start + content(80, header, b"packet")) == []
    got = client.say(1, w.BasicGet(queue="q"))
    assert BASIC.read(got[1].record[12:]).application == {"a": 7, "b": "x"}
    wrong = b"\x20\0" + (3).to_bytes(4) + b"\x01a\x21"
    start = client.octets(1, w.StreamPublish(routing_key="q"))
    (close,) = client.served.receive(start + content(80, wrong, b"packet"))
    assert close.name == "connection.close" and close.record.reply_code == 502


@both
def test_a_tunnelled_block(version: str) -> None:
    client = ready(version)
    table = client.table.contents[110]
    for proxy, durable in (("q", 1), ("nobody", 0)):
        properties = table.write(w.TunnelProperties(None, proxy, "frame", durable))
        start = client.octets(1, w.TunnelRequest(meta_data=b"\x01aS\0\0\0\x01x"))
        said = client.served.receive(start + content(110, properties, b"block"))
        assert names(said) == ([] if durable else ["channel.close"])
        if not durable:
            assert said[0].record.reply_code == 404
            client.say(1, w.ChannelCloseOk())
            client.restarted(1).say(1, w.ChannelOpen())
    got = client.say(1, w.BasicGet(queue="q"))
    assert bodies(got) == b"block"
    found = BASIC.read(got[1].record[12:])
    assert found == Properties(
        durable=True, type="frame", application={"x-tunnel-meta-data": {"a": "x"}}
    )

"""Streams and files of 0-8 and 0-9 over sockets: what the broker makes of them, between versions,
and across a kill of the gateway."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gateway.adapters.methods.contents.published import CONTENTS
from gateway.adapters.methods.wire import layouts as w
from gateway.adapters.methods.wire.tables import VERSIONS as TABLES
from gateway.errors import Condition
from gateway.message import Properties
from tests.net.running import Running, until
from tests.net.wire import PERSISTENT, Wire
from tests.talk import body, header

FILE, STREAM = CONTENTS["0-8"][70], CONTENTS["0-8"][80]
VERSIONS = ("0-8", "0-9")
every_version = pytest.mark.parametrize("version", VERSIONS)
PROPERTIES = Properties(
    content_type="video/mpeg", priority=3, creation_time=1_117_411_200_000,
    application={"title": "grün", "number": 7},
)  # fmt: skip
FILM = b"".join(b"%015d\n" % number for number in range(20_000))


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with Running(tmp_path_factory.mktemp("classes")) as running:
        yield running


def contents(octets: bytes, properties: bytes, group: int, size: int = 0) -> bytes:
    """Header and body frames; ``size`` is announced, if it is not that of these octets."""
    found = header(1, size or len(octets), properties, group)
    return found + b"".join(body(1, octets[at : at + 4000]) for at in range(0, len(octets), 4000))


def stream(wire: Wire, key: str, octets: bytes, **flags: bool) -> None:
    wire.say(1, w.StreamPublish(0, "", key, **flags))
    wire.send(contents(octets, STREAM.write(PROPERTIES), 80))


def staged(wire: Wire, identifier: str, octets: bytes) -> int:
    """Stage a file; returns how much of it was there."""
    have = wire.call(1, w.FileOpen(identifier, len(octets)), w.FileOpenOk).staged_size
    wire.say(1, w.FileStage())
    wire.send(contents(octets[have:], FILE.write(PROPERTIES), 70))
    return int(have)


def content(wire: Wire) -> tuple[bytes, bytes]:
    """Properties and body of the next content."""
    _, head = wire.hear()
    size, octets = int.from_bytes(head[4:12]), b""
    while len(octets) < size:
        octets += wire.hear()[1]
    return head[12:], octets


def taken(wire: Wire, have: int = 0) -> tuple[Any, bytes, bytes]:
    """The next file: how it is delivered, its properties and what comes of it."""
    offered = wire.heard(w.FileOpen)
    wire.call(1, w.FileOpenOk(have), w.FileStage)
    properties, octets = content(wire)
    assert len(octets) == offered.content_size - have
    delivery = wire.heard(w.FileDeliver)
    assert delivery.identifier == offered.identifier
    return delivery, properties, octets


def queue(wire: Wire, name: str, **options: Any) -> str:
    wire.call(1, w.QueueDeclare(0, name, **options), w.QueueDeclareOk)
    wire.call(1, w.QueuePurge(0, name), w.QueuePurgeOk)
    return name


@every_version
def test_streams_go_to_all_classes(gateway: Running, version: str) -> None:
    wire = gateway.wire(1, version=version)
    name = queue(wire, f"stream-{version}")
    for octets in (b"", b"packet", FILM):
        stream(wire, name, octets)
    assert wire.call(1, w.StreamConsume(0, name, "t"), w.StreamConsumeOk).consumer_tag == "t"
    for octets in (b"", b"packet", FILM):
        delivery = wire.heard(w.StreamDeliver)
        assert (delivery.consumer_tag, delivery.exchange, delivery.queue) == ("t", "", name)
        properties, got = content(wire)
        assert got == octets and STREAM.read(properties) == PROPERTIES
    wire.call(1, w.StreamCancel("t"), w.StreamCancelOk)
    assert wire.call(1, w.QueueDeclare(0, name), w.QueueDeclareOk).message_count == 0
    stream(wire, name, b"to basic")
    stream(wire, name, b"to file")
    for other in ("0-9-1", "0-9" if version == "0-8" else "0-8"):
        reader = gateway.wire(1, version=other)
        if other == "0-9-1":
            assert reader.got(name) == b"to basic"
            continue
        reader.call(1, w.FileConsume(0, name, "f", no_ack=True), w.FileConsumeOk)
        _, properties, got = taken(reader)
        assert got == b"to file" and FILE.read(properties) == PROPERTIES


@every_version
def test_a_stream_that_is_returned(gateway: Running, version: str) -> None:
    wire = gateway.wire(1, version=version)
    name = queue(wire, f"alone-{version}")
    codes = TABLES[version].codes
    for key, mandatory, condition in (
        ("nowhere", True, Condition.NO_ROUTE),
        (name, False, Condition.NO_CONSUMERS),
    ):
        stream(wire, key, b"packet", mandatory=mandatory, immediate=not mandatory)
        returned = wire.heard(w.StreamReturn)
        assert returned.routing_key == key
        assert returned.reply_code == codes[condition.value][0]
        properties, octets = content(wire)
        assert octets == b"packet" and STREAM.read(properties) == PROPERTIES


@every_version
def test_no_local_and_exclusive(gateway: Running, version: str) -> None:
    wire, other = gateway.wire(1, version=version), gateway.wire(1, version=version)
    name = queue(wire, f"mine-{version}")
    wire.call(1, w.StreamConsume(0, name, "t", True, True), w.StreamConsumeOk)
    stream(wire, name, b"my own")
    stream(other, name, b"another's")
    wire.heard(w.StreamDeliver)
    assert content(wire)[1] == b"another's"
    other.say(1, w.StreamConsume(0, name, "t"))
    assert other.heard(w.ChannelClose).reply_code == 403
    wire.call(1, w.QueueDelete(0, name), w.QueueDeleteOk)


@every_version
def test_a_stream_without_a_queue_is_that_of_the_last_one(gateway: Running, version: str) -> None:
    wire = gateway.wire(1, version=version)
    name = wire.call(1, w.QueueDeclare(0, "", exclusive=True), w.QueueDeclareOk).queue
    wire.call(1, w.StreamConsume(0, "", "t"), w.StreamConsumeOk)
    stream(wire, name, b"1")
    assert wire.heard(w.StreamDeliver).queue == name
    content(wire)
    none = gateway.wire(1, version=version)
    none.say(1, w.StreamConsume(0, "", "t"))
    assert none.heard(w.ConnectionClose).reply_code == 530


@every_version
def test_a_rate_holds_a_stream_back(gateway: Running, version: str) -> None:
    """About as much as a second allows comes at once, and more with time."""
    wire = gateway.wire(1, version=version)
    name = queue(wire, f"slow-{version}")
    for number in range(20):
        stream(wire, name, b"%d" % number + bytes(1000))
    wire.call(1, w.StreamQos(consume_rate=3000), w.StreamQosOk)
    wire.call(1, w.StreamConsume(0, name, "t"), w.StreamConsumeOk)
    counter = gateway.wire(1)
    wire.heard(w.StreamDeliver)
    content(wire)
    left = counter.call(1, w.QueueDeclare(0, name, passive=True), w.QueueDeclareOk)
    assert left.message_count >= 14
    for _ in range(5):
        wire.heard(w.StreamDeliver)
        content(wire)
    wire.say(1, w.StreamQos())
    answers: list[type[Any]] = []
    while len(answers) < 15:  # one of them is the answer to stream.qos
        _, record = wire.hear()
        answers.append(type(record))
        if isinstance(record, w.StreamDeliver):
            content(wire)
    assert answers.count(w.StreamQosOk) == 1
    wire.call(1, w.QueueDelete(0, name), w.QueueDeleteOk)


@every_version
def test_files_are_acknowledged_and_rejected(gateway: Running, version: str) -> None:
    wire = gateway.wire(1, version=version)
    name = queue(wire, f"films-{version}", durable=True)
    wire.call(1, w.FileQos(0, 1), w.FileQosOk)
    for number in range(4):
        staged(wire, f"film {number}", b"%d" % number + FILM)
        wire.say(1, w.FilePublish(0, "", name, identifier=f"film {number}"))
    wire.call(1, w.FileConsume(0, name, "t"), w.FileConsumeOk)
    for number in range(4):
        delivery, properties, octets = taken(wire)
        assert octets == b"%d" % number + FILM and FILE.read(properties) == PROPERTIES
        assert (delivery.consumer_tag, delivery.routing_key) == ("t", name)
        assert not delivery.redelivered
        tag = delivery.delivery_tag
        wire.say(1, w.FileAck(tag, number == 3) if number else w.FileReject(tag, True))
    wire.call(1, w.FileCancel("t"), w.FileCancelOk)
    other = gateway.wire(1, version=version)
    other.call(1, w.FileConsume(0, name, "t"), w.FileConsumeOk)
    delivery, _, octets = taken(other)
    assert octets == b"0" + FILM and delivery.redelivered, "what was rejected is for others"
    other.say(1, w.FileReject(delivery.delivery_tag))
    other.call(1, w.FileCancel("t"), w.FileCancelOk)
    assert other.call(1, w.QueueDeclare(0, name, durable=True), w.QueueDeclareOk) == (
        w.QueueDeclareOk(name, 0, 0)
    )
    wire.say(1, w.FileAck(99))
    code = TABLES[version].codes[Condition.PRECONDITION_FAILED.value][0]
    assert wire.heard(w.ChannelClose).reply_code == code


@every_version
def test_a_file_that_is_returned(gateway: Running, version: str) -> None:
    wire = gateway.wire(1, version=version)
    staged(wire, "film", FILM)
    wire.say(1, w.FilePublish(0, "", "nowhere", True, identifier="film"))
    wire.heard(w.FileReturn)
    properties, octets = content(wire)
    assert octets == FILM and FILE.read(properties) == PROPERTIES


@every_version
def test_a_file_in_a_transaction(gateway: Running, version: str) -> None:
    wire = gateway.wire(1, version=version)
    name = queue(wire, f"tx-{version}")
    wire.call(1, w.TxSelect(), w.TxSelectOk)
    for end, ok in ((w.TxRollback(), w.TxRollbackOk), (w.TxCommit(), w.TxCommitOk)):
        staged(wire, "film", FILM)
        wire.say(1, w.FilePublish(0, "", name, identifier="film"))
        wire.call(1, end, ok)
    assert gateway.wire(1).got(name) == FILM
    assert gateway.wire(1).got(name) is None


@every_version
def test_confirms_count_all_classes(gateway: Running, version: str) -> None:
    wire = gateway.wire(1, version=version)
    name = queue(wire, f"confirmed-{version}")
    wire.call(1, w.ConfirmSelect(), w.ConfirmSelectOk)
    for number in (1, 4):
        stream(wire, name, b"packet")
        assert wire.heard(w.BasicAck) == w.BasicAck(number)
        wire.publish(name, b"basic")
        assert wire.heard(w.BasicAck) == w.BasicAck(number + 1)
        staged(wire, "film", FILM)
        wire.say(1, w.FilePublish(0, "", name, identifier="film"))
        assert wire.heard(w.BasicAck) == w.BasicAck(number + 2)


@every_version
def test_a_file_goes_on_after_a_kill(tmp_path: Path, version: str) -> None:
    """In: the rest is staged. Out: a reader continues, as the file keeps its identifier."""
    with Running(tmp_path) as gateway:
        wire = gateway.wire(1, version=version)
        wire.declare("films", durable=True)
        wire.call(1, w.FileOpen("film", len(FILM)), w.FileOpenOk)
        wire.say(1, w.FileStage())
        wire.send(contents(FILM[:200_000], FILE.write(PROPERTIES), 70, len(FILM)))
        folder = gateway.data / "staged"

        def there() -> bool:
            sizes = [f.stat().st_size for f in folder.glob("*.part")] if folder.is_dir() else []
            return bool(sizes) and sizes[0] > 150_000

        until(there, "most of it is in a file")
        gateway.kill()
        gateway.start()
        wire = gateway.wire(1, version=version)
        assert staged(wire, "film", FILM) > 150_000
        wire.say(1, w.FilePublish(0, "", "films", identifier="film"))
        wire.call(1, w.ConfirmSelect(), w.ConfirmSelectOk)
        wire.publish("films", b"", PERSISTENT)
        wire.heard(w.BasicAck)
        wire.call(1, w.FileQos(0, 1), w.FileQosOk)
        wire.call(1, w.FileConsume(0, "films", "t"), w.FileConsumeOk)
        offered = wire.heard(w.FileOpen)
        gateway.kill()
        gateway.start()
        wire = gateway.wire(1, version=version)
        wire.call(1, w.FileQos(0, 1), w.FileQosOk)
        wire.call(1, w.FileConsume(0, "films", "t"), w.FileConsumeOk)
        delivery, _, octets = taken(wire, 123_456)
        assert delivery.identifier == offered.identifier and octets == FILM[123_456:]

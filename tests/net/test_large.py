"""Messages larger than anybody wants to hold in memory, through a running gateway.

The ones that stream have 256 MiB, or what ``LARGE_MIB`` says (1024 is what they are made for).
"""

import hashlib
import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from gateway.adapters.methods import types as fields
from gateway.adapters.methods.content import BASIC
from gateway.adapters.methods.wire import layouts as w
from gateway.message import Message, Properties
from gateway.operations import Deliver, Publish, Subscribe
from tests.needs import package
from tests.net import streams
from tests.net.peer import Peer
from tests.net.preloaded import ROOT
from tests.net.running import Running, environment, until
from tests.net.wire import HEARTBEAT, PERSISTENT, PIECE
from tests.talk import body as body_frame
from tests.talk import header, method

MIB = 1 << 20
STREAMED = int(os.environ.get("LARGE_MIB", "256")) * MIB
ABOVE_IDLE = 64 * MIB
LARGE = b"0123456789abcdef" * (3 * MIB // 16) + b"the end"

DRAFTS = ("0-9a0", "0-9a6")
TRANSITIONAL = ("0-10-07-24", "0-10-07-27")

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
pytestmark = [pytest.mark.timeout(600), linux]


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("large")
    settings = {
        "amqp__max_message_octets": 2 << 30,
        "http__max_body_octets": 64 * MIB,
        "limits__spool_octets": max(4 * STREAMED, 64 * MIB),
        "amqp__listeners": json.dumps(
            [{"port": 0, "header_0_9": draft} for draft in DRAFTS]
            + [{"port": 0, "header_0_10": revision} for revision in TRANSITIONAL]
        ),
    }
    with Running(folder, **settings) as running:
        yield running


def spooled(gateway: Running) -> int:
    """Files without a name that the process has open in its spool, and named ones."""
    count = 0
    for each in Path(f"/proc/{gateway.process.pid}/fd").iterdir():
        try:
            count += str(each.readlink()).startswith(str(gateway.data / "spool"))
        except FileNotFoundError:
            continue
    return count


def kept(gateway: Running) -> int:
    """Files of the store."""
    large = gateway.data / "large"
    return len(list(large.iterdir())) if large.is_dir() else 0


def run(gateway: Running, role: str, address: str, octets: int, *more: str) -> dict[str, Any]:
    """A client as a program of its own; returns its report."""
    if role.startswith("proton"):
        package("python-qpid-proton", "proton")
    command = [sys.executable, "-m", "tests.net.streams", role, str(gateway.port), address]
    done = subprocess.run(
        [*command, str(octets), *more],
        cwd=ROOT,
        env=environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    told: dict[str, Any] = json.loads(done.stdout)
    return told


@contextmanager
def watched(gateway: Running) -> Iterator[list[int]]:
    """Memory above the present use, sampled; the last entry is the highest."""
    idle, found, over = gateway.memory, [0], threading.Event()

    def sample() -> None:
        while not over.wait(0.02):
            found[0] = max(found[0], gateway.memory - idle)

    thread = threading.Thread(target=sample)
    thread.start()
    try:
        yield found
    finally:
        over.set()
        thread.join()


def start_of(key: str, octets: int, properties: bytes = PERSISTENT, channel: int = 1) -> bytes:
    """Method and header of a publish whose body is still to come."""
    record = w.BasicPublish(routing_key=key)
    return method("0-9-1", channel, record) + header(channel, octets, properties)


# --- streaming ----------------------------------------------------------------------------------


@pytest.mark.interop
@pytest.mark.slow
@pytest.mark.parametrize(
    ("sender", "taker", "more"),
    [
        ("proton-send", "pika-take", []),
        ("pika-send", "proton-take", []),
        ("proton-send", "pika-take", ["durable"]),
    ],
    ids=["1.0-0.9.1", "0.9.1-1.0", "durable"],
)
def test_it_streams_through(gateway: Running, sender: str, taker: str, more: list[str]) -> None:
    """Clients with a heartbeat of seconds, and a gateway whose memory does not notice."""
    package("python-qpid-proton", "proton")  # before anything is sent that nobody would take
    names = {"proton": "/queues/streamed", "pika": "streamed"}
    gateway.wire(1).declare("streamed", durable=True)
    with watched(gateway) as above:
        told = run(gateway, sender, names[sender.partition("-")[0]], STREAMED, *more)
        assert told == {"accepted": True}
        assert (kept(gateway) == 1) == bool(more)
        told = run(gateway, taker, names[taker.partition("-")[0]], STREAMED)
    assert told["octets"] == STREAMED
    assert told["sha256"] == streams.digest(STREAMED)
    assert above[0] < ABOVE_IDLE
    until(lambda: not spooled(gateway) and not kept(gateway), "no file is left")


def test_two_readers_share_one_file(gateway: Running) -> None:
    wire = gateway.wire(1)
    readers = [gateway.wire(1), gateway.wire(1)]
    for number, reader in enumerate(readers):
        reader.declare(f"copy-{number}", exclusive=True)
        bound = w.QueueBind(queue=f"copy-{number}", exchange="amq.fanout")
        reader.call(1, bound, w.QueueBindOk)
    wire.publish("", LARGE, exchange="amq.fanout")
    until(lambda: readers[0].depth("copy-0") == readers[1].depth("copy-1") == 1, "they arrive")
    assert spooled(gateway) == 1
    for number, reader in enumerate(readers):
        reader.consume(f"copy-{number}", no_ack=True)
        assert reader.delivered()[1] == LARGE
    until(lambda: not spooled(gateway), "no file is left")


def test_a_slow_reader_delays_no_other(gateway: Running) -> None:
    """It takes nothing: what it is to get stays in the file, and others go on, those of its own
    connection included."""
    slow = gateway.wire(1, 2, receive_buffer=1 << 16)
    slow.declare("slow")
    body = LARGE * 8
    with watched(gateway) as above:
        slow.publish("slow", body)
        until(lambda: slow.depth("slow") == 1, "it is there")
        slow.say(1, w.BasicConsume(queue="slow", no_ack=True))
        time.sleep(0.5)
        other = gateway.wire(1)
        other.declare("quick", exclusive=True)
        other.publish("quick", b"quick")
        assert other.got("quick") == b"quick"
    assert above[0] < ABOVE_IDLE
    slow.heard(w.BasicConsumeOk)
    slow.heard(w.BasicDeliver)
    slow.hear()
    taken = slow.hear()[1]
    slow.say(2, w.QueueDeclare(queue="slow", passive=True))
    before = None
    while len(taken) < len(body):
        channel, told = slow.hear()
        if channel == 2:
            assert type(told) is w.QueueDeclareOk
            before = len(taken)
        else:
            taken += told
    assert taken == body
    assert before is not None, "frames of another channel go between those of the body"
    slow.say(1, w.QueueDelete(queue="slow"))
    slow.heard(w.QueueDeleteOk)
    until(lambda: not spooled(gateway), "no file is left")


def test_messages_behind_a_large_one_keep_their_order(gateway: Running) -> None:
    wire = gateway.wire(1)
    wire.declare("order", exclusive=True)
    bodies = [b"first", LARGE, b"second", LARGE[:-3], b"", b"last"]
    for one in bodies:
        wire.publish("order", one)
    wire.consume("order", no_ack=True)
    for one in bodies:
        assert wire.delivered()[1] == one
    for one in bodies:
        wire.publish("order", one)
    for one in bodies:
        assert wire.delivered()[1] == one
    until(lambda: not spooled(gateway), "no file is left")


# --- the oldest versions --------------------------------------------------------------------------


def peer_of(gateway: Running, version: str, **options: Any) -> Peer:
    """A client of an old version, with channel 1 open."""
    port = gateway.port
    if version in DRAFTS + TRANSITIONAL:
        found = re.search(rf"AMQP on \S+:(\d+), where .* is {version}\n", gateway.log())
        assert found is not None
        port = int(found[1])
    return Peer(port, version, "large", **options)


def to_queue(key: str, octets: bytes) -> Publish:
    header = BASIC.write(Properties(content_type="text/plain"))
    message = Message(BASIC, header, octets, "", key, BASIC.essentials(header))
    return Publish(1, message, False, False)


@pytest.mark.parametrize(
    ("version", "options"),
    [
        *((version, {}) for version in ("0.8a2", *DRAFTS, *TRANSITIONAL)),
        *((version, {"class_message": True}) for version in TRANSITIONAL),
    ],
)
def test_old_versions_have_them_in_files_too(
    gateway: Running, version: str, options: dict[str, Any]
) -> None:
    """In, cut off, and out."""
    wire = gateway.wire(1)
    wire.declare("old", durable=True)
    peer = peer_of(gateway, version, **options)
    peer.adapter.send(to_queue("old", LARGE))
    peer.flush(len(LARGE) // 2)
    until(lambda: spooled(gateway) == 1, "it is coming in")
    peer.flush()
    until(lambda: wire.depth("old") == 1, "it is there")
    assert spooled(gateway) == 1
    assert wire.got("old") == LARGE
    until(lambda: not spooled(gateway), "it is gone")
    peer.adapter.send(to_queue("old", LARGE))
    peer.flush(len(LARGE) // 2)
    until(lambda: spooled(gateway) == 1, "it is coming in")
    peer.reset()
    until(lambda: not spooled(gateway), "the socket is gone")
    assert wire.depth("old") == 0
    peer = peer_of(gateway, version, **options)
    wire.publish("old", LARGE)
    wire.publish("old", b"behind it")
    peer.ask(Subscribe(1, "t", "old", "reader", no_ack=True))
    assert [peer.next(Deliver).message.body[:] for _ in range(2)] == [LARGE, b"behind it"]
    until(lambda: not spooled(gateway), "no file is left")
    wire.say(1, w.QueueDelete(queue="old"))
    wire.heard(w.QueueDeleteOk)
    peer.reset()


# --- truncated bodies ---------------------------------------------------------------------------


@pytest.mark.interop
def test_lost_and_aborted_in_the_middle(gateway: Running) -> None:
    """Nothing is published, and no file is left."""
    wire = gateway.wire(1)
    wire.declare("cut")
    half = start_of("cut", len(LARGE)) + body_frame(1, LARGE[:PIECE]) * 2
    lost = gateway.wire(1)
    lost.send(half)
    until(lambda: spooled(gateway) == 1, "the first frames are there")
    lost.reset()
    until(lambda: not spooled(gateway), "the socket is gone")
    closed = gateway.wire(1)
    closed.send(half + HEARTBEAT)
    until(lambda: spooled(gateway) == 1, "the first frames are there")
    closed.send(method("0-9-1", 0, w.ConnectionClose(200, "bye", 0, 0)))
    closed.heard(w.ConnectionCloseOk)
    until(lambda: not spooled(gateway), "the connection is closed")
    told = run(gateway, "proton-abort", "/queues/cut", 8 * MIB)
    assert told == {"aborted": True}
    until(lambda: not spooled(gateway), "the delivery is aborted")
    assert wire.depth("cut") == 0
    wire.say(1, w.QueueDelete(queue="cut"))


def test_a_reader_that_is_lost_in_the_middle(gateway: Running) -> None:
    wire = gateway.wire(1)
    wire.declare("again")
    wire.publish("again", LARGE * 4)
    reader = gateway.wire(1, receive_buffer=1 << 16)
    reader.consume("again")
    reader.heard(w.BasicDeliver)
    reader.hear()
    assert reader.hear()[1] == LARGE[:PIECE]
    reader.reset()
    until(lambda: wire.depth("again") == 1, "it went back")
    wire.consume("again", no_ack=True)
    record, octets = wire.delivered()
    assert record.redelivered
    assert octets == LARGE * 4
    wire.say(1, w.QueueDelete(queue="again"))
    until(lambda: not spooled(gateway), "no file is left")


# --- large bodies in the broker -----------------------------------------------------------------


def test_dead_letters_and_transactions(gateway: Running) -> None:
    wire = gateway.wire(1, 2)
    wire.declare("grave", durable=True)
    arguments = fields.write_table(
        {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "grave"}
    )
    wire.declare("ill", durable=True, arguments=arguments)
    wire.call(2, w.TxSelect(), w.TxSelectOk)
    wire.send(wire.message("ill", LARGE, PERSISTENT, channel=2))
    wire.call(2, w.TxRollback(), w.TxRollbackOk)
    until(lambda: not spooled(gateway), "it is rolled back")
    wire.send(wire.message("ill", LARGE, PERSISTENT, channel=2))
    wire.call(2, w.TxCommit(), w.TxCommitOk)
    assert kept(gateway) == 1
    wire.consume("ill")
    record, octets = wire.delivered()
    assert octets == LARGE
    wire.say(1, w.BasicReject(record.delivery_tag, False))
    until(lambda: wire.depth("grave") == 1, "it is dead")
    until(lambda: kept(gateway) == 1, "one file")
    assert wire.got("grave") == LARGE
    until(lambda: not spooled(gateway) and not kept(gateway), "no file is left")
    for name in ("ill", "grave"):
        wire.say(1, w.QueueDelete(queue=name))
        wire.heard_among(w.QueueDeleteOk)


def test_over_http(gateway: Running) -> None:
    """In as a body of a request, out to a reader of 0-9-1; and the other way, raw and as JSON."""
    wire = gateway.wire(1)
    wire.declare("web")
    with httpx.Client(
        base_url=f"http://127.0.0.1:{gateway.http_port}", auth=("guest", "guest"), timeout=60
    ) as web:
        with watched(gateway) as above:
            sent = web.post("/v1/%2F/queues/web/messages", content=LARGE * 4)
            assert sent.status_code == 201, sent.text
            assert spooled(gateway) == 1
            assert wire.got("web") == LARGE * 4
            wire.publish("web", LARGE * 4)
            until(lambda: wire.depth("web") == 1, "it is there")
            path = "/v1/%2F/queues/web/deliveries?mode=auto"
            found = web.post(path, headers={"accept": "application/octet-stream"})
        assert found.status_code == 200, found.text[:500]
        assert hashlib.sha256(found.content).digest() == hashlib.sha256(LARGE * 4).digest()
        assert above[0] < ABOVE_IDLE
    wire.say(1, w.QueueDelete(queue="web"))
    until(lambda: not spooled(gateway), "no file is left")


# --- the disk -----------------------------------------------------------------------------------


def test_durable_ones_survive(tmp_path: Path) -> None:
    """``kill -9`` with one half sent and one half delivered: what was confirmed is there, the rest
    has left no file."""
    with Running(tmp_path) as gateway:
        wire = gateway.wire(1)
        wire.declare("safe", durable=True)
        wire.call(1, w.ConfirmSelect(), w.ConfirmSelectOk)
        for octets in (LARGE, LARGE[::-1]):
            wire.publish("safe", octets, PERSISTENT)
            wire.heard(w.BasicAck)
        assert kept(gateway) == 2
        wire.send(start_of("safe", len(LARGE)) + body_frame(1, LARGE[:PIECE]) * 2)
        reader = gateway.wire(1, receive_buffer=1 << 16)
        reader.consume("safe", prefetch=1)
        reader.heard(w.BasicDeliver)
        until(lambda: spooled(gateway) >= 1, "a third is coming in")
        gateway.kill()
        (gateway.data / "large" / "77").write_bytes(b"of a commit that never was")
        gateway.start()
        assert kept(gateway) == 2
        wire = gateway.wire(1)
        assert wire.depth("safe") == 2
        wire.consume("safe")
        record, octets = wire.delivered()
        assert octets == LARGE
        record, octets = wire.delivered()
        assert octets == LARGE[::-1]
        wire.say(1, w.BasicAck(record.delivery_tag, True))
        until(lambda: not kept(gateway), "they are settled")
        assert not list((gateway.data / "spool").iterdir())
        gateway.kill()
        gateway.start()
        assert gateway.wire(1).depth("safe") == 0


@pytest.mark.interop
def test_no_room(tmp_path: Path) -> None:
    """The channel is lost (311), or the delivery rejected; the connection and others go on."""
    with Running(tmp_path, limits__spool_octets=4 * MIB) as gateway:
        wire = gateway.wire(1, 2)
        wire.declare("full")
        wire.publish("full", LARGE)
        until(lambda: wire.depth("full") == 1, "the first has room")
        wire.send(wire.message("full", LARGE, channel=2))
        closed = wire.heard(w.ChannelClose)
        assert closed.reply_code == 311
        told = run(gateway, "proton-send", "/queues/full", 3 * MIB)
        assert told == {"rejected": "amqp:resource-limit-exceeded"}
        sent = httpx.post(
            f"http://127.0.0.1:{gateway.http_port}/v1/%2F/queues/full/messages",
            content=LARGE,
            auth=("guest", "guest"),
        )
        assert sent.status_code == 503, sent.text
        assert wire.depth("full") == 1
        assert wire.got("full") == LARGE
        wire.publish("full", LARGE)
        assert until(lambda: wire.got("full"), "there is room again") == LARGE


def test_paged_out(tmp_path: Path) -> None:
    """Transient ones stay in their files, in order, among others that go to the store."""
    with Running(tmp_path, limits__memory_page=0.000001) as gateway:
        wire = gateway.wire(1)
        wire.declare("paged")
        numbers = range(3000)
        for number in numbers:
            if number % 1000 == 999:
                wire.publish("paged", b"%d" % number + LARGE)
            else:
                wire.publish("paged", b"%d" % number)
        until(lambda: wire.depth("paged") == len(numbers), "they are there")
        assert spooled(gateway) == 3
        for number, octets in zip(numbers, wire.everything("paged"), strict=True):
            assert octets == b"%d" % number + (LARGE if number % 1000 == 999 else b"")
        until(lambda: not spooled(gateway), "no file is left")


def test_one_that_cannot_be_finished_is_no_hang(gateway: Running) -> None:
    """Too large for the limit: refused at its header, and its body is dropped."""
    wire = gateway.wire(1)
    wire.declare("limit", exclusive=True)
    wire.send(start_of("limit", (2 << 30) + 1) + body_frame(1, LARGE[:PIECE]))
    assert wire.heard(w.ChannelClose).reply_code == 311
    wire.say(1, w.ChannelCloseOk())
    wire.call(1, w.ChannelOpen(), w.ChannelOpenOk)
    assert not spooled(gateway)

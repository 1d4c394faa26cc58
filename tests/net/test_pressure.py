"""Peers that do not read, publishers that are too fast, and their notifications."""

import contextlib
import re
import socket
import sqlite3
import threading
import time
from pathlib import Path

import httpx
import psutil
import pytest

from gateway.adapters.methods.wire import layouts as w
from gateway.net.hang_up import LINGER_SECONDS
from tests.net.running import PATIENCE, Running, until
from tests.net.test_greeting import Certificate
from tests.net.wire import HEARTBEAT, PERSISTENT, Gone, Wire
from tests.talk import method

MIB = 1 << 20


class Pump(threading.Thread):
    """Publishes without end; ``sent`` counts messages that the socket took."""

    def __init__(self, wire: Wire, message: bytes) -> None:
        super().__init__(daemon=True)
        self.wire = wire
        self.message = message
        self.sent = 0
        self.stopping = False
        wire.socket.settimeout(0.2)

    def run(self) -> None:
        view = memoryview(self.message)
        at = 0
        with contextlib.suppress(OSError):
            while not self.stopping or at:
                try:
                    at += self.wire.socket.send(view[at:])
                except TimeoutError:
                    continue
                if at == len(view):
                    at = 0
                    self.sent += 1

    def stands_still(self) -> bool:
        """Nothing was taken for a while."""
        before = self.sent
        time.sleep(0.5)
        return self.sent == before

    def end(self) -> None:
        self.stopping = True
        self.join(PATIENCE)
        assert not self.is_alive()


# --- peers that do not read -----------------------------------------------------------------------


def test_deliveries_wait_for_a_peer_that_does_not_read(gateway: Running) -> None:
    """It holds up neither the memory nor anybody else, and gets everything once it reads."""
    publisher = gateway.wire(1)
    deaf = gateway.wire(1, receive_buffer=65536)
    deaf.declare("deaf")
    tag = deaf.consume("deaf", no_ack=True)
    assert tag
    before = gateway.memory
    for number in range(300):
        publisher.publish("deaf", b"%06d" % number + bytes(100_000))
    depth = publisher.depth("deaf")
    assert depth > 200, "more than its socket holds was sent to it"
    assert gateway.memory - before < 80 * MIB
    # Others are served meanwhile.
    other = gateway.wire(1)
    other.declare("other")
    other.publish("other", b"hello")
    assert other.got("other") == b"hello"
    for number in range(300):
        assert int(deaf.delivered()[1][:6]) == number
    deaf.ended()
    publisher.call(1, w.QueueDelete(queue="deaf"), w.QueueDeleteOk)


def test_a_backlog_is_not_poured_into_a_peer_that_does_not_read(gateway: Running) -> None:
    """All of it waits already when the consumer comes, and there is no prefetch limit."""
    publisher = gateway.wire(1)
    publisher.declare("backlog")
    for number in range(400):
        publisher.publish("backlog", b"%06d" % number + bytes(100_000))
    assert publisher.depth("backlog") == 400
    before = gateway.memory
    deaf = gateway.wire(1, receive_buffer=65536)
    deaf.consume("backlog", no_ack=True)
    assert publisher.depth("backlog") > 300
    assert gateway.memory - before < 30 * MIB
    for number in range(400):
        assert int(deaf.delivered()[1][:6]) == number
    deaf.ended()
    publisher.call(1, w.QueueDelete(queue="backlog"), w.QueueDeleteOk)


def test_unread_messages_of_the_dead_are_given_back(gateway: Running) -> None:
    publisher = gateway.wire(1)
    publisher.declare("back")
    deaf = gateway.wire(1, receive_buffer=65536)
    deaf.consume("back")
    for number in range(100):
        publisher.publish("back", b"%06d" % number + bytes(100_000))
    assert publisher.depth("back") > 0
    deaf.reset()
    until(lambda: publisher.depth("back") == 100, "messages back in their queue")
    publisher.consume("back", no_ack=True)
    assert [int(publisher.delivered()[1][:6]) for _ in range(100)] == list(range(100))
    publisher.ended()


@pytest.mark.parametrize("ask", ["get", "return", "declare"])
def test_answers_do_not_pile_up(gateway: Running, ask: str) -> None:
    """Who asks and asks and never reads is not read from any more."""
    wire = gateway.wire(1, receive_buffer=65536)
    wire.declare("asked")
    if ask == "get":
        wire.publish("asked", bytes(5_000))
        until(lambda: wire.depth("asked") == 1, "published")
        # Fetched again and again: each is given back before the next.
        request = method("0-9-1", 1, w.BasicGet(queue="asked"))
        request += method("0-9-1", 1, w.BasicRecover(True))
    elif ask == "return":
        request = wire.message("nowhere", bytes(100_000), mandatory=True)
    else:
        request = method("0-9-1", 1, w.QueueDeclare(queue="asked", passive=True))
    request *= max(1, 20_000 // len(request))
    before = gateway.memory
    pump = Pump(wire, request)
    pump.start()
    until(lambda: pump.sent > 10 and pump.stands_still(), "not read from any more", 2 * PATIENCE)
    assert gateway.memory - before < 100 * MIB
    # It gets all its answers when it reads at last.
    ending = threading.Thread(target=goodbye, args=(pump, wire))
    ending.start()
    heard = 0
    wire.socket.settimeout(PATIENCE)
    while type(wire.hear()[1]) is not w.ConnectionCloseOk:
        heard += 1
    ending.join()
    assert heard > pump.sent
    wire.reset()
    other = gateway.wire(1)
    other.call(1, w.QueueDelete(queue="asked"), w.QueueDeleteOk)
    other.ended()


def goodbye(pump: Pump, wire: Wire) -> None:
    """The last request, when the pump has sent the message it had begun."""
    pump.end()
    wire.say(0, w.ConnectionClose(200, "bye", 0, 0))


def test_a_peer_that_neither_reads_nor_goes(tmp_path: Path) -> None:
    """Closed for its mistake, it cannot keep its socket by not reading."""
    with Running(tmp_path) as gateway:
        watcher = gateway.wire(1)
        watcher.declare("much")
        for _ in range(50):
            watcher.publish("much", bytes(100_000))
        deaf = gateway.wire(1, receive_buffer=65536)
        deaf.consume("much")
        until(lambda: watcher.depth("much") < 50, "deliveries")
        deaf.send(b"\x07 this is no frame")
        until(lambda: watcher.depth("much") == 50, "given back")
        until(lambda: sockets(gateway) == 1, "its socket is closed")


def sockets(gateway: Running) -> int:
    """AMQP connections that the process has open."""
    return sum(
        found.status == "ESTABLISHED" or found.status.startswith(("FIN_WAIT", "CLOSE_WAIT"))
        for found in psutil.Process(gateway.process.pid).net_connections("tcp")
        if found.laddr.port == gateway.port
    )


# --- publishers that are too fast -----------------------------------------------------------------


@pytest.mark.slow
def test_a_slow_store_holds_publishers_back(tmp_path: Path) -> None:
    """The store cannot write for a while: reading stops, and everything is there in the end."""
    limit = 8 * MIB
    with Running(tmp_path, limits__store_backlog_octets=limit) as gateway:
        wire = gateway.wire(1)
        wire.declare("flood", durable=True)
        before = gateway.memory
        hold = Lock(gateway)
        pump = Pump(wire, wire.message("flood", bytes(50_000), PERSISTENT))
        pump.start()
        enough = limit // 2 // 50_000
        until(lambda: pump.sent > enough and pump.stands_still(), "not read from any more")
        held = pump.sent * 50_000
        assert gateway.memory - before < 10 * limit
        # Others are served: transient messages need no store.
        other = gateway.wire(1)
        hold.end()
        until(lambda: pump.sent * 50_000 > held + 2 * limit, "read from again")
        pump.end()
        wire.socket.settimeout(30)
        assert wire.depth("flood") == pump.sent
        assert gateway.memory - before < 10 * limit + pump.sent * 50_000
        other.ended()


class Lock:
    """Another process's write transaction on the database: the gateway cannot commit."""

    def __init__(self, gateway: Running) -> None:
        self.connection = sqlite3.connect(gateway.data / "gateway.db", isolation_level=None)
        self.connection.execute("begin immediate")

    def end(self) -> None:
        self.connection.execute("rollback")
        self.connection.close()


def test_an_alarm_blocks_publishers_only(tmp_path: Path) -> None:
    """No disk is that large: the alarm is up from the first second."""
    with Running(tmp_path, limits__disk_free_octets=1 << 60) as gateway:
        consumer = gateway.wire(1)
        consumer.declare("alarm")
        publisher = gateway.wire(1)
        publisher.publish("alarm", b"the first")
        for wire in (consumer, publisher):
            assert "disk" in wire.heard_among(w.ConnectionBlocked).reason
        late = gateway.wire()
        assert "disk" in late.heard(w.ConnectionBlocked).reason
        assert consumer.got("alarm") == b"the first"
        pump = Pump(publisher, publisher.message("alarm", bytes(10_000)))
        pump.start()
        until(lambda: pump.sent and pump.stands_still(), "not read from any more")
        depth = consumer.depth("alarm")
        assert depth <= 30, "reading went on"
        # Who has not published is served.
        for _ in range(depth):
            assert consumer.got("alarm") is not None
        assert (
            httpx.get(f"http://127.0.0.1:{gateway.http_port}/healthz", timeout=60).status_code < 600
        )
        # Stopping does not wait for those that are not read from: their answer is heard.
        stopping = threading.Thread(target=gateway.stop)
        stopping.start()
        publisher.socket.settimeout(PATIENCE)
        pump.stopping = True
        assert publisher.heard_among(w.ConnectionClose).reply_code == 320
        pump.join(PATIENCE)
        with contextlib.suppress(ConnectionError):
            # In the middle of a message it may be: then there is no other answer to our goodbye.
            publisher.say(0, w.ConnectionCloseOk())
        for wire in (consumer, late):
            assert wire.heard_among(w.ConnectionClose).reply_code == 320
            wire.say(0, w.ConnectionCloseOk())
        stopping.join()
        assert "not answered the goodbye" not in gateway.log()


def test_an_alarm_ends(tmp_path: Path) -> None:
    """The store fails, and then it works again: publishers that were held back continue."""
    with Running(tmp_path) as gateway:
        wire = gateway.wire(1)
        wire.declare("relief", durable=True)
        wire.call(1, w.ConfirmSelect(), w.ConfirmSelectOk)
        address = f"http://127.0.0.1:{gateway.http_port}/readyz?canary=1"
        assert httpx.get(address, timeout=60).status_code == 200
        hold = Lock(gateway)
        assert httpx.get(address, timeout=60).json()["checks"]["publish"] is False
        wire.publish("relief", b"one", PERSISTENT)
        assert "store" in wire.heard(w.ConnectionBlocked).reason
        ready = httpx.get(f"http://127.0.0.1:{gateway.http_port}/readyz", timeout=60)
        assert ready.status_code == 503
        wire.publish("relief", b"two", PERSISTENT)
        wire.socket.settimeout(1.5)
        with pytest.raises(TimeoutError):
            wire.hear()
        wire.socket.settimeout(30)
        hold.end()
        heard: list[object] = []
        while not {w.ConnectionUnblocked, 2} <= set(heard):
            _, record = wire.hear()
            heard.append(record.delivery_tag if type(record) is w.BasicAck else type(record))
        assert w.ConnectionBlocked not in heard
        until(lambda: httpx.get(address, timeout=60).status_code == 200, "a publish that works")
        wire.ended()


def test_no_notice_without_a_request(tmp_path: Path) -> None:
    with Running(tmp_path, limits__disk_free_octets=1 << 60) as gateway:
        told = gateway.wire(1)
        untold = gateway.wire(1, capabilities=())
        told.heard_among(w.ConnectionBlocked)
        untold.declare("x")


# --- heartbeats -----------------------------------------------------------------------------------


def test_heartbeats_come(gateway: Running) -> None:
    wire = gateway.wire(1, heartbeat=2)
    assert wire.tune.heartbeat == 60
    wire.socket.settimeout(0.1)
    started = time.monotonic()
    while wire.heartbeats < 3:
        with contextlib.suppress(TimeoutError):
            wire.hear()
        wire.send(HEARTBEAT)
        assert time.monotonic() - started < 3 * 2 * 2, "a client gives up after two intervals"
    wire.socket.settimeout(PATIENCE)
    wire.ended()


def test_a_silent_peer_is_given_up(gateway: Running) -> None:
    watcher = gateway.wire(1)
    watcher.declare("silent")
    watcher.publish("silent", b"mine")
    started = time.monotonic()
    silent = gateway.wire(1, heartbeat=2)
    silent.consume("silent")
    silent.delivered()
    assert watcher.depth("silent") == 0
    with pytest.raises((Gone, ConnectionError)):
        silent.hear()
    assert time.monotonic() - started > 2
    assert watcher.got("silent") == b"mine"
    silent.close()
    until(lambda: "missed heartbeats" in gateway.log(), "the log says why")


@pytest.mark.parametrize("secure", [False, True])
def test_a_silent_peer_whose_socket_is_full_is_given_up(tmp_path: Path, secure: bool) -> None:
    """As one that is frozen, or behind a broken cable: its socket takes nothing any more."""
    tls = Certificate(tmp_path)
    with Running(tmp_path, "--tls-cert", tls.certificate, "--tls-key", tls.key) as gateway:
        watcher = gateway.wire(1)
        watcher.declare("full")
        for _ in range(100):
            watcher.publish("full", bytes(100_000))
        context = tls.context if secure else None
        frozen = gateway.wire(1, heartbeat=2, receive_buffer=65536, tls=context)
        frozen.consume("full")
        until(lambda: watcher.depth("full") < 100, "deliveries")
        until(lambda: watcher.depth("full") == 100, "given back")
        until(lambda: sockets(gateway) == 1, "its socket is closed", 25)


def test_a_frozen_peer_that_is_not_read_from_is_given_up(tmp_path: Path) -> None:
    """It requested so much that nothing more was read from it, and then took none of that."""
    with Running(tmp_path) as gateway:
        watcher = gateway.wire(1)
        watcher.declare("stalled")
        for _ in range(200):
            watcher.publish("stalled", bytes(100_000))
        frozen = gateway.wire(1, heartbeat=2, receive_buffer=65536)
        frozen.say(1, *(w.BasicGet(0, "stalled", False) for _ in range(200)))
        until(lambda: watcher.depth("stalled") < 200, "replies")
        until(lambda: watcher.depth("stalled") == 200, "given back")
        until(lambda: sockets(gateway) == 1, "its socket is closed")
        assert "missed heartbeats" in gateway.log()


@pytest.mark.parametrize("last", [b"", b"Connection: close\r\n"])
def test_a_client_of_http_that_takes_no_answers_is_dropped(tmp_path: Path, last: bytes) -> None:
    """Whether the gateway has more for it, or has closed the connection behind the last answer."""
    request = b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n%b\r\n"
    with Running(tmp_path, http__idle_seconds=1) as gateway, socket.socket() as frozen:

        def connected() -> bool:
            return any(one.laddr.port == gateway.http_port for one in gateway.sockets())

        frozen.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        frozen.connect(("127.0.0.1", gateway.http_port))
        frozen.sendall(request % b"" * 29 + request % last)
        until(connected, "a connection")
        until(lambda: not connected(), "it is closed")


def test_a_peer_that_is_not_read_from_is_not_timed_out(tmp_path: Path) -> None:
    """A blocked publisher's heartbeats are unread: it lives."""
    with Running(tmp_path, limits__disk_free_octets=1 << 60) as gateway:
        wire = gateway.wire(1, heartbeat=1)
        wire.declare("blame")
        wire.publish("blame", b"x")
        wire.heard_among(w.ConnectionBlocked)
        wire.socket.settimeout(0.3)
        deadline = time.monotonic() + 5
        while time.monotonic() < deadline:
            with contextlib.suppress(TimeoutError):
                wire.hear()
            wire.send(HEARTBEAT)
        assert wire.heartbeats >= 2
        assert sockets(gateway) == 1


def test_the_log_says_why_a_peer_that_resets_its_connection_was_closed(gateway: Running) -> None:
    wire = gateway.wire(1)
    wire.send(b"\x09no such frame")
    wire.heard(w.ConnectionClose)
    wire.reset()
    until(lambda: re.search("closed: .*a frame of ", gateway.log()), "our reason")


# --- the last word --------------------------------------------------------------------------------


@pytest.mark.parametrize("secure", [False, True])
def test_the_last_word_is_read(tmp_path: Path, secure: bool) -> None:
    """A client that goes on sending while we close still reads why, and no reset before it."""
    tls = Certificate(tmp_path)
    arguments = ["--tls-cert", tls.certificate, "--tls-key", tls.key]
    with Running(tmp_path, *arguments) as gateway:
        for _ in range(5):
            wire = gateway.wire(1, tls=tls.context if secure else None)
            wire.declare("last")
            octets = wire.message("last", bytes(20_000))
            wire.send(octets + b"\x09no such frame")
            with contextlib.suppress(ConnectionError):
                for _ in range(50):
                    wire.send(octets)
            close = wire.heard(w.ConnectionClose)
            assert close.reply_code == 501
            with contextlib.suppress(OSError):
                wire.say(0, w.ConnectionCloseOk())
            wire.close()


def test_a_polite_end_is_quick(gateway: Running) -> None:
    """A peer that has said goodbye is given a second to hang up, not the time of one that may still
    be reading. One of five tries shows it: a busy machine may hold up the others."""
    taken = []
    for _ in range(5):
        wire = gateway.wire(1)
        started = time.monotonic()
        wire.ended()
        taken.append(time.monotonic() - started)
    assert min(taken) < LINGER_SECONDS

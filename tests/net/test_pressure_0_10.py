"""Peers of 0-10 that do not read, ask for more than they take, or say nothing."""

import socket
import threading
from collections.abc import Iterator

import pytest

from gateway.adapters.segments import operations as ops
from gateway.adapters.segments.frames import command, control
from gateway.adapters.segments.wire import layouts as w
from tests.net.running import PATIENCE, Running, until
from tests.net.wire_0_10 import Segments

MIB = 1 << 20


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with Running(tmp_path_factory.mktemp("pressure"), amqp__handshake_seconds=3) as running:
        yield running


def dial(gateway: Running, receive_buffer: int = 0) -> socket.socket:
    one = socket.socket()
    if receive_buffer:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    one.settimeout(PATIENCE)
    one.connect(("127.0.0.1", gateway.port))
    return one


def test_all_the_credit_and_no_reading(gateway: Running) -> None:
    """The messages stay in their queue, and come once it reads."""
    watcher = gateway.wire(1)
    watcher.declare("deaf10")
    before = gateway.memory
    with dial(gateway, 65536) as one, dial(gateway) as other:
        deaf = Segments(one).opened(b"deaf")
        deaf.subscribes("deaf10")
        publisher = Segments(other).opened(b"publisher")
        for count in range(300):
            publisher.publishes("deaf10", b"%06d" % count + bytes(50_000))
        publisher.does(w.ExecutionSync())
        assert watcher.depth("deaf10") > 150, "more than its socket holds was sent to it"
        assert gateway.memory - before < 80 * MIB
        for count in range(300):
            said = deaf.hears("message.transfer")
            assert said.body is not None and int(said.body[:6]) == count
    watcher.ended()


@pytest.mark.parametrize("name", ["query", "flush"])
def test_answers_do_not_pile_up(gateway: Running, name: str) -> None:
    """Who does not read what it asked for is not read from; others are served."""
    before = gateway.memory
    asked = command(1, ops.write_command(w.QueueQuery("nothing"), sync=True))
    if name == "flush":
        asked = control(1, ops.write_control(w.SessionFlush(True, True, True)))
    with dial(gateway, 65536) as one:
        Segments(one).opened(b"answers")
        one.settimeout(3)
        sent = 0
        with pytest.raises(TimeoutError):
            while sent < 400 * MIB:
                sent += one.send(asked * 1000)
        assert gateway.memory - before < 150 * MIB
        watcher = gateway.wire(1)
        watcher.declare("served10")
        assert watcher.depth("served10") == 0
        watcher.ended()


def test_a_handshake_that_is_not_finished(gateway: Running) -> None:
    with dial(gateway) as one:
        one.sendall(b"AMQP\1\1\0\12")
        while one.recv(4096):
            pass


def test_a_silent_peer_is_given_up(gateway: Running) -> None:
    """After two intervals that it has chosen itself; one that sends heartbeats stays."""
    with dial(gateway) as one, dial(gateway) as other:
        Segments(one).opened(b"silent", heartbeat=1)
        alive = Segments(other).opened(b"alive", heartbeat=1)
        gone = threading.Event()

        def hear() -> None:
            while one.recv(4096):
                pass
            gone.set()

        hearing = threading.Thread(target=hear)
        hearing.start()

        def given_up() -> bool:
            alive.controls(0, w.ConnectionHeartbeat())
            return gone.is_set()

        until(given_up, "given up")
        hearing.join()
        alive.hears("connection.heartbeat")
        alive.does(w.ExecutionSync())

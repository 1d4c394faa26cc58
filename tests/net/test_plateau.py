"""What peers leave behind that come, say something odd and go: nothing, even if garbage is never
collected. And what those may fill who have not logged in."""

import contextlib
import json
import os
import random
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.net.running import PATIENCE, Running, until
from tests.net.test_websocket import WebWire, dial

pytestmark = pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="needs SIGUSR1")

FEW = 20
HEADERS = {
    "0-8": b"AMQP\1\1\x08\0",
    "0-9": b"AMQP\1\1\0\x09",
    "0-9-1": b"AMQP\0\0\x09\1",
    "0.8a2": b"\x80\2",
    "1.0": b"AMQP\0\1\0\0",
    "1.0 with SASL": b"AMQP\3\1\0\0",
}
Peer = Callable[["Counting"], None]


class Counting(Running):
    """A gateway that never collects garbage (``tests/net/object_counts.py``)."""

    module = "tests.net.object_counts"

    def __init__(self, folder: Path) -> None:
        self._counts = folder / "counts.json"
        os.environ["COUNTING"] = str(self._counts)
        try:
            super().__init__(folder)
        finally:
            del os.environ["COUNTING"]

    def objects(self) -> dict[str, int]:
        """How many there are of each type, once all connections are gone."""
        until(lambda: not self.sockets(), "no connections")
        self._counts.unlink(missing_ok=True)
        self.process.send_signal(signal.SIGUSR1)
        until(self._counts.exists, "counts")
        found: dict[str, int] = json.loads(self._counts.read_text())
        return found


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Counting]:
    with Counting(tmp_path_factory.mktemp("plateau")) as running:
        # The loop makes some of its things when they are first needed.
        for kind in ("HTTP", "websocket, noise", "HTTP, no such path"):
            visits(running, kind, FEW)
        running.objects()
        yield running


def says(*pieces: bytes, reset: bool = False) -> Peer:
    """A peer that says this, hears an answer or not, and goes."""

    def peer(gateway: Counting) -> None:
        with socket.create_connection(("127.0.0.1", gateway.port), PATIENCE) as there:
            for piece in pieces:
                there.sendall(piece)
            if not reset:
                with contextlib.suppress(OSError):
                    there.recv(65536)
            if reset:
                there.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1" + bytes(7))

    return peer


def silent(gateway: Counting) -> None:
    """Says nothing, and goes when it was noticed."""
    with socket.create_connection(("127.0.0.1", gateway.port), PATIENCE):
        until(gateway.sockets, "a connection")


def logs_in(after: bytes) -> Peer:
    """A peer that logs in, opens a channel, says this and goes."""

    def peer(gateway: Counting) -> None:
        wire = gateway.wire(1)
        wire.send(after)
        wire.close()

    return peer


def websocket(gateway: Counting) -> socket.socket:
    """A WebSocket whose frames are made by hand."""
    there = socket.create_connection(("127.0.0.1", gateway.http_port), PATIENCE)
    there.sendall(
        b"GET /amqp HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: amqp\r\n"
        b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )
    assert b" 101 " in there.recv(65536)
    return there


def frame(octets: bytes, announced: int | None = None, opcode: int = 2) -> bytes:
    """Of a client, with a mask of zeros; it may announce more than it brings. Not the last one of
    its message, if so."""
    length = len(octets) if announced is None else announced
    first = opcode if announced is not None else 0x80 | opcode
    return bytes((first, 0xFF)) + length.to_bytes(8) + bytes(4) + octets


def over_websocket(octets: bytes) -> Peer:
    def peer(gateway: Counting) -> None:
        with websocket(gateway) as there, contextlib.suppress(OSError):
            there.sendall(octets)
            there.recv(65536)

    return peer


def unfinished(gateway: Counting) -> None:
    """Begins a frame of 15 MiB, sends a little of it, and goes."""
    with websocket(gateway) as there, contextlib.suppress(OSError):
        there.sendall(frame(bytes(10_000), 15 << 20))


def over_http(octets: bytes) -> Peer:
    def peer(gateway: Counting) -> None:
        with socket.create_connection(("127.0.0.1", gateway.http_port), PATIENCE) as there:
            there.sendall(octets)
            there.recv(65536)

    return peer


def request(line: str, *fields: str, body: str = "") -> bytes:
    named = ["Host: 127.0.0.1", "Connection: close", f"Content-Length: {len(body)}", *fields]
    return "\r\n".join([f"{line} HTTP/1.1", *named, "", body]).encode()


NOISE = random.Random(9).randbytes(200)
PEERS: dict[str, Peer] = {
    "silent": silent,
    "half a header": says(b"AMQ", reset=True),
    "HTTP": says(b"GET / HTTP/1.0\r\n\r\n"),
    **{f"{name}, noise": says(header + NOISE) for name, header in HEADERS.items()},
    **{f"{name}, reset": says(header, reset=True) for name, header in HEADERS.items()},
    "login, noise": logs_in(NOISE),
    "login, a method too early": logs_in(b"\1\0\1\0\0\0\4\0\x3c\0\x63\xce"),
    "login, nothing": logs_in(b""),
    "websocket, noise": over_websocket(frame(HEADERS["0-9-1"] + NOISE)),
    "websocket, text": over_websocket(frame(b"no AMQP", opcode=1)),
    "websocket, no such opcode": over_websocket(frame(b"", opcode=7)),
    "websocket, unfinished frame": unfinished,
    "HTTP, noise": over_http(b"\1\2\3\r\n\r\n"),
    "HTTP, no such path": over_http(request("GET /nowhere")),
    "HTTP, a publish to no queue": over_http(
        request("POST /v1/%2f/queues/none/messages", body="hello")
    ),
    "HTTP, no JSON": over_http(
        request("POST /v1/%2f/messages", "Content-Type: application/json", body="{")
    ),
}


def visits(gateway: Counting, kind: str, count: int) -> None:
    """A few at once: the loop keeps something for each file descriptor there ever was."""
    for number in range(count):
        PEERS[kind](gateway)
        if number % 5 == 4:
            until(lambda: not gateway.sockets(), "no connections")


@pytest.mark.parametrize("kind", PEERS)
def test_a_peer_leaves_nothing(gateway: Counting, kind: str) -> None:
    """No type has grown by about an object for each peer, after the first few."""
    visits(gateway, kind, FEW)
    before = gateway.objects()
    visits(gateway, kind, 3 * FEW)
    after = gateway.objects()
    more = {
        name: count - before.get(name, 0)
        for name, count in after.items()
        if count - before.get(name, 0) > 3 * FEW * 3 // 4
    }
    assert not more


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads memory")
def test_a_frame_is_small_before_the_login(gateway: Counting) -> None:
    """Twenty peers with 15 MiB each of a frame, or of frames, fill nothing."""
    before = gateway.memory
    with contextlib.ExitStack() as open_ones:
        for number in range(20):
            there = open_ones.enter_context(websocket(gateway))
            with contextlib.suppress(OSError):
                if number % 2:
                    there.sendall(frame(bytes(14 << 20), 15 << 20))
                else:
                    there.sendall(frame(HEADERS["1.0"], 8))
                    for _ in range(14 * 64):
                        there.sendall(frame(bytes(16384), 16384, 0))
        assert gateway.memory - before < 100 << 20
    until(lambda: not gateway.sockets(), "no connections")


def test_frames_may_be_large_after_the_login(gateway: Counting) -> None:
    with dial(gateway) as web:
        wire = WebWire(web, 4 << 20).opened(1)
        wire.declare("large")
        body = random.Random(3).randbytes(3 << 20)
        wire.publish("large", body)
        wire.consume("large", no_ack=True)
        assert wire.delivered()[1] == body
        wire.close()


def test_a_message_may_come_in_many_frames(gateway: Counting) -> None:
    """Borders of messages and of frames mean nothing; a message need never end."""
    with dial(gateway) as web:
        octets = HEADERS["0-9-1"]
        web.send(iter([octets[:1], octets[1:5], octets[5:]]))
        answer = web.recv(PATIENCE)
        assert isinstance(answer, bytes) and answer[:1] == b"\1"

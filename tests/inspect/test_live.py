"""``inspect --listen``: frames of connections that pass, of several versions, while they pass."""

import contextlib
import json
import os
import signal
import socket
import socketserver
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pika
import pytest

from gateway.adapters.segments.wire import layouts as segments
from tests.app.test_cli import run
from tests.net.preloaded import start
from tests.net.running import PATIENCE, Running, environment, until
from tests.net.wire import Gone, Wire
from tests.net.wire_0_10 import Segments
from tests.net.wire_1_0 import Wire10

PASSWORD = "not-for-other-eyes"
HEADER = b"AMQP\x00\x00\x09\x01"


class Inspecting:
    """``amqp-gateway inspect --listen`` before a broker. Its lines are in ``lines``."""

    def __init__(
        self, folder: Path, broker: int, *arguments: str, unread: Any = False, **variables: str
    ) -> None:
        """``unread``: its lines go to a pipe that nobody reads."""
        self.out, self.err = folder / "inspect.out", folder / "inspect.err"
        words = ["inspect", "--listen", "127.0.0.1:0", "--upstream", f"amqp://127.0.0.1:{broker}"]
        reads, writes = os.pipe()
        with self.out.open("wb") as file, open(writes, "wb") as pipe, self.err.open("wb") as err:
            out = pipe if unread else file
            self.process = start(
                "gateway", [*words, *arguments], {**environment(), **variables},
                stdin=subprocess.DEVNULL, stdout=out, stderr=err,
            )  # fmt: skip
        os.close(reads)
        until(lambda: "leads to" in self.err.read_text() or self.process.poll(), "a port")
        self.port = int(self.err.read_text().partition(" leads to")[0].rpartition(":")[2])

    @property
    def text(self) -> str:
        return self.out.read_text()

    @property
    def lines(self) -> list[Any]:
        whole = self.text.rpartition("\n")[0]
        return [json.loads(line) for line in whole.splitlines()]

    def texts(self, version: str, side: str) -> list[str]:
        """The lines of one side in a version."""
        return [
            one["text"]
            for one in self.lines
            if one["version"] == version and one.get("from") == side
        ]

    def end(self, sign: int = signal.SIGINT) -> int:
        """Interrupt it; its exit status."""
        self.process.send_signal(sign)
        return self.process.wait(PATIENCE)


@contextlib.contextmanager
def inspecting(
    folder: Path, broker: int, *arguments: str, unread: Any = False, **variables: str
) -> Iterator[Inspecting]:
    made = Inspecting(folder, broker, *arguments, unread=unread, **variables)
    try:
        yield made
    finally:
        made.process.kill()
        made.process.wait()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with Running(tmp_path_factory.mktemp("broker")) as gateway:
        yield gateway


def test_versions_in_both_directions(broker: Running, tmp_path: Path) -> None:
    with inspecting(tmp_path, broker.port, "--json") as shown:
        for version in ("0-8", "0-9-1"):
            wire = Wire(shown.port, version=version).opened(1)
            wire.declare(f"of-{version}")
            wire.publish(f"of-{version}", b"passes")
            assert wire.got(f"of-{version}") == b"passes"
            wire.ended()
        with socket.create_connection(("127.0.0.1", shown.port), PATIENCE) as plain:
            client = Segments(plain).opened()
            client.does(segments.QueueDeclare("of-0-10"))
            client.publishes("of-0-10", b"passes")
            client.subscribes("of-0-10")
            client.hears("message.transfer")
        link = Wire10(shown.port).opened()
        link.sender(1, "of-1.0")
        link.ended()
        closed = {"remark": "connection closed"}
        until(lambda: sum(closed.items() <= one.items() for one in shown.lines) == 4, "all ends")
        lines = shown.lines
        assert {one["version"] for one in lines} == {None, "0-8", "0-9-1", "0-10", "1.0"}
        assert {one["connection"] for one in lines} == {"1", "2", "3", "4"}
        assert not [one for one in lines if one.get("kind") in ("broken", "unknown", "octets")]
        for version in ("0-8", "0-9-1"):
            sent, came = shown.texts(version, "client"), shown.texts(version, "server")
            assert any(f"queue.declare queue='of-{version}'" in one for one in sent), sent
            assert any("queue.declare-ok" in one for one in came)
            assert any("'passes'" in one for one in sent)
            assert any("'passes'" in one for one in came)
        assert any("queue.declare queue='of-0-10'" in one for one in shown.texts("0-10", "client"))
        assert any("'passes'" in one for one in shown.texts("0-10", "server"))
        assert any(one.startswith("attach ") for one in shown.texts("1.0", "client"))
        assert any(one.startswith("attach ") for one in shown.texts("1.0", "server"))
        # Offsets of a direction go on from frame to frame.
        mine = [one for one in lines if one["connection"] == "2" and one.get("from") == "client"]
        for one, after in zip(mine, mine[1:], strict=False):
            assert after["offset"] == one["offset"] + one["size"]
        assert shown.end() == 0


def test_no_password_is_shown(broker: Running, tmp_path: Path) -> None:
    with inspecting(tmp_path, broker.port) as shown:
        with pytest.raises((Gone, ConnectionError, AssertionError)):
            Wire(shown.port, password=PASSWORD).opened()
        assert Wire10(shown.port, password=PASSWORD).greet().code == 1
        # The length of a table is wrong: the frame cannot be read.
        broken = b"\x00\x0a\x00\x0b\xff\xff\xff\xff\x05PLAIN" + PASSWORD.encode()
        frame = b"\x01\x00\x00" + len(broken).to_bytes(4) + broken + b"\xce"
        for octets in (frame, PASSWORD.encode() * 3):
            with socket.create_connection(("127.0.0.1", shown.port), PATIENCE) as plain:
                plain.sendall(HEADER)
                assert plain.recv(7)
                plain.sendall(octets)
                plain.shutdown(socket.SHUT_WR)
                while plain.recv(1 << 16):
                    pass
        with socket.create_connection(("127.0.0.1", shown.port), PATIENCE) as plain:
            plain.sendall(b"GET / HTTP/1.1\r\nAuthorization: " + PASSWORD.encode() + b"\r\n\r\n")
            while plain.recv(1 << 16):
                pass
        until(lambda: shown.text.count("connection closed") == 5, "all ends")
        assert PASSWORD not in shown.text
        assert PASSWORD.encode().hex(" ") not in shown.text
        assert "not shown: they may hold a password" in shown.text
        assert "response=<" in shown.text
        shown.end()


class Echo(socketserver.BaseRequestHandler):
    """Sends back what comes."""

    def handle(self) -> None:
        while data := self.request.recv(1 << 16):
            self.request.sendall(data)


@pytest.mark.parametrize(
    "octets",
    [
        b"\x00\x01\x02\xffnothing of ours",
        HEADER + b"\x01\x00\x00\x00\x00\x00\x02xx\x00",
        b"\xff" * 99,
    ],
    ids=["no AMQP", "no end of a frame", "noise"],
)
def test_bad_octets_are_shown_and_forwarded(octets: bytes, tmp_path: Path) -> None:
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Echo) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with inspecting(tmp_path, server.server_address[1]) as shown:
            with socket.create_connection(("127.0.0.1", shown.port), PATIENCE) as plain:
                came = b""
                for _ in range(2):
                    plain.sendall(octets)
                    while len(came) % len(octets) or not came:
                        came += plain.recv(1 << 16)
                    assert came == octets
                    came = b""
                plain.shutdown(socket.SHUT_WR)
                assert plain.recv(1) == b""
            until(lambda: "connection closed" in shown.text, "the end")
            assert shown.end(signal.SIGTERM) == 2
            assert "could not be decoded" in shown.err.read_text()
            assert "Traceback" not in shown.err.read_text()
        server.shutdown()


def test_colours_and_a_count(broker: Running, tmp_path: Path) -> None:
    def lines(**variables: str) -> list[str]:
        with inspecting(tmp_path, broker.port, "--count", "6", **variables) as shown:
            wire = Wire(shown.port)
            with contextlib.suppress(Gone, ConnectionError):
                wire.opened(1)
            assert shown.process.wait(PATIENCE) == 0
            wire.close()
            return [one for one in shown.text.splitlines() if "C>S" in one or "S>C" in one]

    terminal = {"FORCE_COLOR": "1", "TERM": "xterm"}
    coloured = lines(**terminal)
    assert len(coloured) == 6
    assert all(one.startswith("\x1b[32m") for one in coloured)
    for plain in (lines(), lines(**terminal, NO_COLOR="1")):
        assert len(plain) == 6
        assert not any("\x1b" in one for one in plain)


@pytest.mark.parametrize("arguments", [[], ["--json"]], ids=["text", "json"])
def test_it_ends_when_nobody_reads(broker: Running, tmp_path: Path, arguments: list[str]) -> None:
    with inspecting(tmp_path, broker.port, *arguments, unread=True) as shown:
        wire = Wire(shown.port)
        with contextlib.suppress(Gone, ConnectionError):
            wire.opened(1)
        assert shown.process.wait(PATIENCE) == 0
        wire.close()
        assert "Traceback" not in shown.err.read_text()


def test_pika(broker: Running, tmp_path: Path) -> None:
    with inspecting(tmp_path, broker.port, "--json") as shown:
        with pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", shown.port)) as wire:
            channel = wire.channel()
            channel.queue_declare("of-pika", auto_delete=True)
            channel.basic_publish("", "of-pika", b"from pika")
            until(lambda: channel.basic_get("of-pika", auto_ack=True)[2] == b"from pika", "it")
        until(lambda: any("close-ok" in one for one in shown.texts("0-9-1", "server")), "the end")
        assert any("product" in one and "Pika" in one for one in shown.texts("0-9-1", "client"))
        for side in ("client", "server"):
            assert any("'from pika'" in one for one in shown.texts("0-9-1", side))
        assert shown.end() == 0


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], "a file, or --listen"),
        (["--listen", "127.0.0.1:0"], "a file, or --listen"),
        (["file", "--json"], "a file, or --listen"),
        (["--listen", "nowhere", "--upstream", "amqp://127.0.0.1:1"], "should be host:port"),
        (["--listen", "127.0.0.1:0", "--upstream", "nowhere"], "nowhere"),
        (["--listen", "192.0.2.1:1", "--upstream", "amqp://127.0.0.1:1"], "cannot listen"),
        (["--listen", "127.0.0.1:0", "--upstream", "amqp://127.0.0.1:1", "--as", "9"], "no such"),
    ],
)
def test_wrong_options(arguments: list[str], told: str) -> None:
    done = run("inspect", *arguments)
    assert done.returncode == 2
    assert told in done.stderr
    assert "Traceback" not in done.stderr

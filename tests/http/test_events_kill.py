"""``kill -9`` in the middle of event delivery: with a durable journal cursors continue exactly.

What was confirmed to a publisher reaches the reader, in order and once, over any number of deaths
of the process; what was in flight reaches it once or never.
"""

import base64
import contextlib
import json
import random
import socket
import threading
from pathlib import Path

import pytest

from gateway.adapters.methods.wire import layouts as w
from tests.drawing import examples
from tests.net.running import Running, until
from tests.net.wire import Gone, Wire

KILLS = examples(8, least=3)
WINDOW = 100
PATH = "/v1/%2F/exchanges/amq.topic/events?binding=k.%23&journal=durable"
TEXT = b"\x90\x00\x0atext/plain\x02"
"""Properties: a content type, and persistent."""
BASIC = base64.b64encode(b"guest:guest").decode()


class Reader:
    """Reads one stream after the other, each from where the last one broke off."""

    def __init__(self) -> None:
        self.cursor = ""
        self.got: list[int] = []
        self.resumes: list[str] = []

    def read(self, port: int) -> None:
        """Until the connection breaks."""
        with (
            contextlib.suppress(OSError),
            socket.create_connection(("127.0.0.1", port), 30) as peer,
        ):
            lines = [f"GET {PATH} HTTP/1.1", "Host: localhost", f"Authorization: Basic {BASIC}"]
            if self.cursor:
                lines.append(f"Last-Event-ID: {self.cursor}")
            peer.sendall("\r\n".join([*lines, "", ""]).encode())
            text = b""
            while octets := peer.recv(1 << 16):
                text += octets
                blocks = text.split(b"\n\n")
                text = blocks.pop()
                for block in blocks:
                    self.take(block.decode())

    def take(self, block: str) -> None:
        """The cursor of an event is taken with the event or not at all."""
        fields = dict(line.partition(": ")[::2] for line in block.split("\n"))
        if fields.get("event") == "gateway.open":
            self.resumes.append(json.loads(fields["data"])["resume"])
        elif "data" in fields and "event" not in fields:
            self.got.append(int(json.loads(fields["data"])["body"]["text"].split()[0]))
        self.cursor = fields.get("id", self.cursor)


class Writer:
    """Numbered persistent messages, confirmed up to ``confirmed``."""

    def __init__(self) -> None:
        self.next = 1
        self.certain: set[int] = set()

    def write(self, wire: Wire, chance: random.Random) -> None:
        with contextlib.suppress(Gone, ConnectionError):
            self.publish(wire, chance)

    def publish(self, wire: Wire, chance: random.Random) -> None:
        wire.call(1, w.ConfirmSelect(), w.ConfirmSelectOk)
        first, told = self.next, 0
        while True:
            octets = b""
            for _ in range(chance.choice([1, 5, 30])):
                text = b"%d %s" % (self.next, b"." * chance.choice([0, 100, 2000]))
                octets += wire.message("k.x", text, TEXT, exchange="amq.topic")
                self.next += 1
            wire.send(octets)
            while self.next - first - told > WINDOW:
                _, ack = wire.hear()
                assert type(ack) is w.BasicAck, ack
                self.certain |= set(range(first + told, first + ack.delivery_tag))
                told = ack.delivery_tag


@pytest.mark.slow
@pytest.mark.thorough
@pytest.mark.timeout(600)
def test_kill_at_any_moment(tmp_path: Path) -> None:
    chance = random.Random(20)
    reader, writer = Reader(), Writer()
    waited = 0
    with Running(tmp_path, http__journal_events=100_000) as gateway:
        for life in range(KILLS + 1):
            reading = threading.Thread(target=reader.read, args=(gateway.http_port,))
            reading.start()
            # With the first cursor, or the next stream would be another fresh one.
            until(
                lambda: reader.cursor and len(reader.resumes) == life + 1,  # noqa: B023
                "the stream opens",
            )
            if life == KILLS:
                break
            before = len(writer.certain)
            writing = threading.Thread(
                target=writer.write, args=(gateway.wire(1), random.Random(chance.random()))
            )
            writing.start()
            if chance.random() < 0.8:
                wanted = before + chance.choice([1, 100])
                until(lambda: len(writer.certain) >= wanted, "confirms")  # noqa: B023
                waited += wanted - before
            killer = threading.Timer(chance.uniform(0, 0.4), gateway.kill)
            killer.start()
            for thread in (killer, writing, reading):
                thread.join()
            gateway.start()
        wire = gateway.wire(1)
        text = b"%d end" % writer.next
        wire.send(wire.message("k.end", text, TEXT, exchange="amq.topic"))
        until(lambda: reader.got and reader.got[-1] == writer.next, "the last message")
        gateway.stop()
        reading.join()
    assert reader.resumes == ["fresh"] + ["exact"] * KILLS
    assert reader.got == sorted(set(reader.got)), "out of order, or more than once"
    lost = writer.certain - set(reader.got)
    assert not lost, sorted(lost)[:20]
    assert len(writer.certain) >= waited > 20 * KILLS, "the test has seen something happen"

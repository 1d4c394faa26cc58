"""Octets that passed between our clients and a running gateway: the archive has what the journal
has."""

import asyncio
import contextlib
import socket
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from gateway.adapters.methods.content import BASIC
from gateway.journal.canonical import Rows
from gateway.journal.reader import JournalReader
from gateway.message import Message, Properties
from gateway.net.dialer import dial
from gateway.operations import BeginSession, EndSession, Publish
from tests.archive.recorded import Frame, document
from tests.bridge.relay import Relay, end
from tests.net.running import Running, until

pytest.importorskip("pyarrow", reason="needs the extra `journal`")

from gateway.archive.batches import AMQP10, transcode
from gateway.archive.reading import list_parts, raw_batches
from gateway.archive.recordings import Counts

VERSIONS = ("0-8", "0-9", "0-9-1", "0.8a2", "0-10", "1.0")
EACH = 40


class Tape(Relay):
    """Keeps what passes."""

    def __init__(self, target: int) -> None:
        self.frames: list[Frame] = []
        super().__init__(target)

    def _pass(self, here: socket.socket, there: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := here.recv(1 << 16):
                self.frames.append(Frame("1", here in self._clients, data))
                there.sendall(data)
        for one in (here, there):
            end(one)


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("gateway")
    with Running(folder, journal__recording="[{}]") as running:
        yield running


def messages(queue: str) -> list[Message]:
    found = []
    for number in range(EACH):
        given = Properties(
            durable=True, message_id=f"m-{number}", content_type="text/plain",
            correlation_id=f"c-{number % 3}", priority=number % 10,
            application={"n": number, "word": "x" * number, "flag": number % 2 == 0},
        )  # fmt: skip
        header = BASIC.write(given)
        body = bytes([number]) * (number * 97)
        found.append(Message(BASIC, header, body, "", queue, BASIC.essentials(header)))
    return found


async def send(port: int, version: str, queue: str) -> None:
    async with asyncio.timeout(60):
        remote = await dial(("127.0.0.1", port), version=version)
        await remote.request(BeginSession(1, None))
        for message in messages(queue):
            remote.send(Publish(1, message, False, False))
        await remote.drain()
        await remote.request(EndSession(1, None))
        await remote.close()


def recorded(gateway: Running, address: str) -> list[bytes]:
    """What the journal has, in 1.0."""
    with contextlib.closing(JournalReader(gateway.data)) as reader:
        overview = reader.overview()
        rows = Rows(overview.id, ["address", "amqp10"])
        found, start = [], overview.start
        while start < overview.end:
            portion = reader.read(start)
            found += [octets for name, octets in rows.of(portion.entries) if name == address]
            start = portion.next
        return found


@pytest.mark.parametrize("version", VERSIONS)
def test_the_archive_has_what_the_journal_has(
    version: str, gateway: Running, tmp_path: Path
) -> None:
    queue = f"q-{version}"
    made = httpx.put(
        f"http://127.0.0.1:{gateway.http_port}/api/queues/%2F/{queue}", json={"durable": True},
        auth=("guest", "guest"),
    )  # fmt: skip
    assert made.is_success, made.text
    with Tape(gateway.port) as tape:
        asyncio.run(send(tape.port, version, queue))
    live = until(
        lambda: len(found := recorded(gateway, f"/queues/{queue}")) >= EACH and found, "recorded"
    )
    path = tmp_path / "tape.json"
    path.write_text(document(tape.frames))
    (part,) = list_parts([path])
    rows = [
        row for raw in raw_batches(part, Counts()) for row in transcode(raw, AMQP10).to_pylist()
    ]
    assert [row["error_code"] for row in rows] == [None] * EACH
    assert Counter(row["amqp10"] for row in rows) == Counter(live)
    assert {row["address"] for row in rows} == {f"/queues/{queue}"}
    assert {row["protocol"] for row in rows} == {f"amqp-{version}"}

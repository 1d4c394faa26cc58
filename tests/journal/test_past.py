"""Event streams read on where their rings end: in the store, and in sealed segments."""

import asyncio
import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from gateway.http.events.journal import Journal as Ring
from gateway.http.events.past import Backlog, History, Past
from gateway.journal.by_offset import Which
from gateway.journal.entries import ALL, Entry
from gateway.journal.reader import JournalReader
from gateway.journal.segments import list_segments
from tests.journal.recording import Recording
from tests.net.running import PATIENCE, Running, until
from tests.store.samples import message

pytest.importorskip("pyarrow", reason="sealing needs the extra `journal` (pyarrow)")
pytestmark = pytest.mark.extras

SOURCE = "/v1/%2F/exchanges/amq.topic/events?binding=k.%23&journal=durable"
ADDRESS = "/exchanges/amq.topic?binding=k.%23"
TEXT = b"\x80\x00\x0atext/plain"
"""Properties with a content type alone."""
LOGIN = ("guest", "guest")
SMALL: dict[str, Any] = {
    "http__journal_events": 20, "journal__segment_messages": 50, "journal__seal_seconds": 1e9,
}  # fmt: skip


class Stream:
    """An event stream that is read by a test."""

    def __init__(self, answer: httpx.Response) -> None:
        self.answer = answer
        self.resume = answer.headers["amqp-resume"]
        self.blocks = self._read()
        self.cursor = ""
        self.gaps: list[dict[str, Any]] = []

    def _read(self) -> Iterator[dict[str, str]]:
        block: dict[str, str] = {}
        for line in self.answer.iter_lines():
            if line:
                name, _, value = line.partition(": ")
                block[name] = value
            elif block:
                yield block
                block = {}

    def take(self, count: int) -> list[Any]:
        """The bodies of so many events."""
        found: list[Any] = []
        for block in self.blocks if count else ():
            self.cursor = block.get("id", self.cursor)
            kind = block.get("event", "")
            if kind == "gateway.gap":
                self.gaps.append(json.loads(block["data"]))
            elif not kind and "data" in block:
                found.append(json.loads(block["data"]))
                if len(found) == count:
                    break
        return found


@contextlib.contextmanager
def stream(gateway: Running, cursor: str = "", query: str = "") -> Iterator[Stream]:
    url = f"http://127.0.0.1:{gateway.http_port}{SOURCE}{query}"
    headers = {"last-event-id": cursor} if cursor else {}
    with httpx.stream("GET", url, auth=LOGIN, headers=headers, timeout=PATIENCE) as answer:
        assert answer.status_code == 200, answer.read()
        yield Stream(answer)


def publish(gateway: Running, first: int, end: int) -> None:
    url = f"http://127.0.0.1:{gateway.http_port}/v1/%2F/exchanges/amq.topic/messages"
    for start in range(first, end, 100):
        rows = [
            {"routing_key": "k.x", "body": str(one)} for one in range(start, min(end, start + 100))
        ]
        answer = httpx.post(
            url,
            content="\n".join(map(json.dumps, rows)),
            headers={"content-type": "application/vnd.amqp-gateway.messages+ndjson"},
            auth=LOGIN,
            timeout=PATIENCE,
        )
        assert answer.status_code == 207, answer.text
        told = [json.loads(line)["status"] for line in answer.text.splitlines()]
        assert told == [201] * len(rows)


def entries(gateway: Running) -> list[Entry]:
    """What other readers find of the source."""
    question = ALL._replace(wanted=lambda vhost, address: address == ADDRESS)
    with contextlib.closing(JournalReader(gateway.data)) as reader:
        found: list[Entry] = []
        overview = reader.overview()
        at = overview.start
        while at < overview.end:
            portion = reader.read(at, question)
            found += portion.entries
            at = portion.next
        return found


def numbers(events: list[Any]) -> list[int]:
    return [int(one["body"]["text"]) for one in events]


def test_what_the_ring_drops_stays_in_the_journal(tmp_path: Path) -> None:
    with Running(tmp_path, **SMALL) as gateway:
        with stream(gateway) as live:
            publish(gateway, 0, 130)
            assert numbers(live.take(1)) == [0]
        until(lambda: len(list_segments(gateway.data / "journal")) == 2, "segments")
        publish(gateway, 130, 140)
        assert [one.offset for one in entries(gateway)] == list(range(1, 141))
        assert [int(one.message.body[:]) for one in entries(gateway)] == list(range(140))


@pytest.mark.parametrize("sealing", [True, False])
def test_a_stream_resumes_behind_its_ring(tmp_path: Path, sealing: bool) -> None:
    with Running(tmp_path, **SMALL, journal__seal=sealing) as gateway:
        with stream(gateway) as live:
            publish(gateway, 0, 10)
            before = live.take(5)
            cursor = live.cursor
        publish(gateway, 10, 230)
        if sealing:
            until(lambda: len(list_segments(gateway.data / "journal")) == 4, "segments")
        with stream(gateway, cursor) as again:
            assert again.resume == "exact"
            first = again.take(225)
            assert numbers(first) == list(range(5, 230)) and not again.gaps
        gateway.kill()
        gateway.start()
        publish(gateway, 230, 240)
        with stream(gateway, cursor) as again:
            assert again.resume == "exact"
            found = again.take(235)
            assert found[:225] == first
            assert numbers(found) == list(range(5, 240)) and not again.gaps
            publish(gateway, 240, 241)
            assert numbers(again.take(1)) == [240]
        with stream(gateway, query="&from=earliest") as whole:
            found = whole.take(241)
            assert found[:5] == before and found[5:230] == first
        with stream(gateway, query="&from=offset:60") as part:
            assert numbers(part.take(2)) == [59, 60]


def test_what_retention_has_removed_is_a_gap(tmp_path: Path) -> None:
    with Running(tmp_path, **SMALL) as gateway:
        with stream(gateway) as live:
            publish(gateway, 0, 10)
            live.take(5)
            cursor = live.cursor
        publish(gateway, 10, 130)
        segments = until(
            lambda: len(found := list_segments(gateway.data / "journal")) == 2 and found, "segments"
        )
        with stream(gateway, query="&from=-PT1H") as hour:
            assert hour.resume == "fresh" and numbers(hour.take(2)) == [0, 1]
        segments[0].path.unlink()
        with stream(gateway, cursor) as again:
            assert again.resume == "gap"
            assert numbers(again.take(80)) == list(range(50, 130))
            (gap,) = again.gaps
            assert (gap["from"], gap["to"], gap["lost"]) == (6, 50, 45)
        with stream(gateway, query="&from=earliest") as oldest:
            assert oldest.resume == "fresh" and numbers(oldest.take(1)) == [50]
        with stream(gateway, query="&from=-PT1H") as hour:
            # There may have been earlier ones within the hour.
            assert hour.resume == "gap" and numbers(hour.take(1)) == [50]
            assert hour.gaps[0]["lost"] is None


def test_filters_and_large_bodies_behind_the_ring(tmp_path: Path) -> None:
    large = "x" * 400_000
    with Running(tmp_path, **SMALL) as gateway:
        with stream(gateway):
            publish(gateway, 0, 10)
        url = f"http://127.0.0.1:{gateway.http_port}/v1/%2F/exchanges/amq.topic/messages"
        headers = {"content-type": "text/plain", "amqp-priority": "7"}
        params = {"routing_key": "k.large"}
        answer = httpx.post(
            url, params=params, content=large, headers=headers, auth=LOGIN, timeout=PATIENCE
        )
        assert answer.status_code == 201, answer.text
        publish(gateway, 10, 110)
        until(lambda: len(list_segments(gateway.data / "journal")) == 2, "segments")
        with stream(gateway, query="&from=earliest") as whole:
            found = whole.take(12)
            assert found[10]["body"]["text"] == large and numbers(found[11:]) == [10]
        with stream(gateway, query="&from=earliest&selector=JMSPriority%3D7") as chosen:
            assert chosen.take(1)[0]["body"]["text"] == large


@pytest.mark.long
@pytest.mark.timeout(900)
def test_hundreds_of_thousands_in_bounded_memory(tmp_path: Path) -> None:
    """Read from the first on, with a kill in the middle."""
    count = 200_000
    given = {"http__journal_events": 1000, "journal__segment_messages": 20_000}
    with Running(tmp_path, **given) as gateway:
        with stream(gateway):
            pass
        wire = gateway.wire(1)
        for first in range(0, count, 500):
            several = [
                wire.message("k.x", b"%d" % one, TEXT, exchange="amq.topic")
                for one in range(first, first + 500)
            ]
            wire.send(b"".join(several))
        wire.declare("behind")
        until(lambda: len(list_segments(gateway.data / "journal")) == 10, "segments", 300)
        gateway.kill()
        gateway.start()
        with stream(gateway, query="&from=earliest") as whole:
            grown = [read(gateway, whole, range(count // 2))]
            gateway.kill()
            cursor = whole.cursor
        gateway.start()
        with stream(gateway, cursor) as rest:
            assert rest.resume == "exact"
            grown.append(read(gateway, rest, range(count // 2, count)))
        assert max(grown) < 32 << 20


def read(gateway: Running, reader: Stream, expected: range) -> int:
    """Read these numbers. By how much the gateway grows meanwhile, once it has loaded pyarrow."""
    before = most = 0
    for first in expected[::1000]:
        assert numbers(reader.take(1000)) == list(range(first, first + 1000))
        before = before or gateway.memory
        most = max(most, gateway.memory)
    return most - before


def test_closed_while_a_reader_is_on_its_way(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The gateway stops: its readers end, and are told of no gap."""
    recording = Recording(tmp_path)
    for number in range(5):
        recording.channel.publish(message(b"%d" % number, b"", "", "orders"))
    recording.commit()

    async def close() -> None:
        past = Past(lambda: JournalReader(tmp_path))
        history = History(past, Which("/", "/queues/orders"), Ring(10, 1 << 20, 5))
        behind, other = (Backlog(history, None, lambda position, event: b"") for _ in range(2))
        await behind.load(0)
        assert behind.part is not None and behind.covers(0)
        assert history.reach == 1
        finding = asyncio.create_task(other.load(0))
        await asyncio.sleep(0)  # it is being looked for on the thread
        await past.close()
        await finding
        await behind.load(0)
        assert other.part is None and behind.part is None
        assert not await history.has(1)
        assert history.reach == 1 and history.gap(0) is None

    asyncio.run(close())
    assert caplog.records == []

"""Event streams over a RabbitMQ stream queue: the cursor is the offset, so that a reader resumes
exactly at any other gateway before the same RabbitMQ."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pika
import pytest

from tests.interop import servers
from tests.interop.browser.wire import Wire
from tests.interop.browser.words import until as wait
from tests.interop.servers import HOST, Server
from tests.interop.test_browser_client import Tab
from tests.interop.test_stream_queues import filled, opened
from tests.net.running import PATIENCE, until

pytestmark = [pytest.mark.interop, pytest.mark.timeout(120)]

AUTH = ("guest", "guest")


@pytest.fixture(scope="module")
def gateways(rabbitmq: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Server]]:
    """Two facades before RabbitMQ, which share nothing else."""
    started: list[Server] = []
    try:
        for name in ("one", "two"):
            folder = tmp_path_factory.mktemp(name)
            started.append(servers.start_facade(folder, rabbitmq, extra=["--volatile"]))
        yield started
        for one in started:
            assert "Traceback" not in one.log.read_text()
    finally:
        for one in started:
            one.stop()


class Event:
    def __init__(self, fields: dict[str, str]) -> None:
        self.id = fields.get("id", "")
        self.kind = fields.get("event", "message")
        self.data = json.loads(fields["data"])

    @property
    def number(self) -> int:
        return int(self.data["properties"]["n"])


@contextmanager
def stream(
    gateway: Server, queue: str, cursor: str | None = None, **query: Any
) -> Iterator[tuple[httpx.Response, Iterator[Event]]]:
    """An event stream, and its events as they come."""
    url = f"http://{HOST}:{gateway.http_port}/v1/%2F/queues/{queue}/events"
    fields = {"accept": "text/event-stream"}
    if cursor:
        fields["last-event-id"] = cursor
    asked = httpx.stream("GET", url, params=query, headers=fields, auth=AUTH, timeout=PATIENCE)
    with asked as answer:
        yield answer, events(answer)


def events(answer: httpx.Response) -> Iterator[Event]:
    fields: dict[str, str] = {}
    for line in answer.iter_lines():
        if line:
            name, _, value = line.partition(": ")
            fields[name] = value
        elif fields:
            yield Event(fields)
            fields = {}


def taken(found: Iterator[Event], most: int) -> list[Event]:
    """Messages, without control events."""
    messages: list[Event] = []
    while len(messages) < most:
        one = next(found)
        if one.kind == "message":
            messages.append(one)
    return messages


def numbers(found: list[Event]) -> list[int]:
    return [one.number for one in found]


def published(rabbitmq: Server, queue: str, first: int, count: int, size: int = 0) -> None:
    channel = opened(rabbitmq.port)
    channel.confirm_delivery()
    for n in range(first, first + count):
        properties = pika.BasicProperties(headers={"n": n})
        channel.basic_publish("", queue, b"x" * size, properties)
    channel.connection.close()


def declared(rabbitmq: Server, queue: str, **arguments: Any) -> None:
    channel = opened(rabbitmq.port)
    given = {
        "x-queue-type": "stream",
        **{f"x-{k.replace('_', '-')}": v for k, v in arguments.items()},
    }
    channel.queue_declare(queue, durable=True, arguments=given)
    channel.connection.close()


def test_a_reader_resumes_at_another_gateway(rabbitmq: Server, gateways: list[Server]) -> None:
    """Every cursor leads to exactly the next message, whichever gateway gets it."""
    filled(rabbitmq.port, "stream-resumed", 60)
    one, two = gateways
    with stream(one, "stream-resumed", **{"from": "earliest"}) as (answer, found):
        assert answer.headers["amqp-resume"] == "fresh"
        first = taken(found, 20)
    assert numbers(first) == list(range(20))
    for gateway, n in ((two, 0), (one, 7), (two, 19)):
        with stream(gateway, "stream-resumed", first[n].id) as (answer, found):
            assert answer.headers["amqp-resume"] == "exact"
            opening = next(found)
            assert opening.data["sources"][0]["offset"] == n + 1
            assert opening.id == first[n].id
            assert numbers(taken(found, 40)) == list(range(n + 1, n + 41))
    query = {"last_event_id": first[7].id}
    with stream(two, "stream-resumed", **query) as (answer, found):
        assert answer.headers["amqp-resume"] == "exact"
        assert numbers(taken(found, 1)) == [8]


def test_a_cursor_before_the_first_event(rabbitmq: Server, gateways: list[Server]) -> None:
    """``gateway.open`` has one already: what comes while nobody is here is not lost."""
    for queue, before in (("quiet-empty", 0), ("quiet-filled", 300)):
        filled(rabbitmq.port, queue, before)
        with stream(gateways[0], queue) as (answer, found):
            cursor = next(found).id
        published(rabbitmq, queue, before, 5)
        with stream(gateways[1], queue, cursor) as (answer, found):
            assert answer.headers["amqp-resume"] == "exact"
            assert numbers(taken(found, 5)) == list(range(before, before + 5))


def test_live_events_follow(rabbitmq: Server, gateways: list[Server]) -> None:
    name, (one, two) = "stream-live", gateways
    filled(rabbitmq.port, name, 3)
    with stream(one, name) as (_, found), stream(two, name) as (_, others):
        assert next(found).kind == next(others).kind == "gateway.open"
        published(rabbitmq, name, 3, 20)
        assert numbers(taken(found, 20)) == numbers(taken(others, 20)) == list(range(3, 23))


@pytest.mark.parametrize(
    ("start", "first"),
    [("earliest", 0), ("offset:0", 0), ("offset:33", 33), ("-PT1H", 0), ("offset:70", 80)],
)
def test_where_a_stream_begins(
    rabbitmq: Server, gateways: list[Server], start: str, first: int
) -> None:
    queue = f"begun-{start.replace(':', '-')}"
    filled(rabbitmq.port, queue, 80 if start == "offset:70" else 60)
    begin = "offset:800" if start == "offset:70" else start
    with stream(gateways[0], queue, **{"from": begin}) as (answer, found):
        assert answer.headers["amqp-resume"] == "fresh"
        assert next(found).data["sources"][0]["offset"] == first
        published(rabbitmq, queue, 60 if first < 80 else 80, 1)
        assert numbers(taken(found, 1)) == [first]


def test_messages_that_retention_has_removed(rabbitmq: Server, gateways: list[Server]) -> None:
    queue = "stream-short"
    declared(rabbitmq, queue, max_length_bytes=40_000, stream_max_segment_size_bytes=10_000)
    published(rabbitmq, queue, 0, 10, size=1000)
    with stream(gateways[0], queue, **{"from": "earliest"}) as (_, found):
        cursor = taken(found, 3)[-1].id
    published(rabbitmq, queue, 10, 190, size=1000)
    with stream(gateways[1], queue, cursor) as (answer, found):
        assert answer.headers["amqp-resume"] == "gap"
        seen = [next(found), next(found), next(found)]
    assert [one.kind for one in seen] == ["gateway.open", "gateway.gap", "message"]
    gap, following = seen[1].data, seen[2].data["properties"]["x-stream-offset"]
    assert (gap["from"], gap["to"], gap["lost"]) == (3, following - 1, following - 3)
    with stream(gateways[0], queue, seen[1].id) as (answer, found):
        assert answer.headers["amqp-resume"] == "exact"
        assert taken(found, 1)[0].data["properties"]["x-stream-offset"] == following


def test_a_cursor_of_an_earlier_stream(rabbitmq: Server, gateways: list[Server]) -> None:
    """A stream that was deleted and made again: nothing is claimed."""
    queue = "stream-again"
    filled(rabbitmq.port, queue, 9)
    with stream(gateways[0], queue, **{"from": "earliest"}) as (_, found):
        cursor = taken(found, 9)[-1].id
    channel = opened(rabbitmq.port)
    channel.queue_delete(queue)
    channel.connection.close()
    filled(rabbitmq.port, queue, 4)
    with stream(gateways[1], queue, cursor) as (answer, found):
        assert answer.headers["amqp-resume"] == "gap"
        assert next(found).kind == "gateway.open"
        assert next(found).data["lost"] is None
        assert numbers(taken(found, 4)) == [0, 1, 2, 3]


class Publisher(threading.Thread):
    """Publishes numbers until it is stopped."""

    def __init__(self, rabbitmq: Server, queue: str) -> None:
        super().__init__()
        self.rabbitmq = rabbitmq
        self.queue = queue
        self.done = threading.Event()
        self.count = 0

    def run(self) -> None:
        while not self.done.is_set():
            published(self.rabbitmq, self.queue, self.count, 50)
            self.count += 50


def test_a_gateway_is_killed_in_the_middle(rabbitmq: Server, tmp_path: Path) -> None:
    """``kill -9``, again and again, while events flow: nothing lost, nothing twice."""
    queue = "killed"
    declared(rabbitmq, queue)
    publisher = Publisher(rabbitmq, queue)
    started = [
        servers.start_facade(tmp_path / name, rabbitmq, extra=["--volatile"])
        for name in ("one", "two", "three")
    ]
    publisher.start()
    seen: list[int] = []
    cursor: str | None = None
    try:
        for gateway in started:
            more, before = {} if cursor else {"from": "earliest"}, len(seen)
            with stream(gateway, queue, cursor, **more) as (answer, found):
                assert answer.headers["amqp-resume"] == ("exact" if cursor else "fresh")
                try:
                    for one in found:
                        cursor = one.id or cursor
                        if one.kind == "message":
                            seen.append(one.number)
                        if len(seen) - before >= 400 and gateway.alive:
                            gateway.kill()
                except httpx.TransportError:
                    pass
        assert seen == list(range(len(seen))) and len(seen) > 1000
    finally:
        publisher.done.set()
        publisher.join(PATIENCE)
        for gateway in started:
            gateway.stop()


def begun(rabbitmq: Server, queue: str) -> bool:
    """Whether the queue can be used: RabbitMQ confirms messages that it cannot route to it."""
    channel = opened(rabbitmq.port)
    try:
        channel.queue_declare(queue, passive=True)
    except pika.exceptions.ChannelClosedByBroker:
        return False
    finally:
        channel.connection.close()
    return True


def test_the_upstream_is_lost_and_comes_back(tmp_path: Path) -> None:
    """The stream of the reader stays open, and goes on where it was."""
    if reason := servers.rabbitmq_missing():
        pytest.skip(reason)
    rabbitmq = servers.start_rabbitmq(tmp_path / "rabbitmq")
    queue, port = "back", rabbitmq.port
    try:
        filled(port, queue, 20)
        gateway = servers.start_facade(tmp_path / "front", rabbitmq)
        try:
            with stream(gateway, queue, **{"from": "earliest"}) as (_, found):
                assert numbers(taken(found, 20)) == list(range(20))
                rabbitmq.stop()
                rabbitmq = servers.start_rabbitmq(tmp_path / "rabbitmq", port=port)
                until(lambda: begun(rabbitmq, queue), "the stream at RabbitMQ")
                published(rabbitmq, queue, 20, 20)
                assert numbers(taken(found, 20)) == list(range(20, 40))
            assert "Traceback" not in gateway.log.read_text()
        finally:
            gateway.stop()
    finally:
        rabbitmq.stop()


def resident(server: Server) -> int:
    """Octets of memory of the gateway's process."""
    status = Path(f"/proc/{server.processes[0].pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) * 1024


def test_a_slow_reader_costs_bounded_memory(rabbitmq: Server, gateways: list[Server]) -> None:
    """It reads nothing for a while, and then everything: 200 MB wait at the upstream."""
    queue, count, size = "stream-slow", 2000, 100_000
    declared(rabbitmq, queue)
    published(rabbitmq, queue, 0, count, size)
    gateway = gateways[0]
    before = resident(gateway)
    with stream(gateway, queue, **{"from": "earliest"}) as (_, found):
        assert numbers(taken(found, 1)) == [0]
        highest = 0
        for _ in range(10):
            time.sleep(0.2)
            highest = max(highest, resident(gateway))
        rest = numbers(taken(found, count - 1))
        highest = max(highest, resident(gateway))
    assert rest == list(range(1, count))
    # 256 messages of the prefetch limit, as message and as event, and the parts under way
    assert highest - before < 130_000_000


@pytest.mark.parametrize(
    ("method", "path", "more", "status"),
    [
        ("POST", "deliveries", {"json": {}}, 501),
        ("POST", "deliveries", {"json": {"wait_ms": 1000, "mode": "auto"}}, 501),
        ("GET", "events?ack=explicit", {}, 501),
        ("GET", "events?ack=on-next", {}, 400),
        ("GET", "messages", {}, 501),
    ],
)
def test_a_stream_is_not_taken_from(
    rabbitmq: Server,
    gateways: list[Server],
    method: str,
    path: str,
    more: dict[str, Any],
    status: int,
) -> None:
    """The answer is a problem document, and other readers notice nothing."""
    filled(rabbitmq.port, "stream-kept", 5)
    gateway = gateways[0]
    with stream(gateway, "stream-kept", **{"from": "earliest"}) as (_, found):
        assert numbers(taken(found, 2)) == [0, 1]
        url = f"http://{HOST}:{gateway.http_port}/v1/%2F/queues/stream-kept/{path}"
        fields = {"accept": "text/event-stream, application/json"}
        answer = httpx.request(method, url, auth=AUTH, headers=fields, timeout=PATIENCE, **more)
        assert answer.status_code == status, answer.text
        assert answer.headers["content-type"] == "application/problem+json"
        assert "stream queue" in answer.json()["detail"] or path == "messages"
        assert numbers(taken(found, 3)) == [2, 3, 4]


def test_a_damaged_cursor_is_refused(rabbitmq: Server, gateways: list[Server]) -> None:
    filled(rabbitmq.port, "stream-damaged", 2)
    with stream(gateways[0], "stream-damaged") as (_, found):
        cursor = next(found).id
    damaged = cursor[:-1] + ("A" if cursor[-1] != "A" else "B")
    with stream(gateways[1], "stream-damaged", damaged) as (answer, _):
        assert answer.status_code == 400


def test_several_sources(rabbitmq: Server, gateways: list[Server]) -> None:
    """The stream queue resumes at the other gateway; of the journal of an exchange, which is
    another one there, a gap is told."""
    filled(rabbitmq.port, "stream-several", 5)
    query = {"source": ["queue:stream-several", "exchange:amq.fanout"], "from": "earliest"}
    fields = {"accept": "text/event-stream"}
    cursor = ""
    for gateway in gateways:
        url = f"http://{HOST}:{gateway.http_port}/v1/%2F/events"
        more = {"last-event-id": cursor} if cursor else {}
        asked = httpx.stream(
            "GET", url, params=query, headers=fields | more, auth=AUTH, timeout=PATIENCE
        )
        with asked as answer:
            found = events(answer)
            opening = next(found)
            by_source = {one["source"]: one["resume"] for one in opening.data["sources"]}
            if cursor:
                assert by_source == {
                    "queue:stream-several": "exact",
                    "exchange:amq.fanout?binding=": "gap",
                }
                assert numbers(taken(found, 2)) == [3, 4]
            else:
                seen = taken(found, 3)
                assert numbers(seen) == [0, 1, 2]
                cursor = seen[-1].id


def test_streams_end_at_the_upstream(rabbitmq: Server, gateways: list[Server]) -> None:
    """With its last reader gone, nothing of a subscription is left."""
    filled(rabbitmq.port, "stream-ended", 5)
    base = f"http://{HOST}:{gateways[0].http_port}"

    def feeds() -> int:
        found = httpx.get(f"{base}/v1/admin/facades", auth=AUTH, timeout=PATIENCE).json()
        return int(found["facades"][0]["feeds"])

    with stream(gateways[0], "stream-ended", **{"from": "earliest"}) as (_, found):
        assert numbers(taken(found, 5)) == [0, 1, 2, 3, 4]
        reading = feeds()
        with stream(gateways[0], "stream-ended", **{"from": "earliest"}) as (_, others):
            assert numbers(taken(others, 5)) == [0, 1, 2, 3, 4]
            until(lambda: feeds() == reading + 1, "the second subscription alone")
        until(lambda: feeds() == reading, "end of the second subscription")
    until(lambda: feeds() == reading - 1, "end of the first subscription")


def test_a_browser_goes_on_at_another_gateway(
    chrome: Any, rabbitmq: Server, gateways: list[Server]
) -> None:
    """The shipped client and the browser's own ``EventSource``, before a network that breaks and
    then leads to the other gateway."""
    one, two = gateways
    assert one.http_port is not None and two.http_port is not None
    filled(rabbitmq.port, "stream-browsed", 30)
    with Wire(one.http_port) as wire:
        url = "/v1/%2F/queues/stream-browsed/events?from=earliest"
        tab = Tab(chrome, wire.port, url, native=True, share=False, transport="fetch")

        def seen(name: str) -> list[int]:
            return [json.loads(data)["properties"]["n"] for data, _ in tab.look(name)]

        def all_seen(count: int) -> bool:
            return min(len(seen("seen")), len(seen("native"))) >= count

        try:
            wait(tab.page, lambda: all_seen(30), "the first part")
            wire.cut()
            wire.behind = two.http_port
            published(rabbitmq, "stream-browsed", 30, 20)
            wire.mend()
            wait(tab.page, lambda: all_seen(50), "the second part")
            assert seen("seen") == seen("native") == list(range(50))
            assert tab.opens == ["fresh", "exact"]
        finally:
            tab.close()


def test_a_source_is_added_to_a_live_stream(rabbitmq: Server, gateways: list[Server]) -> None:
    """The cursor of the stream leads on in both stream queues, at the other gateway too."""
    for queue in ("added-one", "added-two"):
        filled(rabbitmq.port, queue, 4)
    one, two = gateways
    query = {"source": "queue:added-one", "from": "earliest"}
    fields = {"accept": "text/event-stream"}
    url = f"http://{HOST}:{one.http_port}/v1/%2F/events"
    asked = httpx.stream("GET", url, params=query, headers=fields, auth=AUTH, timeout=PATIENCE)
    with asked as answer:
        found = events(answer)
        assert numbers(taken(found, 4)) == [0, 1, 2, 3]
        path = f"http://{HOST}:{one.http_port}/v1/%2F/streams/{answer.headers['amqp-stream-id']}"
        change = {"add": ["queue:added-two"], "from": "offset:1"}
        changed = httpx.patch(path, json=change, auth=AUTH, timeout=PATIENCE)
        assert changed.status_code == 200, changed.text
        seen = taken(found, 2)
        assert numbers(seen) == [1, 2]
        assert {event.data["source"] for event in seen} == {"queue:added-two"}
    published(rabbitmq, "added-one", 4, 1)
    both = {"source": ["queue:added-one", "queue:added-two"]}
    url = f"http://{HOST}:{two.http_port}/v1/%2F/events"
    again = fields | {"last-event-id": seen[-1].id}
    asked = httpx.stream("GET", url, params=both, headers=again, auth=AUTH, timeout=PATIENCE)
    with asked as answer:
        assert answer.headers["amqp-resume"] == "exact"
        rest = taken(events(answer), 2)
        assert {(one.data["source"], one.number) for one in rest} == {
            ("queue:added-one", 4),
            ("queue:added-two", 3),
        }

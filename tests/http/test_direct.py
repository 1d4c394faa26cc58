"""Plain publishes that are answered within a read: as the ordinary way does, and only those."""

import asyncio
import contextlib
import json
import logging
import random
from collections import Counter
from collections.abc import AsyncIterator
from itertools import pairwise
from typing import Any

import pytest

from gateway.adapters.methods.content import BASIC
from gateway.http.access.protocol import Pipe
from gateway.http.direct import MOST_HEADS, MOST_SEEN, DirectPublish
from gateway.http.direct_protocol import AT_ONCE, DirectProtocol, lines_of
from gateway.message import Message, Properties
from gateway.operations import DeleteQueue
from tests.http.test_fast_path import ASKED, CALLER, QUEUE, prepared, request, served, talk

KEPT = "/v1/%2F/queues/kept/messages"
ROUTE = "/v1/{vhost}/queues/{queue}/messages"
AUTHORIZATION = f"Authorization: {CALLER['authorization']}"


def raw(path: str, fields: dict[str, str], body: bytes = b"x") -> bytes:
    given = {"host": "localhost", **CALLER, **fields, "content-length": str(len(body))}
    lines = [f"POST {path} HTTP/1.1", *(f"{name}: {value}" for name, value in given.items())]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


@pytest.fixture
def answered(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How many requests were answered at once, or had to go the ordinary way."""
    found: Counter[str] = Counter()
    publish, known = DirectPublish.publish, DirectPublish.known

    def counted(self: DirectPublish, *given: Any) -> Any:
        done = publish(self, *given)
        found[type(done).__name__] += 1
        return done

    def looked_up(self: DirectPublish, octets: bytes) -> Any:
        head = known(self, octets)
        found["known"] += head is not None
        return head

    monkeypatch.setattr(DirectPublish, "publish", counted)
    monkeypatch.setattr(DirectPublish, "known", looked_up)
    return found


def without_ids(found: Any) -> Any:
    return [
        ([line for line in lines if not line.startswith("x-request-id:")], document)
        for lines, document in found
    ]


@pytest.mark.parametrize("pages", [False, True], ids=["no pages", "pages"])
@pytest.mark.parametrize("what", ASKED)
async def test_all_ways_answer_alike(make_rig: Any, what: str, pages: bool) -> None:
    path, fields = ASKED[what]
    found = []
    for direct in (True, False):
        rig = prepared(make_rig, origins=["https://app.example"] if pages else [])
        async with served(rig, direct) as port:
            # Known credentials, then a head that came before, then one that is known.
            answers = []
            for _ in range(5):
                try:
                    answers += await talk(port, raw(path, fields), 1)
                except asyncio.IncompleteReadError:
                    answers.append((["closed"], {}))
            context = rig.app.state.context
            counted = dict(context.counters.requests), context.publisher.meter.outcomes
            found.append((without_ids(answers), counted, rig.depth("orders")))
    assert found[0] == found[1]


async def test_a_head_is_parsed_until_it_is_known(make_rig: Any, answered: Counter[str]) -> None:
    rig = prepared(make_rig)
    async with served(rig) as port:
        for number in range(6):
            body = b"n%d" % number
            await talk(port, raw(QUEUE, {}, body), 1)
    assert answered["known"] == 4  # a head is kept when it comes for the second time
    assert answered["Answer"] == 5  # all but the first, whose credentials are new
    assert [bytes(rig.fetch("orders").body) for _ in range(6)] == [b"n%d" % n for n in range(6)]


async def test_each_message_has_its_own_id(make_rig: Any) -> None:
    rig = prepared(make_rig)
    async with served(rig) as port:
        await talk(port, raw(QUEUE, {}) * 8, 8)
    ids = {rig.fetch("orders").properties.message_id for _ in range(8)}
    assert len(ids) == 8


@pytest.mark.parametrize("seed", range(6))
async def test_octets_that_come_in_any_pieces(
    make_rig: Any, seed: int, answered: Counter[str]
) -> None:
    """Pipelined, cut anywhere, with refused and ordinary requests between."""
    draw = random.Random(seed)
    sent = []
    for number in range(40):
        way = draw.random()
        path = QUEUE if way < 0.8 else "/v1/%2F/queues/none/messages"
        fields = {"x-request-id": "again" if number % 3 else f"n-{number}"}
        if 0.3 < way < 0.4:
            fields["prefer"] = "wait=5"
        sent.append(
            raw(path, fields, b"%02d-" % number + b"y" * draw.choice([0, 0, 0, 300, 70_000]))
        )
    bursts = []
    while sent:
        size = draw.randint(1, 4)
        some, sent = sent[:size], sent[size:]
        octets = b"".join(some)
        cuts = sorted(draw.randrange(len(octets)) for _ in range(draw.randint(0, 3)))
        bursts.append((len(some), [octets[a:b] for a, b in pairwise([0, *cuts, len(octets)])]))
    found = []
    for direct in (True, False):
        rig = prepared(make_rig)
        async with served(rig, direct) as port:
            await talk(port, raw(QUEUE, {}), 1)
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            answers = []
            for number, pieces in bursts:
                told = asyncio.create_task(read_all(reader, number))
                for piece in pieces:
                    writer.write(piece)
                    await writer.drain()
                    await asyncio.sleep(0)
                answers += await asyncio.wait_for(told, 60)
            writer.close()
        bodies = [bytes(rig.fetch("orders").body) for _ in range(rig.depth("orders")[0])]
        found.append((answers, bodies))
    assert found[0] == found[1]
    assert len(found[0][0]) == 40
    assert answered["Answer"] and answered["known"]


async def read_all(reader: asyncio.StreamReader, answers: int) -> list[tuple[str, str]]:
    """Status line and request id of each answer."""
    found = []
    for _ in range(answers):
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower().split("\r\n")
        (length,) = (int(line[15:]) for line in head if line.startswith("content-length:"))
        (name,) = (line for line in head if line.startswith("x-request-id:"))
        await reader.readexactly(length)
        found.append((head[0], name))
    return found


async def test_a_slow_disk_delays_the_answer_and_those_behind_it(
    make_rig: Any, answered: Counter[str]
) -> None:
    rig = make_rig(volatile=False)
    rig.queue("orders")
    rig.queue("kept", durable=True)
    async with served(rig) as port:
        for _ in range(4):
            await talk(port, raw(KEPT, {}), 1)
        rig.held = True
        answered.clear()
        asked = raw(KEPT, {}) + raw(QUEUE, {"x-request-id": "second"})
        told = asyncio.create_task(talk(port, asked, 2))
        await rig.until(lambda: answered["Published"])
        assert not told.done()
        rig.release()
        first, second = await told
    assert answered["known"] == 1
    assert first[1]["durability"] == "disk"
    assert "x-request-id: second" in second[0]
    assert (rig.depth("kept"), rig.depth("orders")) == ((5, 0), (1, 0))
    counted = rig.app.state.context.counters
    assert sum(counted.requests.values()) == sum(counted.published.values()) == 6


@contextlib.asynccontextmanager
async def waiting(make_rig: Any, answered: Counter[str], **settings: Any) -> AsyncIterator[Any]:
    """A rig whose disk is held, and a connection with a durable message that waits for it."""
    rig = make_rig(volatile=False, **settings)
    rig.queue("kept", durable=True)
    async with served(rig) as port:
        for _ in range(4):
            await talk(port, raw(KEPT, {}), 1)
        rig.held = True
        answered.clear()
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(raw(KEPT, {}))
        await rig.until(lambda: answered["Published"])
        try:
            yield rig, reader, writer
        finally:
            rig.release()
            writer.close()


async def test_a_time_limit_ends_the_wait(make_rig: Any, answered: Counter[str]) -> None:
    async with waiting(make_rig, answered, confirm_seconds=0.05) as (rig, reader, writer):
        ((status, _),) = await asyncio.wait_for(read_all(reader, 1), 10)
        assert "504" in status
        rig.release()
        writer.write(raw(KEPT, {}))
        ((status, _),) = await asyncio.wait_for(read_all(reader, 1), 10)
        assert "201" in status
        assert rig.depth("kept")[0] == 6


async def test_a_client_may_go_while_it_waits(make_rig: Any, answered: Counter[str]) -> None:
    async with waiting(make_rig, answered) as (rig, reader, writer):
        writer.transport.abort()
        rig.release()
        await rig.until(lambda: rig.depth("kept") == (5, 0))


async def test_a_server_that_stops_answers_first(
    make_rig: Any, answered: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    connections = []
    made = DirectProtocol.connection_made

    def kept(self: DirectProtocol, transport: Any) -> None:
        connections.append(self)
        made(self, transport)

    monkeypatch.setattr(DirectProtocol, "connection_made", kept)
    async with waiting(make_rig, answered) as (rig, reader, writer):
        connections[-1].shutdown()
        rig.release()
        ((status, _),) = await asyncio.wait_for(read_all(reader, 1), 10)
        assert "201" in status
        assert await asyncio.wait_for(reader.read(), 10) == b""


async def test_a_lost_virtual_host_is_told(make_rig: Any, answered: Counter[str]) -> None:
    async with waiting(make_rig, answered) as (rig, reader, writer):
        (channel,) = rig.app.state.context.publisher.channels.values()
        channel.client.close()
        ((status, _),) = await asyncio.wait_for(read_all(reader, 1), 10)
        assert "502" in status


async def test_no_more_than_some_within_one_read(make_rig: Any, answered: Counter[str]) -> None:
    rig = prepared(make_rig)
    many = 3 * AT_ONCE
    async with served(rig) as port:
        await talk(port, raw(QUEUE, {}), 1)
        await talk(port, b"".join(request(number) for number in range(many)), many)
    assert rig.depth("orders") == (many + 1, 0)
    assert answered["Answer"] < many


async def changed_password(rig: Any) -> None:
    rig.broker.access.change_password("alice", "another")


async def forbidden(rig: Any) -> None:
    rig.broker.access.set_permissions("alice", "/", ".*", "^$", ".*")


async def deleted_queue(rig: Any) -> None:
    rig.begin()
    rig.channel.topology.delete_queue(DeleteQueue(1, None, "orders"))
    rig.end()


async def shutting_down(rig: Any) -> None:
    rig.app.state.context.publisher.closed = True


CHANGES = {
    "password": (changed_password, 401),
    "permissions": (forbidden, 403),
    "queue": (deleted_queue, 404),
    "shutdown": (shutting_down, 503),
}


@pytest.mark.parametrize("what", CHANGES)
async def test_what_changes_counts_at_once(make_rig: Any, what: str) -> None:
    change, status = CHANGES[what]
    rig = prepared(make_rig)
    async with served(rig) as port:
        for _ in range(4):
            await talk(port, raw(QUEUE, {}), 1)
        await change(rig)
        ((lines, document),) = await talk(port, raw(QUEUE, {}), 1)
    assert document["status"] == status
    assert any(line.startswith(f"http/1.1 {status}") for line in lines)


async def test_a_failure_is_a_problem_document_and_in_the_log(
    make_rig: Any, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    rig = prepared(make_rig)
    async with served(rig) as port:
        for _ in range(4):
            await talk(port, raw(QUEUE, {}), 1)

        def broken(vhost: str) -> None:
            raise RuntimeError("a mistake of ours, with wonder in it")

        with caplog.at_level(logging.ERROR, "gateway.http"):
            monkeypatch.setattr(rig.app.state.context.publisher, "check_open", broken)
            ((lines, document),) = await talk(port, raw(QUEUE, {}), 1)
            monkeypatch.undo()
        assert document["status"] == 500
        assert "wonder" not in json.dumps(document)
        assert "internal error in a publish" in caplog.text
        await talk(port, raw(QUEUE, {}), 1)
    assert rig.app.state.context.counters.requests["POST", ROUTE, 500] == 1


async def test_heads_are_bounded_and_hold_no_secret(make_rig: Any) -> None:
    direct = DirectPublish(prepared(make_rig).app)
    octets = raw(QUEUE, {}, b"")
    pairs = [(b"host", b"localhost"), (b"authorization", CALLER["authorization"].encode())]
    head = direct.read(b"POST", QUEUE.encode(), pairs)
    assert head is not None
    direct.remember(octets, head)
    assert direct.known(octets) is None
    direct.remember(octets, head)
    assert direct.known(octets) is head
    assert "YWxpY2U6d29uZGVy" not in repr((direct.heads, direct.seen))
    for number in range(MOST_SEEN + 10):
        direct.remember(b"%d" % number, head)
    assert len(direct.heads) == 1 and len(direct.seen) <= MOST_SEEN
    for number in range(MOST_HEADS + 10):
        direct.remember(b"n%d" % number, head)
        direct.remember(b"n%d" % number, head)
    assert len(direct.heads) <= MOST_HEADS


def test_only_heads_whose_lines_end_alike_are_remembered() -> None:
    assert lines_of(b"POST / HTTP/1.1\r\nHost: a\r\n\r\n") == 3
    assert lines_of(b"POST / HTTP/1.1\nHost: a\r\n\r\n") == 0
    assert lines_of(b"POST / HTTP/1.1\r\nHost: a\rb\r\n\r\n") == 0


@pytest.mark.parametrize(
    "head",
    [
        f"POST {QUEUE} HTTP/1.1\r\nHost: localhost\r\n{AUTHORIZATION}\r\nContent-Length: 1\n\r\n",
        f"POST {QUEUE} HTTP/1.1\r\nHost: localhost\r\n{AUTHORIZATION}\r\nA: b\r\n c\r\n"
        "Content-Length: 1\r\n\r\n",
        f"POST {QUEUE} HTTP/1.1\r\nHost: localhost\r\n{AUTHORIZATION}\r\nContent-Length: 1\r\n"
        "Content-Length: 1\r\n\r\n",
        f"POST {QUEUE} HTTP/1.0\r\nHost: localhost\r\n{AUTHORIZATION}\r\nContent-Length: 1\r\n"
        "Connection: keep-alive\r\n\r\n",
        f"POST {QUEUE} HTTP/1.1\r\nHost: localhost\r\n{AUTHORIZATION}\r\nContent-Length: 1\r\n"
        "Connection: Upgrade\r\nUpgrade: h2c\r\n\r\n",
        f"POST {QUEUE} HTTP/1.1\r\nHost: localhost\r\n{AUTHORIZATION}\r\n"
        "Transfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n",
    ],
    ids=["bare line end", "folded", "two lengths", "1.0", "upgrade", "two framings"],
)
async def test_strange_heads_are_answered_as_ever(
    make_rig: Any, head: str, answered: Counter[str]
) -> None:
    found = []
    for direct in (True, False):
        rig = prepared(make_rig)
        async with served(rig, direct) as port:
            await talk(port, raw(QUEUE, {}), 1)
            told = []
            for _ in range(4):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(head.encode() + b"x")
                line = await asyncio.wait_for(reader.readline(), 30)
                told.append(line)
                writer.close()
            found.append((told, rig.depth("orders")))
    assert found[0] == found[1]
    assert not answered["known"]


async def test_an_idle_connection_is_closed_without_a_word(make_rig: Any) -> None:
    rig = prepared(make_rig)
    async with served(rig, timeout_keep_alive=1) as port:
        await talk(port, raw(QUEUE, {}), 1)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for _ in range(4):
            writer.write(raw(QUEUE, {}))
            await read_all(reader, 1)
        assert await asyncio.wait_for(reader.read(), 30) == b""
        writer.close()


@pytest.mark.parametrize(
    "settings",
    [
        {"log_requests": True},
        {"quota": {"requests": 100, "requests_seconds": 3600}},
        {"trusted_proxies": ["127.0.0.1"]},
        {"raw_nodes": False},
    ],
    ids=lambda settings: next(iter(settings)),
)
async def test_what_needs_more_is_never_answered_at_once(
    make_rig: Any, settings: dict[str, Any], answered: Counter[str]
) -> None:
    rig = prepared(make_rig, **settings)
    async with served(rig) as port:
        for _ in range(4):
            await talk(port, raw(QUEUE, {}), 1)
    assert not answered.total()


async def test_a_reader_gets_a_lone_event_before_its_publisher_the_answer(
    rig: Any, listener: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Events of several publishes in one read are written together."""
    order: list[str] = []
    places: list[Any] = []
    write_event, write_answer = Pipe.write, DirectProtocol.write

    def event(self: Pipe, piece: bytes) -> None:
        order.append("event")
        write_event(self, piece)

    def answer(self: DirectProtocol, *given: Any) -> None:
        order.append("answer")
        write_answer(self, *given)

    monkeypatch.setattr(Pipe, "write", event)
    monkeypatch.setattr(DirectProtocol, "write", answer)
    one = raw("/v1/%2F/exchanges/amq.topic/messages?routing_key=a", {})
    async with rig.served() as port:
        await talk(port, one, 1)  # the credentials are known from here on
        query = "source=exchange:amq.topic%3Fbinding%3Da"
        async with listener(port, query) as stream:
            await stream.opened()
            for requests, written in (
                (1, ["answer", "event"]),  # whether events come alone is not known yet
                (1, ["event", "answer"]),
                (1, ["event", "answer"]),
                (3, ["event", "answer", "answer", "answer", "event"]),
                (3, ["answer", "answer", "answer", "event"]),
                (1, ["answer", "event"]),
                (1, ["event", "answer"]),
            ):
                order.clear()
                await talk(port, one * requests, requests)
                for _ in range(requests):
                    event_id = (await stream.until()).id
                    places.append(rig.app.state.hub.cursors.open(event_id))
                assert order == written
    first = places[0]
    assert places == [{key: at + n for key, at in first.items()} for n in range(len(places))]


async def test_a_lone_event_is_written_within_the_turn_of_any_publisher(
    rig: Any, listener: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[bytes] = []
    write = Pipe.write

    def event(self: Pipe, piece: bytes) -> None:
        written.append(piece)
        write(self, piece)

    monkeypatch.setattr(Pipe, "write", event)
    header = BASIC.write(Properties())
    query = "source=exchange:amq.topic%3Fbinding%3Da"
    async with rig.served() as port, listener(port, query) as stream:
        await stream.opened()
        for many in (0, 1, 2):  # whether events come alone is not known at the first
            body = b"n%d" % many
            message = Message(BASIC, header, body, "amq.topic", "a", BASIC.essentials(header))
            rig.begin()
            rig.channel.publish(message)
            assert len(written) == (many and many + 1)
            rig.end()
            await stream.until()


async def test_a_known_head_from_elsewhere_is_another_request(make_rig: Any) -> None:
    rig = prepared(make_rig)
    access = rig.broker.access
    access.adopt(access.user("alice")._replace(loopback_only=True))
    head: Any = None
    async with served(rig) as port:
        await talk(port, raw(QUEUE, {}), 1)  # the credentials are known from here on
    direct = DirectPublish(rig.app)
    pairs = [(b"host", b"localhost"), (b"authorization", CALLER["authorization"].encode())]
    head = direct.read(b"POST", QUEUE.encode(), pairs)
    assert head is not None
    for peer, taken in (("127.0.0.1", True), ("192.0.2.1", False), ("127.0.0.1", True)):
        for _ in range(2):
            assert (direct.publish(head, b"x", (peer, 1)) is not None) is taken
    access.adopt(access.user("alice")._replace(tags=("monitoring",)))
    assert direct.publish(head, b"x", ("127.0.0.1", 1)) is not None
    access.remove_user("alice")
    assert direct.publish(head, b"x", ("127.0.0.1", 1)) is None

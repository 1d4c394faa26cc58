"""Large bodies are shown without holding up the loop: looked at and written in portions."""

import asyncio
import base64
import json
from typing import Any

import pytest

from gateway.http import message_json, portions, prepared_bodies
from gateway.http.events import rendering
from gateway.http.octets import Chunks
from gateway.message import DIALECTS, NO_ESSENTIALS, Message
from tests.http.stream_words import ALL

KIND = {"Content-Type": "application/json"}
NUMBERS = json.dumps({"n": list(range(120_000)), "text": "é\n" * 1000}, ensure_ascii=False).encode()
TEXT = ('wörd \U0001f600 "quoted"\n' * 30_000).encode()
MOST = 3 * prepared_bodies.PIECE
"""Octets of a piece."""
CASES = [
    ("application/json", None, NUMBERS),
    ("application/json", None, NUMBERS[:-1]),
    ("application/json; charset=utf-8", None, b"\r\n" + NUMBERS.replace(b", ", b",\r\n")),
    ("application/json", "gzip", NUMBERS),
    ("application/x+json", None, NUMBERS),
    ("text/plain", None, TEXT),
    ("text/plain", None, TEXT + b"\xff"),
    ("text/xml", None, TEXT[:-3]),
    ("image/png", None, TEXT[:-1]),
    (None, None, NUMBERS),
]


@pytest.mark.parametrize(("content_type", "coding", "octets"), CASES)
async def test_pieces_make_the_whole(
    content_type: str | None, coding: str | None, octets: bytes
) -> None:
    steps = list(prepared_bodies.body_steps(*message_json.reading_of(content_type, coding), octets))
    assert b"".join(steps) == message_json.body_json(content_type, coding, octets)
    assert len(steps) > len(octets) // prepared_bodies.PIECE
    assert max(map(len, steps)) < 3 * prepared_bodies.PIECE


@pytest.mark.parametrize("octets", [TEXT, TEXT[:-1], TEXT + b"\r", TEXT + b"\xff"])
async def test_lines_in_pieces(octets: bytes) -> None:
    message = Message(DIALECTS["0-9-1"], b"\0\0", octets, "", "k", NO_ESSENTIALS)
    at_once = bytes(rendering.text_line("queue:q", 7, message))
    key = await prepared_bodies.acquire(message, "text")
    assert key is not None and max(map(len, message_json.PREPARED[key].parts), default=0) < MOST
    made = rendering.text_line("queue:q", 7, message)
    assert bytes(made) == at_once
    assert b"not-text" in at_once or isinstance(made, Chunks)
    prepared_bodies.release([key])


class Watched:
    """The application, whose answers come in pieces: no write is large."""

    def __init__(self, app: Any) -> None:
        self.app = app

    def __getattr__(self, name: str) -> Any:
        return getattr(self.app, name)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        async def sending(message: Any) -> None:
            assert len(message.get("body", b"")) < MOST, "a large piece"
            await send(message)

        await self.app(scope, receive, sending)


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Each step is a slice of time. Nothing large is looked at, or encoded, at once."""
    found: list[float] = []

    class Counting:
        @staticmethod
        async def sleep(seconds: float) -> None:
            found.append(seconds)
            await asyncio.sleep(seconds)

    now = iter(range(10**9))
    monkeypatch.setattr(portions, "clock", lambda: next(now))
    monkeypatch.setattr(portions, "asyncio", Counting)
    at_once, dumps = message_json.is_json, message_json.compact

    def small(body: bytes) -> bool:
        assert len(body) <= prepared_bodies.HEAVY, "a large body at once"
        return at_once(body)

    def little(value: Any) -> bytes:
        made = dumps(value)
        assert len(made) <= MOST, "a large body at once"
        return made

    encode = base64.b64encode

    def bits(body: bytes) -> bytes:
        assert len(body) <= prepared_bodies.HEAVY, "a large body at once"
        return encode(body)

    monkeypatch.setattr(message_json, "is_json", small)
    monkeypatch.setattr(message_json, "compact", little)
    monkeypatch.setattr(rendering, "compact", little)
    monkeypatch.setattr(base64, "b64encode", bits)
    return found


async def put(rig: Any, path: str, body: bytes = NUMBERS) -> None:
    async with rig.http() as http:
        answer = await http.post(path, content=body, headers=KIND)
        assert answer.status_code == 201, answer.text


@pytest.mark.parametrize(
    "query",
    [
        ALL,
        "source=exchange%3Aamq.topic%3Fbinding%3D%23&journal=durable",
        ALL + "&source=exchange:news",
        ALL + "&filter=key%5E%3Dk",
        ALL + "&event=subject",
        ALL + "&payload=base64",
        ALL + "&format=full",
        ALL + "&format=cloudevents",
        "source=queue:orders&format=full",
        "source=queue:orders",
        "source=queue:orders&ack=explicit",
    ],
)
async def test_streams(make_rig: Any, listener: Any, pauses: list[float], query: str) -> None:
    rig = make_rig(volatile=False)
    rig.app = Watched(rig.app)
    rig.exchange("prices")
    rig.exchange("news", "fanout")
    rig.queue("orders", durable=True)
    rig.bind("orders", "prices", "#")
    exchange = "amq.topic" if "durable" in query else "prices"
    path = f"/v1/%2F/exchanges/{exchange}/messages?routing_key=k"
    async with rig.served() as port, listener(port, query) as one, listener(port, query) as other:
        for reader in (one, other):
            await reader.until("gateway.open")
        pauses.clear()
        await put(rig, path, b"1")
        await put(rig, path)
        await put(rig, path, b"2")
        readers = [one, other]
        for reader in readers:
            found: list[Any] = []
            while len(found) < (1 if "explicit" in query else 3):
                event = await reader.event()
                if event.data and "body" in event.data:
                    found.append(event.body)
                elif event.data and "data" in event.data:
                    found.append({"json": event.data["data"]})
            if "explicit" in query:
                continue  # they compete
            if "full" in query:
                assert found[1]["kind"] == "data"
                assert [base64.b64decode(one["base64"]) for one in found] == [b"1", NUMBERS, b"2"]
            elif "base64" in query:
                assert base64.b64decode(found[1]["base64"]) == NUMBERS
            else:
                assert found == [{"json": 1}, {"json": json.loads(NUMBERS)}, {"json": 2}]
        assert len(pauses) > len(NUMBERS) // prepared_bodies.PIECE
    assert not prepared_bodies.MAKING and not prepared_bodies.USERS and not message_json.PREPARED


@pytest.mark.parametrize("view", ["simple", "full"])
async def test_receiving(make_rig: Any, pauses: list[float], view: str) -> None:
    rig = make_rig()
    rig.app = Watched(rig.app)
    rig.queue("orders")
    await put(rig, "/v1/%2F/queues/orders/messages")

    def check(answer: Any, *way: Any) -> Any:
        shown = json.loads(answer.content)
        body = shown
        for part in way:
            body = body[part]
        if view == "simple":
            assert body["message"]["body"] == {"json": json.loads(NUMBERS)}
        else:
            assert base64.b64decode(body["message"]["body"]["base64"]) == NUMBERS
            assert body["message"]["body"]["kind"] == "data"
        assert len(pauses) > len(NUMBERS) // prepared_bodies.PIECE
        pauses.clear()
        return shown

    async with rig.http() as http:
        pauses.clear()
        check(await http.get(f"/v1/%2F/queues/orders/messages?view={view}"), "messages", 0)
        got = await http.post("/v1/%2F/queues/orders/deliveries", json={"view": view})
        token = check(got, "deliveries", 0)["deliveries"][0]["token"]
        check(await http.get(f"/v1/%2F/deliveries/{token}?view={view}"))
        await http.post(f"/v1/%2F/deliveries/{token}/release")
        if view == "simple":
            asked = {"payload": "base64"}
            got = (await http.post("/v1/%2F/queues/orders/deliveries", json=asked)).json()
            body = got["deliveries"][0]["message"]["body"]
            assert base64.b64decode(body["base64"]) == NUMBERS
    assert not prepared_bodies.MAKING and not prepared_bodies.USERS and not message_json.PREPARED


@pytest.mark.parametrize("encoding", ["auto", "base64"])
async def test_getting_as_rabbitmq_does(make_rig: Any, pauses: list[float], encoding: str) -> None:
    rig = make_rig()
    rig.app = Watched(rig.app)
    rig.queue("orders")
    await put(rig, "/v1/%2F/queues/orders/messages")
    asked = {"count": 5, "ackmode": "ack_requeue_true", "encoding": encoding}
    async with rig.http() as http:
        for truncate in (len(NUMBERS) - 7, None):
            pauses.clear()
            more = {} if truncate is None else {"truncate": truncate}
            (got,) = (await http.post("/api/queues/%2F/orders/get", json=asked | more)).json()
            payload = got["payload"]
            octets = payload.encode() if encoding == "auto" else base64.b64decode(payload)
            assert octets == NUMBERS[:truncate]
            assert got["payload_encoding"] == ("string" if encoding == "auto" else "base64")
            assert len(pauses) > len(NUMBERS) // prepared_bodies.PIECE
    assert not prepared_bodies.MAKING and not prepared_bodies.USERS and not message_json.PREPARED

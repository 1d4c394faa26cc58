"""Large bodies are shown without holding up the loop: looked at and written in portions."""

import asyncio
import base64
import json
from typing import Any

import pytest
from stream_words import ALL

from gateway.http import portions
from gateway.http.events import heavy, rendering

KIND = {"Content-Type": "application/json"}
NUMBERS = json.dumps({"n": list(range(120_000)), "text": "é\n" * 1000}, ensure_ascii=False).encode()
TEXT = ('wörd \U0001f600 "quoted"\n' * 30_000).encode()
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
    steps = list(heavy.body_steps(content_type, coding, octets))
    assert b"".join(steps) == rendering.body_json(content_type, coding, octets)
    assert len(steps) > len(octets) // heavy.PIECE
    assert max(map(len, steps)) < 3 * heavy.PIECE


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
    at_once, dumps = rendering.is_json, rendering.compact

    def small(body: bytes) -> bool:
        assert len(body) <= heavy.HEAVY, "a large body at once"
        return at_once(body)

    def little(value: Any) -> bytes:
        made = dumps(value)
        assert len(made) <= 3 * heavy.PIECE, "a large body at once"
        return made

    monkeypatch.setattr(rendering, "is_json", small)
    monkeypatch.setattr(rendering, "compact", little)
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
        "source=queue:orders",
        "source=queue:orders&ack=explicit",
    ],
)
async def test_streams(make_rig: Any, listener: Any, pauses: list[float], query: str) -> None:
    rig = make_rig(volatile=False)
    rig.exchange("prices")
    rig.exchange("news", "fanout")
    rig.queue("orders", durable=True)
    rig.bind("orders", "prices", "#")
    exchange = "amq.topic" if "durable" in query else "prices"
    path = f"/v1/%2F/exchanges/{exchange}/messages?routing_key=k"
    async with rig.served() as port, listener(port, query) as one, listener(port, query) as other:
        for reader in (one, other):
            await reader.until("bridge.open")
        pauses.clear()
        await put(rig, path, b"1")
        await put(rig, path)
        await put(rig, path, b"2")
        readers = [one, other]
        for reader in readers:
            found = []
            while len(found) < (1 if "explicit" in query else 3):
                event = await reader.event()
                if event.data and "body" in event.data:
                    found.append(event.body)
            if "explicit" in query:
                continue  # they compete
            if "base64" in query:
                assert base64.b64decode(found[1]["base64"]) == NUMBERS
            else:
                assert found == [{"json": 1}, {"json": json.loads(NUMBERS)}, {"json": 2}]
        assert len(pauses) > len(NUMBERS) // heavy.PIECE
    assert not heavy.MAKING and not heavy.USERS and not rendering.SHOWN


async def test_receiving(make_rig: Any, pauses: list[float]) -> None:
    rig = make_rig()
    rig.queue("orders")
    await put(rig, "/v1/%2F/queues/orders/messages")
    async with rig.http() as http:
        pauses.clear()
        seen = (await http.get("/v1/%2F/queues/orders/messages")).json()["messages"]
        assert seen[0]["message"]["body"] == {"json": json.loads(NUMBERS)}
        assert len(pauses) > len(NUMBERS) // heavy.PIECE
        pauses.clear()
        got = (await http.post("/v1/%2F/queues/orders/deliveries", json={})).json()["deliveries"]
        assert got[0]["message"]["body"] == {"json": json.loads(NUMBERS)}
        assert len(pauses) > len(NUMBERS) // heavy.PIECE
        pauses.clear()
        token = got[0]["token"]
        shown = (await http.get(f"/v1/%2F/deliveries/{token}")).json()
        assert shown["message"]["body"] == {"json": json.loads(NUMBERS)}
        assert len(pauses) > len(NUMBERS) // heavy.PIECE
        await http.post(f"/v1/%2F/deliveries/{token}/release")
        asked = {"payload": "base64"}
        got = (await http.post("/v1/%2F/queues/orders/deliveries", json=asked)).json()
        body = got["deliveries"][0]["message"]["body"]
        assert base64.b64decode(body["base64"]) == NUMBERS
    assert not heavy.MAKING and not heavy.USERS and not rendering.SHOWN

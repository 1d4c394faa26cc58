"""RabbitMQ's publish is answered within a read as its endpoint answers."""

import asyncio
import json
from collections import Counter
from typing import Any

import pytest

from tests.http.test_direct import answered, raw, without_ids
from tests.http.test_fast_path import prepared, served, talk

__all__ = ["answered"]

PATH = "/api/exchanges/%2F/amq.default/publish"
TOPIC = "/api/exchanges/%2F/amq.topic/publish"
GOOD: dict[str, Any] = {
    "properties": {},
    "routing_key": "orders",
    "payload": "x",
    "payload_encoding": "string",
}
HEADERS = {"headers": {"n": 1, "t": ["a", {"b": None}]}}
PROPERTIES = {"delivery_mode": 2, "message_id": "m-1", "headers": {"n": 1, "t": ["a", {"b": 2}]}}

ASKED: dict[str, tuple[str, bytes]] = {
    "plain": (PATH, json.dumps(GOOD).encode()),
    "properties": (PATH, json.dumps(GOOD | {"properties": PROPERTIES}).encode()),
    "base64": (PATH, json.dumps(GOOD | {"payload": "AP8=", "payload_encoding": "base64"}).encode()),
    "topic": (TOPIC, json.dumps(GOOD | {"routing_key": "k"}).encode()),
    "not routed": (TOPIC, json.dumps(GOOD | {"routing_key": "none"}).encode()),
    "number as key": (TOPIC, json.dumps(GOOD | {"routing_key": 7}).encode()),
    "full": (PATH, json.dumps(GOOD | {"routing_key": "full"}).encode()),
    "slash": (PATH + "/", json.dumps(GOOD).encode()),
    "query": (PATH + "?x=1", json.dumps(GOOD).encode()),
    "no exchange": (PATH.replace("amq.default", "none"), json.dumps(GOOD).encode()),
    "no vhost": (PATH.replace("%2F", "none"), json.dumps(GOOD).encode()),
    "empty name": (PATH.replace("amq.default", ""), json.dumps(GOOD).encode()),
    "not UTF-8": (PATH.replace("amq.default", "%ff"), json.dumps(GOOD).encode()),
    "missing": (PATH, b'{"routing_key": "orders"}'),
    "not JSON": (PATH, b"{"),
    "not an object": (PATH, b"[]"),
    "twice": (PATH, b'{"payload": "x", "payload": "y"}'),
    "bad properties": (PATH, json.dumps(GOOD | {"properties": {"priority": 256}}).encode()),
    "null in headers": (PATH, json.dumps(GOOD | {"properties": HEADERS}).encode()),
    "bad encoding": (PATH, json.dumps(GOOD | {"payload_encoding": "rot13"}).encode()),
    "bad base64": (PATH, json.dumps(GOOD | {"payload_encoding": "base64"}).encode()),
    "other letters": (PATH, json.dumps(GOOD | {"payload": "caf\u00e9 \U0001f600"}).encode()),
    "half a character": (PATH, json.dumps(GOOD | {"payload": "\ud800"}).encode()),
    "large": (PATH, json.dumps(GOOD | {"payload": "y" * 100_000}).encode()),
    "deep": (PATH, b'{"properties": ' + b"[" * 50 + b"]" * 50 + b"}"),
}


@pytest.mark.parametrize("what", ASKED)
async def test_both_ways_answer_alike(make_rig: Any, what: str) -> None:
    path, body = ASKED[what]
    found = []
    for direct in (True, False):
        rig = prepared(make_rig)
        async with served(rig, direct) as port:
            answers = []
            for _ in range(5):
                try:
                    answers += await talk(port, raw(path, {}, body), 1)
                except asyncio.IncompleteReadError:
                    answers.append((["closed"], {}))
            context = rig.app.state.context
            counted = dict(context.counters.requests), context.publisher.meter.outcomes
        kept = []
        while (message := rig.fetch("orders")) is not None:
            kept.append((message.header, message.body[:], message.exchange, message.key))
        found.append((without_ids(answers), counted, kept))
    assert found[0] == found[1]


@pytest.mark.parametrize("fields", [{"authorization": "Basic d2Vhazp3ZWFr"}, {"authorization": ""}])
async def test_refused_callers(make_rig: Any, fields: dict[str, str]) -> None:
    found = []
    for direct in (True, False):
        rig = prepared(make_rig)
        async with served(rig, direct) as port:
            answers = []
            for _ in range(4):
                answers += await talk(port, raw(PATH, fields, ASKED["plain"][1]), 1)
        found.append((without_ids(answers), rig.depth("orders")))
    assert found[0] == found[1]
    assert found[0][1] == (0, 0)


async def test_a_known_caller_is_answered_at_once(make_rig: Any, answered: Counter[str]) -> None:
    rig = prepared(make_rig)
    async with served(rig) as port:
        for _ in range(5):
            ((_, document),) = await talk(port, raw(PATH, {}, ASKED["plain"][1]), 1)
            assert document == {"routed": True}
    assert (answered["Answer"], answered["known"]) == (4, 3)
    assert rig.depth("orders") == (5, 0)


async def test_it_waits_for_the_disk_and_publishes_once(
    make_rig: Any, answered: Counter[str]
) -> None:
    rig = make_rig(volatile=False)
    rig.queue("orders", durable=True)
    body = json.dumps(GOOD | {"properties": {"delivery_mode": 2}}).encode()
    async with served(rig) as port:
        for _ in range(4):
            await talk(port, raw(PATH, {}, body), 1)
        rig.held = True
        told = asyncio.create_task(talk(port, raw(PATH, {}, body), 1))
        await rig.until(lambda: answered["Published"] > 0)
        assert not told.done()
        rig.release()
        ((_, document),) = await told
    assert document == {"routed": True}
    assert rig.depth("orders") == (5, 0)


async def test_not_on_a_listener_without_administration(
    make_rig: Any, answered: Counter[str]
) -> None:
    rig = prepared(make_rig, admin_apart=True)
    async with served(rig) as port:
        for _ in range(3):
            ((lines, _),) = await talk(port, raw(PATH, {}, ASKED["plain"][1]), 1)
            assert "http/1.1 404 not found" in lines
    assert not any(answered.values())

"""Every kind of control event comes from a real stream, as ``/asyncapi.json`` describes it."""

import asyncio
import json
import re
from typing import Any

from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

from gateway.http.access.principal import Principal
from gateway.http.app import close
from gateway.http.events.control_events import CONTROL_EVENTS
from gateway.http.events.opening import open_stream
from tests.http.stream_words import ALL, TEXT, publish, read_query

QUEUE = "source=queue:orders"
TEXT_FORMAT = ALL + "&format=text"
ROOT = "#/components/schemas/"


def shapes(document: dict[str, Any]) -> dict[str, Draft202012Validator]:
    """A validator for each control event by its name."""
    messages = document["components"]["messages"]
    assert list(messages)[0] == "event"
    return {
        name: Draft202012Validator(told["payload"] | {"components": document["components"]})
        for name, told in messages.items()
        if name.startswith("gateway.")
    }


def wrong(document: dict[str, Any], name: str, data: dict[str, Any]) -> list[str]:
    """What is not as described; members that are not described, too."""
    found = [one.message for one in shapes(document)[name].iter_errors(data)]
    payload = document["components"]["messages"][name]["payload"]["$ref"].removeprefix(ROOT)
    known = document["components"]["schemas"][payload]["properties"]
    return found + [f"{one} is not described" for one in data.keys() - known.keys()]


async def described(rig: Any) -> dict[str, Any]:
    async with rig.http() as http:
        found: dict[str, Any] = (await http.get("/asyncapi.json")).json()
    return found


async def test_each_is_a_message_with_a_good_example(rig: Any) -> None:
    rig.queue("orders")
    document = await described(rig)
    assert shapes(document).keys() == {one.kind for one in CONTROL_EVENTS}
    for name in shapes(document):
        message = document["components"]["messages"][name]
        assert message["summary"] and message["name"] == name
        for example in message["examples"]:
            assert wrong(document, name, example["payload"]) == []
        assert not shapes(document)[name].is_valid({})
        assert f"#/components/messages/{name}" in str(document["channels"]["events"]["messages"])


class Seen:
    """The control events of some streams, by name."""

    def __init__(self) -> None:
        self.events: dict[str, list[dict[str, Any]]] = {}

    async def until(self, reader: Any, kind: str) -> Any:
        """Read up to an event of this kind; remember all before it."""
        while True:
            event = await reader.event()
            if event.kind and event.kind.startswith("gateway."):
                self.events.setdefault(event.kind, []).append(event.data)
            if event.kind == kind:
                return event


async def test_streams_make_each_of_them(make_rig: Any, listener: Any) -> None:
    rig = make_rig(reconnect_ms=1000, drain_spread_ms=100, journal_events=3)
    rig.exchange("prices")
    rig.queue("orders")
    document, seen = await described(rig), Seen()
    hub = rig.app.state.hub
    async with rig.served() as port, rig.http() as http:
        await of_an_exchange(rig, seen, listener, port)
        await of_a_queue_with_leases(rig, seen, listener, port, http)
        async with listener(port, "source=queue:none&errors=inband") as reader:
            await seen.until(reader, "gateway.close")
        await of_a_credential(hub, document)
        async with listener(port, ALL + "&keepalive=event") as reader:
            await seen.until(reader, "gateway.open")
            (stream,) = hub.streams
            stream.tick(stream.wrote_at + 15, 1_700_000_000.0)
            await seen.until(reader, "gateway.keepalive")
            await close(rig.app)
            await seen.until(reader, "gateway.close")
    assert seen.events.keys() == {one.kind for one in CONTROL_EVENTS} - {"gateway.reauth"}
    for kind, events in seen.events.items():
        for data in events:
            assert wrong(document, kind, data) == [], (kind, data)


async def of_an_exchange(rig: Any, seen: Seen, listener: Any, port: int) -> None:
    """A message that is no text, filtered ones, sources that change, a reader that was away for
    too long, one that is too slow."""
    async with listener(port, TEXT_FORMAT) as reader:
        await seen.until(reader, "gateway.open")
        await publish(rig, "a", b"\xff")
        await seen.until(reader, "gateway.warn")
    async with listener(port, ALL + "&filter=key%3Dnone") as reader:
        identity = (await seen.until(reader, "gateway.open")).data["stream"]
        before = reader.cursor
        await publish(rig, "a", b"1", **TEXT)
        await seen.until(reader, "gateway.cursor")
        async with rig.http() as http:
            change = {"add": ["queue:orders"]}
            answer = await http.patch(f"/v1/%2F/streams/{identity}", json=change)
            assert answer.status_code == 200
        await seen.until(reader, "gateway.sources")
        await publish(rig, "a", b"2", b"3", b"4", b"5", **TEXT)
        async with listener(port, ALL, before) as late:
            await seen.until(late, "gateway.gap")
    async with listener(port, ALL + "&slow=latest") as reader:
        await seen.until(reader, "gateway.open")
        same = [{"body": {"text": text}, "routing_key": "a"} for text in "123"]
        async with rig.http() as http:
            kind = {"content-type": "application/vnd.amqp-gateway.batch+json"}
            path = "/v1/%2F/exchanges/prices/messages"
            content = json.dumps({"messages": same}).encode()
            assert (await http.post(path, content=content, headers=kind)).status_code == 201
        await seen.until(reader, "gateway.lag")


async def of_a_queue_with_leases(rig: Any, seen: Seen, listener: Any, port: int, http: Any) -> None:
    async with listener(port, QUEUE + "&ack=explicit&lease_ms=1000") as reader:
        await publish(rig, "orders", b"1", b"2", exchange="", **TEXT)
        one, two = await seen.until(reader, "message"), await seen.until(reader, "message")
        path = f"/v1/%2F/deliveries/{one.data['lock']['token']}"
        assert (await http.delete(path)).status_code == 200
        await seen.until(reader, "gateway.settled")
        rig.ahead = 2000
        rig.begin()
        rig.broker.state.tick(rig.broker.state.now)
        rig.end()
        lost = await seen.until(reader, "gateway.lock-lost")
        assert lost.data["token"] == two.data["lock"]["token"]
        rig.ahead = 0


async def of_a_credential(hub: Any, document: dict[str, Any]) -> None:
    """The stream is asked itself, with a time that has passed."""
    now = hub.clock()
    asked = read_query(ALL.encode(), None, 15)
    stream = open_stream(hub, "/", Principal("alice", expires=now + 100), asked)
    stream.tick(stream.wrote_at, now + 90)
    said = bytes(stream.take()).decode()
    for name, data in re.findall(r"event: (.*)\ndata: (.*)\n", said):
        assert wrong(document, name, json.loads(data)) == []
    assert "gateway.reauth" in said and '"expires_at"' in said
    hub.leave(stream)
    await asyncio.sleep(0)

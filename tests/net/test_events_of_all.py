"""One event stream, publishers of every version: typed properties of each, and an exact resume.

Each publishes in its own form, with values that only its own types can hold.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import zip_longest
from typing import Any
from urllib.parse import quote
from uuid import UUID

import httpx
import pytest

from gateway.adapters.commands.content import COMMAND
from gateway.adapters.methods.content import BASIC
from gateway.adapters.methods.drafts.content import CONTENTS
from gateway.adapters.performatives.content import SECTIONS
from gateway.adapters.segments.content import SEGMENTS
from gateway.message import Dialect, Message, Properties
from gateway.operations import DeclareQueue, EndSession, Publish, PurgeQueue
from gateway.values import Byte, Char, Float, Int, Scaled, Seconds, Symbol, Timestamp, ULong
from tests.net.running import PATIENCE, Running
from tests.net.test_every_pair import DRAFTS, TRANSITIONAL, VERSIONS, entered, gateway

__all__ = ["gateway"]

JMS = {"0-9a0": 6, "0-9a0-7": 6, "0-9a6": 7}
STAMP = 1_100_000_000
WHEN = "2004-11-09T11:33:20.000Z"
QUEUE = "watched"

GIVEN: dict[str, Any] = {
    "durable": True,
    "priority": 7,
    "content_type": "application/json",
    "message_id": "m-1",
    "correlation_id": "c-1",
    "reply_to": "answers",
}
SIMPLE = {
    "id": "m-1",
    "correlation_id": "c-1",
    "reply_to": "answers",
    "content_type": "application/json",
    "durable": True,
    "priority": 7,
}


def typed(kind: str, value: Any, **more: Any) -> dict[str, Any]:
    return {"$type": kind, "value": value, **more}


Values = dict[str, tuple[Any, ...]]
"""By name: the value, as it is shown by ``format=json``, and by ``format=full``."""

OLD: Values = {
    "text": ("grün", "grün", "grün"),
    "number": (Int(-7), -7, typed("int", -7)),
    "price": (Scaled(2, 1234), typed("decimal", "12.34"), typed("decimal", "12.34")),
    "when": (Seconds(STAMP), typed("timestamp", WHEN), typed("timestamp", STAMP, unit="s")),
}
NESTED: Values = {**OLD, "in": ({"deep": Int(1)}, {"deep": 1}, {"deep": typed("int", 1)})}
LATER: Values = {**NESTED, "yes": (True, True, True), "large": (1 << 40, 1 << 40, 1 << 40)}
NEW: Values = {
    "symbol": (Symbol("s"), "s", typed("symbol", "s")),
    "huge": (ULong(1 << 63), typed("ulong", str(1 << 63)), typed("ulong", str(1 << 63))),
    "uuid": (UUID(int=5), *[typed("uuid", str(UUID(int=5)))] * 2),
    "when": (Timestamp(STAMP * 1000 + 123), *[typed("timestamp", WHEN[:-4] + "123Z")] * 2),
    "float": (Float(1.5), 1.5, typed("float", "1.5")),
    "octets": (b"\0\xff", *[typed("binary", "AP8=")] * 2),
    "char": (Char("x"), "x", typed("char", "x")),
    "byte": (Byte(-1), -1, typed("byte", -1)),
    "nothing": (None, None, None),
}
FINAL: Values = {
    **LATER,
    **{name: NEW[name] for name in ("huge", "uuid", "float", "octets", "char", "byte", "nothing")},
}
SAID: dict[str, Values] = {
    "0.8a2": OLD,
    **dict.fromkeys((*DRAFTS, *TRANSITIONAL), NESTED),
    **dict.fromkeys(("0-8", "0-9", "0-9-1"), LATER),
    "0-10": FINAL,
    "1.0": NEW,
}


def dialect_of(version: str) -> Dialect:
    if version in JMS:
        return CONTENTS[version, JMS[version]]
    others: dict[str, Dialect] = {"0.8a2": COMMAND, "0-10": SEGMENTS, "1.0": SECTIONS}
    return others.get(version, BASIC)


def message(version: str, exchange: str, key: str) -> Message:
    dialect = dialect_of(version)
    application = {name: value for name, (value, _, _) in SAID[version].items()}
    header = dialect.write(Properties(**GIVEN, application=application))
    body = json.dumps({"from": version, "price": 12.5}).encode()
    return Message(dialect, header, body, exchange, key, dialect.essentials(header))


class Stream:
    """A reader of one event stream. ``cursor``: the last ``id:``."""

    def __init__(self, lines: AsyncIterator[str]) -> None:
        self._lines = lines
        self.cursor = ""

    async def next(self, kind: str = "message") -> dict[str, Any]:
        """The data of the next event of this kind."""
        found: dict[str, str] = {}
        async for line in self._lines:
            name, _, value = line.partition(": ")
            if line:
                found[name] = found.get(name, "") + value
                continue
            self.cursor = found.get("id", self.cursor)
            if "data" in found and found.get("event", "message") == kind:
                data: dict[str, Any] = json.loads(found["data"])
                return data
            found = {}
        raise AssertionError("the stream has ended")


@asynccontextmanager
async def stream(
    gateway: Running, source: str, form: str, cursor: str = ""
) -> AsyncIterator[Stream]:
    url = f"http://127.0.0.1:{gateway.http_port}/v1/%2F/events"
    query = f"source={quote(source, safe='')}&format={form}"
    headers = {"Last-Event-ID": cursor} if cursor else {}
    async with (
        httpx.AsyncClient(auth=("guest", "guest"), timeout=PATIENCE) as http,
        http.stream("GET", f"{url}?{query}", headers=headers) as answer,
    ):
        assert answer.status_code == 200, await answer.aread()
        yield Stream(answer.aiter_lines())


async def publish(gateway: Running, version: str, exchange: str, key: str) -> None:
    """And leave: earlier messages are there all the same."""
    async with entered(gateway, version, "writer") as writer:
        writer.send(Publish(1, message(version, exchange, key), False, False))
        await writer.drain()
        await writer.request(EndSession(1, None))


def check(event: dict[str, Any], version: str, form: str, exchange: str, key: str) -> None:
    # The destination of a content of 0-9a6 is its routing key.
    to = {"to": key} if version == "0-9a6" else {}
    shown = {name: value[2 if form == "full" else 1] for name, value in SAID[version].items()}
    if form == "full":
        way = {"exchange": exchange, "routing_key": key}
        assert event["application_properties"] == shown, version
        assert event["header"] == {"durable": True, "priority": 7, "first_acquirer": True}, version
        bare = {name: value for name, value in GIVEN.items() if name not in event["header"]}
        assert event["properties"] == {**bare, **to}, version
        assert event["legacy"] == way, version
    else:
        assert event.pop("properties") == shown, version
        body = event.pop("body")["json"]
        assert body == {"from": version, "price": 12.5}, version
        del event["source"]
        assert event == {**SIMPLE, **to, "exchange": exchange, "routing_key": key}, version


@pytest.mark.parametrize("form", ["json", "full"])
@pytest.mark.parametrize(
    ("source", "exchange", "key"),
    [(f"queue:{QUEUE}", "", QUEUE), ("exchange:amq.topic?binding=news.#", "amq.topic", "news.one")],
    ids=["queue", "exchange"],
)
def test_typed_properties_and_resume(
    gateway: Running, source: str, exchange: str, key: str, form: str
) -> None:
    """Every other event is read after a reconnect with the cursor of the one before, and was
    published while nobody was there."""

    async def watch() -> None:
        async with entered(gateway, "0-9-1", "maker") as maker:
            await maker.request(DeclareQueue(1, None, QUEUE, durable=True))
            await maker.request(PurgeQueue(1, None, QUEUE))
        cursor, resume, missed = "", "fresh", ""
        for here, away in zip_longest(VERSIONS[::2], VERSIONS[1::2], fillvalue="0-9-1"):
            async with stream(gateway, source, form, cursor) as reader:
                opened = await reader.next("gateway.open")
                assert [each["resume"] for each in opened["sources"]] == [resume]
                if missed:
                    check(await reader.next(), missed, form, exchange, key)
                await publish(gateway, here, exchange, key)
                check(await reader.next(), here, form, exchange, key)
                cursor, resume, missed = reader.cursor, "exact", away
            await publish(gateway, away, exchange, key)
        async with stream(gateway, source, form, cursor) as reader:
            check(await reader.next(), missed, form, exchange, key)

    asyncio.run(watch())

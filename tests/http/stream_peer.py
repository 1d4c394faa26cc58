"""A client of an event stream without sockets, and messages with numbers for it."""

import asyncio
import json
from typing import Any

from gateway.http.access.principal import Principal
from gateway.http.events.opening import open_stream
from gateway.message import DIALECTS, Essentials, Message, Properties
from tests.http.stream_words import read_query


class Peer:
    """One client with its cursor, over an ASGI server that behaves as uvicorn: what is sent after
    the hang-up vanishes without an error."""

    def __init__(self, rig: Any, query: bytes, forgetful: bool = False) -> None:
        self.rig = rig
        self.query = query
        self.forgetful = forgetful
        self.cursor: str | None = None
        self.got: list[dict[str, Any]] = []
        self.gaps: list[dict[str, Any]] = []
        self.task: asyncio.Task[None] | None = None
        self.clogged = False
        """Of the next chunk only the first event arrives, and the socket takes nothing more."""

    def connect(self) -> None:
        if self.task is not None:
            return
        asked = read_query(self.query, self.cursor, 15)
        stream = open_stream(self.rig.app.state.hub, "/", Principal("alice"), asked)
        over = asyncio.Event()

        async def receive() -> dict[str, Any]:
            await over.wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            text = message.get("body", b"").decode()
            if self.clogged and not over.is_set():
                first, _, rest = text.partition("\n\n")
                self.read(first + "\n\n")
                if rest:
                    await over.wait()
            elif not over.is_set():
                self.read(text)

        self.over = over
        self.task = asyncio.create_task(stream({}, receive, send))

    def read(self, text: str) -> None:
        for block in text.split("\n\n"):
            fields = dict(line.partition(": ")[::2] for line in block.split("\n") if line)
            self.cursor = fields.get("id", self.cursor)
            if "data" in fields:
                data = json.loads(fields["data"])
                kind = fields.get("event", "message")
                if kind == "message":
                    self.got.append(data)
                elif kind == "gateway.gap":
                    self.gaps.append(data)

    async def hang_up(self) -> None:
        if self.task is not None:
            self.over.set()
            task, self.task = self.task, None
            self.clogged = False
            await task


def publish(rig: Any, exchange: str, key: str, number: int) -> None:
    dialect = DIALECTS["0-9-1"]
    header = dialect.write(Properties(content_type="text/plain"))
    message = Message(dialect, header, b"%d" % number, exchange, key, Essentials())
    rig.begin()
    rig.channel.publish(message)
    rig.end()


def numbers(events: list[dict[str, Any]]) -> list[int]:
    return [int(event["body"]["text"]) for event in events]

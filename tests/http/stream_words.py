"""What tests of event streams say often."""

import asyncio
from typing import Any
from urllib.parse import quote

from gateway.http.events.stream_request import StreamRequest, read_pairs, read_stream_request

ALL = "source=" + quote("exchange:prices?binding=#", safe="")


def read_query(query: bytes, last_event_id: str | None, heartbeat: int) -> StreamRequest:
    """Raises ``Problem``."""
    return read_stream_request(read_pairs(query), last_event_id, heartbeat)


async def publish(
    rig: Any, key: str, *bodies: bytes, exchange: str = "prices", **headers: str
) -> None:
    async with rig.http() as http:
        for body in bodies:
            path = f"/v1/%2F/exchanges/{exchange}/messages?routing_key={key}"
            if not exchange:
                path = f"/v1/%2F/queues/{key}/messages"
            answer = await http.post(path, content=body, headers=headers)
            assert answer.status_code in (201, 409)
    await asyncio.sleep(0)


async def texts(reader: Any, count: int) -> list[str]:
    found = []
    for _ in range(count):
        body = (await reader.until()).body
        found.append(body.get("text") or body.get("base64"))
    return found


TEXT = {"Content-Type": "text/plain"}

"""Whatever a body holds, parsers that nobody here wrote give it back: httpx-sse, curl."""

import asyncio
import base64
import json
import shutil
from collections.abc import AsyncIterator
from typing import Any

import httpx
import httpx_sse
import pytest

from tests.http.stream_words import ALL, publish

TEXTS = (
    b"",
    b"plain",
    b" leading space",
    b":colon",
    b"data: not a field\nid: 7\nevent: gateway.close",
    b"line\nline\n\nblank before",
    b"ends with\n",
    b"\n",
    b"nul \x00 inside",
    "\ufeffbyte order mark first".encode(),
    "mark \ufeff inside".encode(),
    "line\u2028separator\u2029paragraph\u0085next".encode(),
    "\U0001f600 Grüße".encode(),
    b"tab\t vertical\x0b form\x0c file\x1c",
)
NOT_TEXTS = (
    b"carriage\rreturn",
    b"both\r\nof them",
    b"\r",
    b"\xff\xfe",
    b"cut \xe2\x82",
    b"surrogate \xed\xa0\x80",
    b"overlong \xc0\xaf",
)


async def read(port: int, query: str, count: int, **headers: str) -> AsyncIterator[Any]:
    """Messages of one stream, by httpx-sse."""
    async with (
        httpx.AsyncClient(auth=("alice", "wonder"), timeout=10, trust_env=False) as http,
        httpx_sse.aconnect_sse(
            http, "GET", f"http://127.0.0.1:{port}/v1/%2F/events?{query}", headers=headers
        ) as source,
    ):
        assert source.response.headers["amqp-resume"]
        async for event in source.aiter_sse():
            if not event.data:
                # httpx-sse gives out blocks without data, as comments and cursors, which the
                # standard passes over. (So it cannot tell us of an empty body as bare text.)
                continue
            yield event
            count -= event.event in ("message", "gateway.warn")
            if not count:
                return


def shown(body: dict[str, Any]) -> bytes:
    if "json" in body:
        return json.dumps(body["json"]).encode()
    if "text" in body:
        return str(body["text"]).encode()
    return base64.b64decode(body["base64"])


@pytest.mark.parametrize("kind", ["text/plain", "application/octet-stream", "application/xml"])
async def test_bodies_come_back_as_they_were(rig: Any, kind: str) -> None:
    rig.exchange("prices")
    bodies = TEXTS + NOT_TEXTS
    async with rig.served() as port:
        got: list[Any] = []
        cursors = []
        async for event in read(port, ALL, len(bodies)):
            if event.event == "gateway.open":
                asyncio.get_running_loop().call_soon(asyncio.ensure_future, all_of(rig, kind))
            elif event.event == "message":
                got.append(shown(json.loads(event.data)["body"]))
                cursors.append(event.id)
        assert got == list(bodies)
        assert len(set(cursors)) == len(bodies)
        # And a reconnect with any of the cursors continues right behind it.
        for at in (0, len(bodies) // 2, len(bodies) - 2):
            async for event in read(port, ALL, 1, **{"Last-Event-ID": cursors[at]}):
                if event.event == "message":
                    assert shown(json.loads(event.data)["body"]) == bodies[at + 1]


async def all_of(rig: Any, kind: str) -> None:
    await publish(rig, "a", *TEXTS, *NOT_TEXTS, **{"Content-Type": kind})


async def test_text_is_the_bare_body_or_a_warning(rig: Any) -> None:
    rig.exchange("prices")
    async with rig.served() as port:
        got: list[Any] = []
        count = len(TEXTS) - 1 + len(NOT_TEXTS)
        async for event in read(port, ALL + "&format=text", count):
            if event.event == "gateway.open":
                asyncio.get_running_loop().call_soon(
                    asyncio.ensure_future, all_of(rig, "text/plain")
                )
            elif event.event == "message":
                got.append(event.data.encode())
            elif event.event == "gateway.warn":
                got.append(json.loads(event.data)["type"])
        assert got == [*TEXTS[1:], *["not-text"] * len(NOT_TEXTS)]


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
async def test_curl_shows_the_lines(rig: Any) -> None:
    """``curl -N`` and a parser of three lines: one event is one ``data:`` line."""
    rig.exchange("prices")
    async with rig.served() as port:
        url = f"http://127.0.0.1:{port}/v1/%2F/events?{ALL}"
        curl = await asyncio.create_subprocess_exec(
            *("curl", "-sN", "-u", "alice:wonder", url), stdout=asyncio.subprocess.PIPE
        )
        assert curl.stdout is not None
        lines = curl.stdout
        while (await asyncio.wait_for(lines.readline(), 30)) != b"\n":
            pass
        await all_of(rig, "text/plain")
        got: list[Any] = []
        while len(got) < len(TEXTS) + len(NOT_TEXTS):
            line = await asyncio.wait_for(lines.readline(), 30)
            assert b"\r" not in line and b"\x00" not in line
            if line.startswith(b"data: ") and b'"body":' in line:
                got.append(shown(json.loads(line[6:])["body"]))
        assert got == [*TEXTS, *NOT_TEXTS]
        curl.kill()
        await curl.wait()
        curl._transport.close()  # type: ignore[attr-defined]

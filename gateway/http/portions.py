"""Long work in portions: no request holds the loop longer than a slice, others go in between."""

import asyncio
import json
from collections.abc import AsyncIterator, Generator, Iterable, Iterator
from time import perf_counter as clock
from typing import Any, TypeVar

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from gateway.bodies import Body
from gateway.http.octets import Chunks, Octets, send_answer

SLICE_SECONDS = 0.01
PORTION_OCTETS = 256 * 1024

T = TypeVar("T")


async def spread(items: Iterable[T]) -> AsyncIterator[T]:
    """The items, with a pause for others after each slice of time."""
    until = clock() + SLICE_SECONDS
    for one in items:
        yield one
        if clock() >= until:
            await asyncio.sleep(0)
            until = clock() + SLICE_SECONDS


async def stepped(steps: Generator[None, None, T]) -> T:
    """Take these steps, with a pause for others after each slice of time; their result."""
    result: list[T] = []

    def all_steps() -> Iterator[None]:
        result.append((yield from steps))

    async for _ in spread(all_steps()):
        pass
    return result[0]


async def portions(parts: Iterable[bytes]) -> AsyncIterator[bytes]:
    """The parts, joined for each slice of time; others go in between. A part that is
    empty stands for work that has made no octets yet."""
    made: list[bytes] = []
    octets = 0
    until = clock() + SLICE_SECONDS
    for part in parts:
        if part:
            made.append(part)
            octets += len(part)
        if octets >= PORTION_OCTETS or clock() >= until:
            if made:
                yield b"".join(made)
                made.clear()
                octets = 0
            await asyncio.sleep(0)
            until = clock() + SLICE_SECONDS
    if made:
        yield b"".join(made)


async def gathered(parts: Iterable[bytes]) -> Chunks:
    """All of it, in pieces."""
    return Chunks([portion async for portion in portions(parts)])


def encoded(value: Any) -> bytes:
    """Compact JSON; a lone surrogate becomes its escape."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "backslashreplace")


def array(items: Iterable[bytes], head: bytes = b"[", tail: bytes = b"]") -> Iterator[bytes]:
    """A JSON array of encoded items, between a head and a tail."""
    yield head
    for index, one in enumerate(items):
        yield b"," + one if index else one
    yield tail


class Portioned(Response):
    """A response made while it is sent. One that is done in one slice has a ``Content-Length``."""

    def __init__(
        self,
        parts: Iterable[bytes],
        headers: dict[str, str] | None = None,
        media_type: str = "application/json",
        status_code: int = 200,
    ) -> None:
        super().__init__(None, status_code, headers, media_type)
        self.parts = parts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        made = portions(self.parts)
        first = await anext(made, b"")
        more = await anext(made, None)
        headers = [pair for pair in self.raw_headers if pair[0] != b"content-length"]
        if more is None:
            headers.append((b"content-length", b"%d" % len(first)))
        await send({"type": "http.response.start", "status": self.status_code, "headers": headers})
        while more is not None:
            await send({"type": "http.response.body", "body": first, "more_body": True})
            first, more = more, await anext(made, None)
        await send({"type": "http.response.body", "body": first})


class Whole(Response):
    """A response that is made already, sent piece by piece."""

    def __init__(
        self,
        octets: Octets | Body,
        headers: dict[str, str] | None = None,
        media_type: str = "application/json",
    ) -> None:
        super().__init__(None, 200, headers, media_type)
        self.headers["content-length"] = str(len(octets))
        self.octets = octets

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send_answer(send, self.status_code, self.raw_headers, self.octets)

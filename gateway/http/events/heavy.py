"""Large bodies are made ready in portions before their message is rendered.

Rendering a message is one step of the loop, and looking whether 76 MB are JSON would hold it for
seconds. So whoever is about to render one first waits here until its body is ``SHOWN``; those who
wait for the same body share it.
"""

import asyncio
import base64
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager

from gateway.bodies import Body
from gateway.http.events.rendering import LINE_ENDS, SHOWN, Shown, compact, reading_of
from gateway.http.json_check import Steps, json_steps, utf8_steps
from gateway.http.large import octets_of
from gateway.http.portions import joined
from gateway.message import Message

HEAVY = 256 * 1024
"""Octets of a body from which on it is made ready in portions."""
PIECE = 192 * 1024
"""A multiple of three: base64 of the pieces is base64 of the whole."""

MAKING: dict[Shown, asyncio.Future[None]] = {}
USERS: Counter[Shown] = Counter()


def verdict(steps: Steps, said: list[bool]) -> Iterator[bytes]:
    """Work without octets; the result is put into ``said``."""
    while True:
        try:
            next(steps)
        except StopIteration as ended:
            said.append(ended.value)
            return
        yield b""


def body_steps(content_type: str | None, coding: str | None, octets: bytes) -> Iterator[bytes]:
    """What ``rendering.body_json`` makes, a piece at a time."""
    json, text = reading_of(content_type, coding)
    said = [False]
    if json:
        yield from verdict(json_steps(octets), said)
        if said[-1]:
            yield b'{"json":'
            for at in range(0, len(octets), PIECE):
                yield octets[at : at + PIECE].translate(LINE_ENDS)
            yield b"}"
            return
    if text:
        yield from verdict(utf8_steps(octets), said)
        if said[-1]:
            yield b'{"text":"'
            at = 0
            while at < len(octets):
                end = min(at + PIECE, len(octets))
                while end < len(octets) and octets[end] & 0xC0 == 0x80:
                    end -= 1  # between two characters
                yield compact(octets[at:end].decode())[1:-1]
                at = end
            yield b'"}'
            return
    yield b'{"base64":"'
    for at in range(0, len(octets), PIECE):
        yield base64.b64encode(octets[at : at + PIECE])
    yield b'"}'


def key_of(message: Message, opaque: bool) -> Shown:
    """By what ``body_json`` will be asked for the body of a message."""
    if not opaque:
        try:
            found = message.properties
            if found.body_kind in (None, "data"):
                return id(message.body), found.content_type, found.content_encoding
        except (ValueError, RecursionError):
            pass
        finally:
            message.forget_properties()
    return id(message.body), None, None


async def acquire(message: Message, opaque: bool) -> Shown | None:
    """Wait until the body is ready; ``None`` if it needs nothing. ``release`` what is given."""
    body: Body = message.body
    if len(body) <= HEAVY:
        return None
    key = key_of(message, opaque)
    USERS[key] += 1
    try:
        while key not in SHOWN:
            other = MAKING.get(key)
            if other is not None:
                await asyncio.wait([other])
                continue
            made = MAKING[key] = asyncio.get_running_loop().create_future()
            try:
                octets = await asyncio.to_thread(octets_of, body)
                if octets is None:
                    break  # too large to be shown
                SHOWN[key] = await joined(body_steps(key[1], key[2], octets))
            finally:
                del MAKING[key]
                made.set_result(None)
    except BaseException:
        release([key])
        raise
    return key


def release(keys: Iterable[Shown | None]) -> None:
    for key in keys:
        if key is None:
            continue
        USERS[key] -= 1
        if not USERS[key]:
            del USERS[key]
            SHOWN.pop(key, None)


@asynccontextmanager
async def ready(messages: Iterable[Message | None], opaque: bool = False) -> AsyncIterator[None]:
    """Their bodies are shown without delay within."""
    keys: list[Shown | None] = []
    try:
        for message in messages:
            if message is not None:
                key = await acquire(message, opaque)
                keys.append(key)
        yield
    finally:
        release(keys)

"""Large bodies are made ready in portions before their message is rendered.

Rendering a message is one step of the loop, and checking whether 76 MB are JSON would hold it for
seconds. So a caller that renders a message first waits here until its body is in ``PREPARED``;
callers that wait for the same body share the work.
"""

import asyncio
import base64
from collections import Counter
from collections.abc import AsyncIterator, Generator, Iterable, Iterator
from contextlib import asynccontextmanager

from gateway.bodies import Body
from gateway.http.json_check import Steps, json_steps, utf8_steps
from gateway.http.message_json import (
    LINE_ENDS,
    NOT_TEXT,
    PREPARED,
    BodyForm,
    compact,
    is_event,
    readable_properties,
    reading_of,
)
from gateway.http.octets import Chunks, octets_of
from gateway.http.portions import gathered
from gateway.message import Message

HEAVY = 256 * 1024
"""Octets of a body from which on it is made ready in portions."""
PIECE = 192 * 1024
"""A multiple of three: base64 of the pieces is base64 of the whole."""


class NotText(Exception):
    """A body cannot be the lines of an event. The text says why."""


MAKING: dict[BodyForm, asyncio.Future[None]] = {}
USERS: Counter[BodyForm] = Counter()


def verdict(steps: Steps) -> Generator[bytes, None, bool]:
    """Work without octets, and its result."""
    while True:
        try:
            next(steps)
        except StopIteration as ended:
            return bool(ended.value)
        yield b""


def line_steps(octets: bytes) -> Iterator[bytes]:
    """The same octets as ``rendering.text_line``. Raises ``NotText``."""
    if not (yield from verdict(utf8_steps(octets))):
        raise NotText("the body is not UTF-8")
    for at in range(0, len(octets), PIECE):
        if b"\r" in octets[at : at + PIECE]:
            raise NotText("the body has a carriage return")
        yield b""
    yield b"data: "
    for at in range(0, len(octets), PIECE):
        yield octets[at : at + PIECE].replace(b"\n", b"\ndata: ")
    yield b"\n\n"


def body_steps(json: bool, text: bool, octets: bytes) -> Iterator[bytes]:
    """The same octets as ``message_json.body_json``."""
    if json and (yield from verdict(json_steps(octets))):
        yield b'{"json":'
        for at in range(0, len(octets), PIECE):
            yield octets[at : at + PIECE].translate(LINE_ENDS)
        yield b"}"
    elif text and (yield from verdict(utf8_steps(octets))):
        yield b'{"text":"'
        at = 0
        while at < len(octets):
            end = min(at + PIECE, len(octets))
            while end < len(octets) and octets[end] & 0xC0 == 0x80:
                end -= 1  # between two characters
            yield compact(octets[at:end].decode())[1:-1]
            at = end
        yield b'"}'
    else:
        yield b'{"base64":"'
        for at in range(0, len(octets), PIECE):
            yield base64.b64encode(octets[at : at + PIECE])
        yield b'"}'


def key_of(message: Message, how: str = "simple", opaque: bool = False) -> BodyForm:
    """The form in which the body of a message will be shown: ``how`` is a format of streams, or
    "simple" for the view of that name."""
    body = id(message.body)
    if how == "text":
        return BodyForm(body, lines=True)
    if how == "full":
        return BodyForm(body)
    found = readable_properties(message)
    if found is None:
        return BodyForm(body)
    if how == "cloudevents" and is_event(found.content_type):
        return BodyForm(body, *reading_of(found.content_type, None))
    if opaque or (how == "simple" and found.body_kind not in (None, "data")):
        return BodyForm(body)
    return BodyForm(body, *reading_of(found.content_type, found.content_encoding))


async def acquire(message: Message, how: str = "simple", opaque: bool = False) -> BodyForm | None:
    """Wait until the body is ready; ``None`` if it needs nothing. ``release`` the key."""
    if len(message.body) <= HEAVY:
        return None
    return await prepare(key_of(message, how, opaque), message.body)


async def prepare(key: BodyForm, body: Body) -> BodyForm | None:
    """As ``acquire``, if the form is known."""
    if len(body) <= HEAVY:
        return None
    USERS[key] += 1
    try:
        while key not in PREPARED:
            other = MAKING.get(key)
            if other is not None:
                await asyncio.wait([other])
                continue
            made = MAKING[key] = asyncio.get_running_loop().create_future()
            try:
                octets = await asyncio.to_thread(octets_of, body)
                if octets is None:
                    break  # too large to be shown
                steps = line_steps(octets) if key.lines else body_steps(key.json, key.text, octets)
                try:
                    PREPARED[key] = await gathered(steps)
                except NotText as reason:
                    PREPARED[key] = Chunks(())
                    NOT_TEXT[key] = str(reason)
            finally:
                del MAKING[key]
                made.set_result(None)
    except BaseException:
        release([key])
        raise
    return key


def release(keys: Iterable[BodyForm | None]) -> None:
    for key in keys:
        if key is None:
            continue
        USERS[key] -= 1
        if not USERS[key]:
            del USERS[key]
            PREPARED.pop(key, None)
            NOT_TEXT.pop(key, None)


@asynccontextmanager
async def ready(
    messages: Iterable[Message | None], how: str = "simple", opaque: bool = False
) -> AsyncIterator[None]:
    """Their bodies are shown without delay within."""
    keys: list[BodyForm | None] = []
    try:
        for message in messages:
            if message is not None:
                key = await acquire(message, how, opaque)
                keys.append(key)
        yield
    finally:
        release(keys)

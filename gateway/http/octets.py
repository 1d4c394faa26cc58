"""Octets of answers: plain, or in chunks where a body is large."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import Any

from starlette.types import Send

from gateway.bodies import Body, LargeBody

LARGEST_SHOWN = 128 << 20
"""Octets of the largest body that is shown in JSON or as text. Larger ones are available in the raw
view, and over AMQP."""

PIECE = 1 << 18
"""Octets of a body given to the server at once."""


class Chunks:
    """Octets as a list of chunks, of which none is large: the rendering of a large body is kept and
    sent in chunks, since a copy of all of it would hold the loop."""

    __slots__ = ("parts", "octets")

    def __init__(self, parts: Iterable[bytes]) -> None:
        self.parts = [part for part in parts if part]
        self.octets = sum(map(len, self.parts))

    def __len__(self) -> int:
        return self.octets

    def __bytes__(self) -> bytes:
        return b"".join(self.parts)


Octets = bytes | Chunks


def chunks_of(octets: Octets) -> list[bytes]:
    return [octets] if isinstance(octets, bytes) else octets.parts


def concatenated(*octets: Octets) -> Octets:
    """All of it, one behind the other: joined if all is plain."""
    found: list[bytes] = []
    small: list[bytes] = []
    whole = True
    for one in octets:
        if isinstance(one, bytes):
            small.append(one)
        else:
            whole = False
            found += [b"".join(small), *one.parts]
            small = []
    return b"".join(small) if whole else Chunks([*found, b"".join(small)])


def trimmed(octets: Octets, first: int, last: int = 0) -> Octets:
    """Without so many at the beginning, and at the end: they stand in the first and last piece."""
    if isinstance(octets, bytes):
        return octets[first : len(octets) - last]
    parts = list(octets.parts)
    if last:
        parts[-1] = parts[-1][:-last]
    parts[0] = parts[0][first:]
    return Chunks(parts)


def octets_of(body: Body) -> bytes | None:
    """The octets of a body, read if it is not in memory; ``None`` if it is too large for that.
    Raises ``OSError``."""
    if isinstance(body, bytes):
        return body
    return body[:] if len(body) <= LARGEST_SHOWN else None


def omitted(body: Body) -> dict[str, Any]:
    """Replacement for a body that is too large to be shown."""
    return {"omitted": "too-large", "octets": len(body)}


async def send_answer(
    send: Send, status: int, headers: list[tuple[bytes, bytes]], body: Body | Chunks
) -> None:
    """A whole answer, at the pace of the peer. Raises ``OSError``."""
    await send({"type": "http.response.start", "status": status, "headers": headers})
    async for piece in pieces(body):
        await send({"type": "http.response.body", "body": piece, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


async def pieces(body: Body | Chunks) -> AsyncIterator[bytes]:
    """The body as it is, or piece by piece; others go in between."""
    if isinstance(body, bytes):
        yield body
        return
    for piece in body.chunks(PIECE) if isinstance(body, LargeBody) else body.parts:
        yield piece
        await asyncio.sleep(0)

"""Large bodies where somebody wants to see them."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from gateway.bodies import Body, LargeBody

SHOWN = 128 << 20
"""Octets of the largest body that is shown in JSON or as text. For what is larger there is the raw
view, and AMQP."""

PIECE = 1 << 18
"""Octets of a body given to the server at once."""


def octets_of(body: Body) -> bytes | None:
    """The octets of a body, read if it is not in memory; ``None`` if it is too large for that.
    Raises ``OSError``."""
    if isinstance(body, bytes):
        return body
    return body[:] if len(body) <= SHOWN else None


def omitted(body: Body) -> dict[str, Any]:
    """What stands for a body that is too large to be shown."""
    return {"omitted": "too-large", "octets": len(body)}


async def send_body(send: Callable[[Any], Awaitable[None]], body: Body) -> None:
    """Give all of it to the server, at the pace of the peer. More is to follow, an empty end if
    nothing else. Raises ``OSError``."""
    async for piece in pieces(body):
        await send({"type": "http.response.body", "body": piece, "more_body": True})


async def pieces(body: Body) -> AsyncIterator[bytes]:
    """The body as it is, or piece by piece."""
    if isinstance(body, LargeBody):
        for piece in body.chunks(PIECE):
            yield piece
    else:
        yield body

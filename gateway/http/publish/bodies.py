"""Request bodies within bounds: how much one has, and how much is under way in all.

Large bodies are gathered in temporary files, so that many slow uploads cost disk and not memory.
"""

from collections.abc import AsyncIterator
from types import TracebackType

from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope

from gateway.bodies import Body, Spool, SpooledBody
from gateway.config.web import PublishSettings
from gateway.http import problems
from gateway.http.problems import Problem
from gateway.http.publish.preferences import Verifier


class Budget:
    """Octets of incoming bodies, of all requests together."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.used = 0

    def allow(self, most: int) -> None:
        """Change the limit; what is reserved stays."""
        self.most = most

    def hold(self) -> "Reservation":
        return Reservation(self)


class Reservation:
    """One request's part of the budget; given back at the end of its block."""

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self.octets = 0

    def reach(self, octets: int) -> None:
        """Reserve at least so many octets. Raises ``Problem`` (503)."""
        more = octets - self.octets
        if more <= 0:
            return
        if self.budget.used + more > self.budget.most:
            raise Problem(
                problems.BACKPRESSURE,
                "too many octets of requests are under way",
                headers={"connection": "close"},
            )
        self.budget.used += more
        self.octets = octets

    def __enter__(self) -> "Reservation":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.budget.used -= self.octets
        self.octets = 0


BODY_LIMIT = "http.max_body_octets"
BATCH_LIMIT = "http.max_batch_octets"
"""The settings that limit bodies."""


def check_length(scope: Scope, limit: int, setting: str = BODY_LIMIT) -> int:
    """``Content-Length``, 0 without one. Raises ``Problem`` (413)."""
    for name, value in scope["headers"]:
        if name == b"content-length":
            return read_length(value, limit, setting)
    return 0


def read_length(value: bytes, limit: int, setting: str = BODY_LIMIT) -> int:
    """Raises ``Problem`` (413)."""
    if not value.isdigit() or int(value) > limit:
        raise too_large(limit, setting, value.decode("latin-1")[:20])
    return int(value)


def too_large(limit: int, setting: str = BODY_LIMIT, size: str = "") -> Problem:
    """``setting``: the one that has the limit. ``size``: Content-Length, if that is known."""
    seen = f", and this one has {size}" if size else ""
    return Problem(
        problems.TOO_LARGE,
        f"a body has at most {limit} octets here{seen}; the setting {setting} has the limit",
        headers={"connection": "close"},
        limit_octets=limit,
        setting=setting,
    )


async def chunks(receive: Receive) -> AsyncIterator[bytes]:
    """The parts of the body. Raises ``ClientDisconnect``."""
    more = True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        more = message.get("more_body", False)
        octets: bytes = message.get("body", b"")
        if octets:
            yield octets


async def read_body(
    receive: Receive,
    length: int,
    limit: int,
    budget: Budget,
    settings: PublishSettings,
    spool: Spool,
) -> Body:
    """The whole body. ``length`` is ``Content-Length``, which was checked before; a body of unknown
    length is checked while it is read. Raises ``Problem``."""
    if length <= settings.spool_octets:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        body: bytes = message.get("body", b"")
        if not message.get("more_body", False) and len(body) <= limit:
            return body
    else:
        body = b""
    with budget.hold() as held:
        return await gather(receive, limit, held, settings, spool, body, length)


async def gather(
    receive: Receive,
    limit: int,
    held: Reservation,
    settings: PublishSettings,
    spool: Spool,
    first: bytes = b"",
    length: int = 0,
    verifier: Verifier | None = None,
    setting: str = BODY_LIMIT,
) -> Body:
    """The rest of a body after ``first``, in memory or beside it, where it stays if it is large.
    Raises ``Problem``."""
    if len(first) > limit:
        raise too_large(limit, setting)
    held.reach(max(length, len(first)))
    if verifier is not None:
        verifier.add(first)
    parts, size, waiting = [first], len(first), len(first)
    spooled: SpooledBody | None = None
    tried = False
    try:
        async for octets in chunks(receive):
            size += len(octets)
            if size > limit:
                raise too_large(limit, setting)
            held.reach(size)
            if verifier is not None:
                verifier.add(octets)
            parts.append(octets)
            waiting += len(octets)
            if waiting > settings.spool_octets:
                if not tried:
                    tried = True
                    spooled = spool.start(max(length, size))
                if spooled is not None:
                    spooled.add(b"".join(parts))
                    parts, waiting = [], 0
        if spooled is None:
            return b"".join(parts)
        spooled.add(b"".join(parts))
        body = spooled.finish()
        spooled = None
        return body if size >= spool.threshold else body[:]
    except OSError as error:
        text = f"there is no room for the body: {error.strerror}"
        raise Problem(problems.BACKPRESSURE, text, headers={"connection": "close"}) from error
    finally:
        # The exception may be kept for a while, and would keep the file.
        if spooled is not None:
            spooled.abandon()

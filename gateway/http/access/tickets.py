"""Stream tickets: a credential in a URL, for the ``EventSource`` that can send no header.

A ticket is for given sources, one origin and one principal. It must be used within a minute. Its
first use starts a session; from then on it is good only to resume that session: one connection at
a time (the newer one wins), not before the session's first cursor, and not after a quarter of an
hour without a connection.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode

from starlette.types import Message, Receive, Scope, Send

from gateway.broker.access import Access
from gateway.http import problems
from gateway.http.access.principal import Principal
from gateway.http.access.rights import Action, Right
from gateway.http.access.sessions import Records, digest_of, holds, principal_record, read_principal
from gateway.http.problems import Problem
from gateway.http.sealing import Forged

BINDING = "?binding="
FIRST_ID = re.compile(rb"(?:^|\n)id: ?([^\r\n]+)")
MOST_OPENING = 1 << 16
Positions = Mapping[bytes, int]


def node_of(source: str) -> tuple[str, str]:
    """Kind and name of a source. Raises ``Problem``."""
    kind, colon, name = source.partition(":")
    if kind == "exchange":
        name = name.partition(BINDING)[0]
    if not colon or kind not in ("queue", "exchange", "route") or not 0 < len(name.encode()) < 256:
        raise Problem(
            problems.INVALID,
            "a source is queue:NAME, route:NAME or exchange:NAME?binding=KEY",
        )
    return kind, name


def bad_ticket(text: str) -> Problem:
    return Problem(problems.UNAUTHORIZED, text, headers={"www-authenticate": "Bearer"})


class Tickets:
    """All tickets. ``positions`` opens a cursor (``None``: it says nothing here)."""

    def __init__(
        self,
        records: Records,
        sessions: Records,
        access: Access,
        clock: Callable[[], float],
        first_seconds: float,
        idle_seconds: float,
    ) -> None:
        self.records = records
        self.sessions = sessions
        self.access = access
        self.clock = clock
        self.first_seconds = first_seconds
        self.idle_seconds = idle_seconds
        self.positions: Callable[[str], Positions | None] = lambda text: None
        self.live: dict[str, asyncio.Event] = {}
        """Connections now; setting the event ends one."""
        self.left: dict[str, float] = {}
        """When the last connection ended, in this process."""
        self.started = clock()

    def make(
        self,
        principal: Principal,
        vhost: str,
        sources: list[str],
        origin: str | None,
        seconds: float | None,
    ) -> tuple[str, str, float]:
        """Ticket, URL, and when it must have been used. The caller has checked the rights."""
        now = self.clock()
        for digest, record in list(self.records.found.items()):
            if self.over(record, now) or self.idle(digest, record, now):
                self.drop(digest)
        seconds = min(seconds or self.first_seconds, self.first_seconds)
        actions = frozenset({Action.STREAM})
        rights = [Right(actions, vhost, *node_of(source), True) for source in sources]
        record = principal_record(principal._replace(rights=tuple(rights)))
        record |= {"vhost": vhost, "sources": sources, "origin": origin}
        record |= {"until": now + seconds, "used": None, "start": None}
        made = self.records.make(record)
        query = urlencode(
            [("source", one) for one in sources] + [("ticket", made)], quote_via=quote
        )
        return made, f"/v1/{quote(vhost, safe='')}/events?{query}", now + seconds

    def over(self, record: dict[str, Any], now: float) -> bool:
        if record["expires"] is not None and now >= record["expires"]:
            return True
        return record["used"] is None and now >= record["until"]

    def idle(self, digest: str, record: dict[str, Any], now: float) -> bool:
        """Whether a session has been without a connection for too long."""
        if record["used"] is None or digest in self.live:
            return False
        since: float = self.left.get(digest, max(self.started, record["used"]))
        return now - since >= self.idle_seconds

    def drop(self, digest: str) -> None:
        self.records.forget(digest)
        self.left.pop(digest, None)

    def redeem(self, digest: str, scope: Scope, vhost: str, origin: str | None) -> Principal:
        """Who comes with the ticket. Changes the query: the ticket goes, and a session that
        resumes without a cursor starts where it started. Raises ``Problem``: 401."""
        record = self.records.get(digest)
        now = self.clock()
        if record is None or self.over(record, now):
            raise bad_ticket("The ticket is unknown or has expired.")
        if scope["method"] != "GET" or vhost != record["vhost"]:
            raise bad_ticket("The ticket is for another stream.")
        if origin != record["origin"]:
            raise bad_ticket("The ticket is for another origin.")
        query = [pair for pair in read_query(scope) if pair[0] != "ticket"]
        asked = [value for key, value in query if key == "source"]
        if not asked or not set(asked) <= set(record["sources"]) or "binding" in dict(query):
            raise bad_ticket("The ticket is for other sources.")
        principal = read_principal(record, "ticket", "ticket:" + digest)
        if not holds(principal, self.access, self.sessions, now):
            self.drop(digest)
            raise bad_ticket("The ticket is unknown or has expired.")
        if record["used"] is None:
            self.records.save(digest, record | {"used": now})
        else:
            self.resume(digest, record, scope, query, now)
        scope["query_string"] = urlencode(query, quote_via=quote).encode()
        return principal

    def resume(
        self,
        digest: str,
        record: dict[str, Any],
        scope: Scope,
        query: list[tuple[str, str]],
        now: float,
    ) -> None:
        if self.idle(digest, record, now):
            self.drop(digest)
            raise bad_ticket("The session of the ticket has ended.")
        cursor = None
        for name, value in scope["headers"]:
            if name == b"last-event-id":
                cursor = value.decode("latin-1")
        cursor = cursor or dict(query).get("last_event_id")
        start = record["start"]
        if start is not None and (not cursor or self.before(cursor, start)):
            if cursor:
                raise Problem(problems.INVALID_CURSOR, "the cursor is older than the session")
            query[:] = [pair for pair in query if pair[0] not in ("from", "last_event_id")]
            query.append(("last_event_id", start))

    def before(self, cursor: str, start: str) -> bool:
        """Whether some position of a cursor lies before those of the session's first."""
        ours = self.positions(start)
        try:
            theirs = self.positions(cursor)
        except Forged as error:
            raise Problem(problems.INVALID_CURSOR, f"the cursor is not valid: {error}") from None
        if not ours or theirs is None:
            return False
        return any(theirs.get(source, at) < at for source, at in ours.items())

    async def run(
        self,
        digest: str,
        scope: Scope,
        receive: Receive,
        send: Send,
        app: Callable[[Scope, Receive, Send], Awaitable[None]],
    ) -> None:
        """The stream, ended when another connection comes with the same ticket."""
        before = self.live.get(digest)
        if before is not None:
            before.set()
        ended = self.live[digest] = asyncio.Event()

        async def receiving() -> Message:
            message = asyncio.ensure_future(receive())
            end = asyncio.ensure_future(ended.wait())
            try:
                await asyncio.wait((message, end), return_when=asyncio.FIRST_COMPLETED)
                if not ended.is_set():
                    return await message
            finally:
                message.cancel()
                end.cancel()
            return {"type": "http.disconnect"}

        record = self.records.get(digest)
        opening = b"" if record is not None and record["start"] is None else None

        async def sending(message: Message) -> None:
            nonlocal opening
            await send(message)
            if opening is not None and message["type"] == "http.response.body":
                opening += message.get("body", b"")
                found = FIRST_ID.search(opening)
                if found is not None:
                    self.begins(digest, found[1].decode("latin-1"))
                if found is not None or len(opening) > MOST_OPENING:
                    opening = None

        try:
            await app(scope, receiving, sending)
        finally:
            if self.live.get(digest) is ended:
                del self.live[digest]
                self.left[digest] = self.clock()

    def begins(self, digest: str, cursor: str) -> None:
        """The first cursor of a session."""
        record = self.records.get(digest)
        if record is not None and record["start"] is None:
            self.records.save(digest, record | {"start": cursor})


def read_query(scope: Scope) -> list[tuple[str, str]]:
    try:
        query = scope["query_string"].decode("ascii")
        return parse_qsl(query, keep_blank_values=True, errors="strict", max_num_fields=256)
    except (UnicodeDecodeError, ValueError):
        raise Problem(problems.INVALID, "the query is not percent-encoded UTF-8") from None


def ticket_of(scope: Scope) -> str | None:
    """The digest of the ticket in a query. Raises ``Problem``."""
    if b"ticket=" not in scope["query_string"]:
        return None
    found = [value for key, value in read_query(scope) if key == "ticket"]
    if len(found) > 1:
        raise bad_ticket("The ticket is given twice.")
    return digest_of(found[0]) if found else None

"""Stream tickets: a credential in a URL, for the ``EventSource`` that can send no header.

A ticket is bound to the terms of its request: sources, filters, selector, ack, kind of journal, one
origin and one principal. It must be used within a minute. Its first use starts a session;
afterwards it is valid only to resume that session: one connection at a time (the newer one wins),
not before the session's first cursor, and not after a quarter of an hour without a connection.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

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


class Terms(NamedTuple):
    """The terms of a ticket or of a stream request. ``journal`` and ``selector`` are "" if not
    given."""

    sources: list[str]
    filters: list[str] = []
    ack: str = "none"
    journal: str = ""
    selector: str = ""

    def within(self, other: "Terms") -> bool:
        """Whether these terms are within the others: a subset of the sources, a superset of the
        filters, and a selector only if the other has none."""
        return (
            bool(self.sources)
            and set(self.sources) <= set(other.sources)
            and set(self.filters) >= set(other.filters)
            and other.selector in ("", self.selector)
            and (self.ack, self.journal) == (other.ack, other.journal)
        )

    def pairs(self) -> list[tuple[str, str]]:
        """The terms as parameters of a stream."""
        found = [("source", one) for one in self.sources]
        found += [("filter", one) for one in self.filters]
        if self.selector:
            found.append(("selector", self.selector))
        if self.ack != "none":
            found.append(("ack", self.ack))
        if self.journal:
            found.append(("journal", self.journal))
        return found


class Claim(NamedTuple):
    """A presented ticket and its principal."""

    digest: str
    record: dict[str, Any]
    principal: Principal


def node_of(source: str) -> tuple[str, str]:
    """Kind and name of a source. Raises ``Problem``."""
    kind, colon, name = source.partition(":")
    if kind == "exchange":
        name = name.partition(BINDING)[0]
    elif kind == "route":
        name = name.partition("?")[0]
    if not colon or kind not in ("queue", "exchange", "route") or not 0 < len(name.encode()) < 256:
        raise Problem(
            problems.INVALID,
            "a source is queue:NAME, route:NAME or exchange:NAME?binding=KEY",
        )
    return kind, name


def bad_ticket(text: str) -> Problem:
    return Problem(problems.UNAUTHORIZED, text, headers={"www-authenticate": "Bearer"})


class Tickets:
    """All tickets. ``positions`` opens a cursor; ``None`` if the cursor has no positions here."""

    def __init__(
        self,
        records: Records,
        sessions: Records,
        access: Access,
        clock: Callable[[], float],
        first_seconds: float,
        idle_seconds: float,
        positions: Callable[[str], Positions | None],
    ) -> None:
        self.records = records
        self.sessions = sessions
        self.access = access
        self.clock = clock
        self.first_seconds = first_seconds
        self.idle_seconds = idle_seconds
        self.positions = positions
        self.live: dict[str, asyncio.Event] = {}
        """Current connections; setting the event ends one."""
        self.left: dict[str, float] = {}
        """When the last connection ended, in this process."""
        self.started = clock()

    def make(
        self,
        principal: Principal,
        vhost: str,
        terms: Terms,
        origin: str | None,
        seconds: float | None,
    ) -> tuple[str, str, float]:
        """Create a ticket: ticket, URL and the time by which it must be used. The caller has
        checked the rights."""
        now = self.clock()
        for digest, record in list(self.records.found.items()):
            if self.over(record, now) or self.idle(digest, record, now):
                self.drop(digest)
        seconds = min(seconds or self.first_seconds, self.first_seconds)
        actions = frozenset({Action.STREAM})
        rights = [Right(actions, vhost, *node_of(source), True) for source in terms.sources]
        record = principal_record(principal._replace(rights=tuple(rights)))
        record |= {"vhost": vhost, "terms": list(terms), "origin": origin}
        record |= {"until": now + seconds, "used": None, "start": None}
        made = self.records.make(record)
        query = urlencode([*terms.pairs(), ("ticket", made)], quote_via=quote)
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

    def claim(self, ticket: str, vhost: str, origin: str | None) -> Claim:
        """The claim of a presented ticket. Raises ``Problem``: 401."""
        digest = digest_of(ticket)
        record = self.records.get(digest)
        now = self.clock()
        if record is None or self.over(record, now) or "terms" not in record:
            raise bad_ticket("The ticket is unknown or has expired.")
        if vhost != record["vhost"]:
            raise bad_ticket("The ticket is for another stream.")
        if origin != record["origin"]:
            raise bad_ticket("The ticket is for another origin.")
        principal = read_principal(record, "ticket", "ticket:" + digest)
        if not holds(principal, self.access, self.sessions, now):
            self.drop(digest)
            raise bad_ticket("The ticket is unknown or has expired.")
        if self.idle(digest, record, now):
            self.drop(digest)
            raise bad_ticket("The session of the ticket has ended.")
        return Claim(digest, record, principal)

    def use(self, claim: Claim, asked: Terms, cursor: str | None) -> tuple[str | None, bool]:
        """Begin or resume its session: the cursor to go on from, and whether it is resumed. A
        resumption without a cursor, or with one that has no position here, starts where the session
        started. Raises ``Problem``."""
        digest, record, _ = claim
        if not asked.within(Terms(*record["terms"])):
            raise bad_ticket("The ticket is for another stream.")
        start: str | None = record["start"]
        if record["used"] is None:
            self.records.save(digest, record | {"used": self.clock()})
            return cursor, False
        if start is None:  # it was refused, or disconnected, before it began
            return cursor, False
        return self.later(cursor, start), True

    def later(self, cursor: str | None, start: str) -> str:
        """The cursor, if none of its positions is before those of the session's first cursor."""
        if not cursor:
            return start
        ours = self.positions(start)
        try:
            theirs = self.positions(cursor)
        except Forged as error:
            raise Problem(problems.INVALID_CURSOR, f"the cursor is not valid: {error}") from None
        if not ours:
            return cursor
        if theirs is None:
            return start
        if any(theirs.get(source, at) < at for source, at in ours.items()):
            raise Problem(problems.INVALID_CURSOR, "the cursor is older than the session")
        return cursor

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
        """Record the first cursor of a session."""
        record = self.records.get(digest)
        if record is not None and record["start"] is None:
            self.records.save(digest, record | {"start": cursor})

"""``GET /v1/{vhost}/journal``: a range of the journal, as JSON or as Arrow has it.

The journal is read on a thread of its own, one request after the other.
"""

import asyncio
import base64
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import date, datetime
from fnmatch import fnmatchcase
from typing import Any, NamedTuple
from urllib.parse import unquote

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from gateway.http import problems
from gateway.http.access.principal import Action, Principal
from gateway.http.context import Context
from gateway.http.description import VHOST, Described, json_content, reference, row_responses
from gateway.http.journal.query import (
    ARROW,
    PARAMETERS,
    TEXT,
    JournalEntry,
    JournalPortion,
    JournalQuery,
)
from gateway.http.message_json import compact
from gateway.http.problems import Problem
from gateway.http.request_parameters import read_caller, read_query
from gateway.http.typed import moment
from gateway.journal.canonical import Rows
from gateway.journal.entries import JournalError, Portion, Question, Trimmed
from gateway.journal.reader import JournalReader, Overview
from gateway.journal.segments import arrow_is_here

PATH = "/v1/{vhost}/journal"
KINDS = {"queues": "queue", "exchanges": "exchange"}
NO_STORE = {"cache-control": "no-store"}


def node_of(address: str) -> tuple[str, str]:
    """The kind and the name of the node that an address names."""
    _, kind, name = address.partition("?")[0].split("/", 2)
    return KINDS[kind], unquote(name, errors="surrogatepass")


class Found(NamedTuple):
    """A portion of the journal of one virtual host."""

    overview: Overview
    portion: Portion
    answer: bytes


class JournalEndpoint:
    """One for all requests."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self._pool = ThreadPoolExecutor(1, "journal-reader")
        self._reader: JournalReader | None = None

    async def close(self) -> None:
        self._pool.shutdown(wait=True)
        if self._reader is not None:
            self._reader.close()

    async def on_read(self, request: Request) -> Response:
        principal, vhost = await read_caller(self.context, request.scope)
        broker = self.context.broker
        if not broker.access.may_enter(principal.user, vhost):
            raise Problem(problems.FORBIDDEN, f"no permission in virtual host {vhost!r}")
        query = read_query(request.scope["query_string"], JournalQuery)
        try:
            names = query.names()
        except ValueError as error:
            raise Problem(problems.INVALID, f"columns: {error}") from None
        arrow = ARROW in request.headers.get("accept", "") and arrow_is_here()
        make = self.context.dependencies.journal
        if make is None:
            raise Problem(problems.CONFLICT, "a gateway that is not durable has no journal")
        wanted = self.allowed(principal, vhost, query.address)
        loop = asyncio.get_running_loop()
        try:
            found = await loop.run_in_executor(
                self._pool, self.find, make, query, names, wanted, arrow
            )
        except Trimmed as error:
            raise Problem(problems.TRIMMED, str(error), start=error.start) from None
        except JournalError as error:
            raise Problem(problems.CONFLICT, str(error)) from None
        if not arrow:
            return Response(found.answer, 200, NO_STORE, "application/json")
        told = {
            "amqp-journal": found.overview.id,
            "amqp-journal-next": str(found.portion.next),
            "amqp-journal-end": str(found.overview.end),
        }
        return Response(found.answer, 200, NO_STORE | told, ARROW)

    def allowed(self, principal: Principal, vhost: str, pattern: str) -> Callable[[str, str], bool]:
        """Whether an entry's address is wanted and may be read. Raises ``Problem`` (403) for one
        that is named and may not."""
        broker = self.context.broker
        known: dict[str, bool] = {}

        def permitted(address: str) -> bool:
            kind, name = node_of(address)
            if not broker.access.allows(principal.user, vhost, "read", name):
                return False
            return principal.may(Action.BROWSE, vhost, kind, name)

        def wanted(host: str, address: str) -> bool:
            if host != vhost or not (pattern == "*" or fnmatchcase(address, pattern)):
                return False
            may = known.get(address)
            if may is None:
                may = known[address] = permitted(address)
            return may

        if "*" not in pattern:
            try:
                kind, name = node_of(pattern)
            except (ValueError, KeyError):
                text = "address is /queues/NAME or /exchanges/NAME, or has a `*`"
                raise Problem(problems.INVALID, text) from None
            principal.need(broker, Action.BROWSE, vhost, kind, name)
        return wanted

    # --- on the thread --------------------------------------------------------------------------

    def find(
        self,
        make: Callable[[], JournalReader],
        query: JournalQuery,
        names: list[str],
        wanted: Callable[[str, str], bool],
        arrow: bool,
    ) -> Found:
        reader = self._reader
        if reader is None:
            reader = self._reader = make()
        overview = reader.overview()
        start = overview.start if query.start is None else query.start
        rows = Rows(overview.id, names)
        portion = Portion([], start)
        if query.limit:
            bodies = "body" in names if arrow else rows.needs_bodies
            question = Question(wanted, bodies, query.limit)
            portion = reader.read(start, question, query.end)
        if arrow:
            from gateway.journal.columns import stream_of, to_batch

            batches = [to_batch(portion.entries, bodies)] if portion.entries else []
            return Found(overview, portion, stream_of(batches))
        spans = overview.segments if not query.limit else ()
        head = {
            "journal": overview.id,
            "start": overview.start,
            "end": overview.end,
            "next": portion.next,
            "sealed": [one._asdict() for one in spans],
        }
        entries = b",".join(
            compact(dict(zip(names, map(in_json, values), strict=True)))
            for values in rows.of(portion.entries)
        )
        answer = compact(head)[:-1] + b',"entries":[' + entries + b"]}"
        return Found(overview, portion, answer)


def in_json(value: Any) -> Any:
    """The value of a column as JSON has it."""
    match value:
        case bytes():
            return base64.b64encode(value).decode()
        case datetime():
            return moment(int(value.timestamp() * 1000))
        case date():
            return value.isoformat()
        case _:
            return value


OPERATION: dict[str, Any] = {
    "tags": ["journal"],
    "operationId": "read_journal",
    "summary": "Read the journal",
    "description": TEXT,
    "parameters": [VHOST, *PARAMETERS],
    "responses": {
        **row_responses(
            problems.INVALID, problems.FORBIDDEN, problems.NOT_FOUND, problems.CONFLICT,
            problems.TRIMMED,
        ),
        "200": {
            "description": "A portion of it",
            "content": json_content(reference(JournalPortion))
            | {ARROW: {"schema": {"type": "string", "format": "binary"}}},
        },
    },
}  # fmt: skip


def routes(context: Context) -> list[BaseRoute]:
    endpoint = JournalEndpoint(context)
    context.closers.append(endpoint.close)
    return [
        Described(
            PATH, endpoint.on_read, methods=["GET"], operations={"get": OPERATION},
            models=[JournalPortion, JournalEntry],
        )
    ]  # fmt: skip

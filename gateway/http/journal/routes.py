"""``GET /v1/{vhost}/journal``: a range of the journal, as JSON or as Arrow has it."""

import base64
from collections.abc import Callable
from datetime import date, datetime
from typing import Any, NamedTuple

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from gateway.http import problems
from gateway.http.admin.endpoint_routes import make_routes
from gateway.http.context import Context
from gateway.http.description import VHOST, Described, json_content, reference, row_responses
from gateway.http.journal.body import route as body_route
from gateway.http.journal.consumers import ENDPOINTS as CONSUMERS
from gateway.http.journal.consumers import ConsumerOwner, greet
from gateway.http.journal.overview import ENDPOINTS as OVERVIEW
from gateway.http.journal.query import (
    ARROW,
    PARAMETERS,
    TEXT,
    JournalEntry,
    JournalPortion,
    JournalQuery,
)
from gateway.http.journal.rights import read_reader, readable
from gateway.http.message_json import compact
from gateway.http.problems import Problem
from gateway.http.request_parameters import read_query
from gateway.http.typed import moment
from gateway.journal.canonical import Rows
from gateway.journal.entries import MOST_INLINE, Portion, Question
from gateway.journal.reader import JournalReader, Overview
from gateway.journal.segments import arrow_is_here, body_name

PATH = "/v1/{vhost}/journal"
NO_STORE = {"cache-control": "no-store"}


class Found(NamedTuple):
    """A portion of the journal of one virtual host."""

    overview: Overview
    portion: Portion
    answer: bytes


class JournalEndpoint:
    """One for all requests."""

    def __init__(self, context: Context) -> None:
        self.context = context

    async def on_read(self, request: Request) -> Response:
        principal, vhost = await read_reader(self.context, request.scope)
        broker = self.context.broker
        query = read_query(request.scope["query_string"], JournalQuery)
        try:
            names = query.names()
        except ValueError as error:
            raise Problem(problems.INVALID, f"columns: {error}") from None
        arrow = ARROW in request.headers.get("accept", "") and arrow_is_here()
        wanted = readable(broker, principal, vhost, query.address)
        owner = ConsumerOwner.of(broker, principal, vhost)

        def work(reader: JournalReader) -> Found:
            return self.find(reader, query, names, wanted, arrow, owner)

        found = await self.context.journal.run(work)
        if not arrow:
            return Response(found.answer, 200, NO_STORE, "application/json")
        told = {
            "amqp-journal": found.overview.id,
            "amqp-journal-next": str(found.portion.next),
            "amqp-journal-end": str(found.overview.end),
        }
        return Response(found.answer, 200, NO_STORE | told, ARROW)

    # --- on the thread --------------------------------------------------------------------------

    def find(
        self,
        reader: JournalReader,
        query: JournalQuery,
        names: list[str],
        wanted: Callable[[str, str], bool],
        arrow: bool,
        owner: ConsumerOwner,
    ) -> Found:
        overview = reader.overview()
        start = overview.start if query.start is None else query.start
        if query.consumer:
            known = greet(reader, query.consumer, owner, overview)
            start = known.position if query.start is None else query.start
        rows = Rows(overview.id, names)
        portion = Portion([], start)
        if query.limit:
            bodies = "body" in names if arrow else rows.needs_bodies
            question = Question(wanted, bodies, query.limit)
            portion = without_large_bodies(reader.read(start, question, query.end))
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


def without_large_bodies(portion: Portion) -> Portion:
    """Bodies that sealing puts into files are not in answers, before it does as after."""
    entries = [
        one._replace(reference=body_name(one.pos)) if one.size > MOST_INLINE else one
        for one in portion.entries
    ]
    return portion._replace(entries=entries)


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
    context.closers.append(context.journal.close)
    return [
        Described(
            PATH, endpoint.on_read, methods=["GET"], operations={"get": OPERATION},
            models=[JournalPortion, JournalEntry],
        ),
        body_route(context),
        *make_routes(context, [*OVERVIEW, *CONSUMERS]),
    ]  # fmt: skip

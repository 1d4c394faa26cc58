"""``GET /v1/{vhost}/journal/bodies/{position}``: the body of one entry, however large it is."""

from collections.abc import Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from gateway.bodies import Body
from gateway.http import problems
from gateway.http.context import Context
from gateway.http.description import VHOST, Described, in_path, row_responses
from gateway.http.journal.query import MOST
from gateway.http.journal.rights import read_reader, readable
from gateway.http.path_segments import decode_segment
from gateway.http.portions import Whole
from gateway.http.problems import Problem
from gateway.journal.entries import Question, Trimmed
from gateway.journal.reader import JournalReader

PATH = "/v1/{vhost}/journal/bodies/{position}"
OCTETS = "application/octet-stream"
HEADERS = {"cache-control": "no-store", "content-disposition": "attachment"}


def read_position(text: str) -> int:
    """Raises ``Problem`` (400)."""
    if not text.isascii() or not text.isdecimal() or len(text) > 19 or int(text) > MOST:
        raise Problem(problems.INVALID, f"position: a whole number, not {text[:40]!r}")
    return int(text)


def body_at(reader: JournalReader, position: int, wanted: Callable[[str, str], bool]) -> Body:
    """On the journal's thread. Raises ``Problem`` (404), and ``Trimmed``."""
    found = reader.read(position, Question(wanted, entries=1), position + 1).entries
    if not found:
        text = f"the journal has no entry at position {position} that you may read"
        raise Problem(problems.NOT_FOUND, text)
    try:
        return reader.body(found[0])
    except FileNotFoundError:
        raise Trimmed(position, reader.overview().start) from None


class BodyEndpoint:
    """One for all requests."""

    def __init__(self, context: Context) -> None:
        self.context = context

    async def on_read(self, request: Request) -> Response:
        principal, vhost = await read_reader(self.context, request.scope)
        position = read_position(decode_segment(request.path_params["position"]))
        wanted = readable(self.context.broker, principal, vhost)
        body = await self.context.journal.run(lambda reader: body_at(reader, position, wanted))
        return Whole(body, HEADERS, OCTETS)


OPERATION: dict[str, Any] = {
    "tags": ["journal"],
    "operationId": "read_journal_body",
    "summary": "Read the body of an entry",
    "description": "Its octets, as they were published. Portions of the journal leave out bodies "
    "of more than 8 MiB.",
    "parameters": [
        VHOST,
        in_path("position", "Position of the entry", "0")
        | {"schema": {"type": "integer", "minimum": 0, "maximum": MOST}, "example": 0},
    ],
    "responses": {
        **row_responses(
            problems.INVALID, problems.FORBIDDEN, problems.NOT_FOUND, problems.CONFLICT,
            problems.TRIMMED,
        ),
        "200": {
            "description": "The body",
            "content": {OCTETS: {"schema": {"type": "string", "format": "binary"}}},
        },
    },
}  # fmt: skip


def route(context: Context) -> Described:
    endpoint = BodyEndpoint(context)
    return Described(PATH, endpoint.on_read, methods=["GET"], operations={"get": OPERATION})

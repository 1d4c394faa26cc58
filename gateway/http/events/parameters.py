"""The parameters that stand in the query, the path and the fields of a request for a stream."""

from typing import NamedTuple
from urllib.parse import parse_qsl

from starlette.types import Scope

from gateway.http import problems
from gateway.http.problems import Problem
from gateway.http.segments import decode_segment

MOST_FIELDS = 256
Pairs = list[tuple[str, str]]


class StreamParameters(NamedTuple):
    """``names`` are those in the path, by their kind. ``pairs`` are the query without its
    ``tickets``; ``media`` is the type of the body, ``last_event_id`` and ``origin`` are the headers
    of these names."""

    names: dict[str, str]
    pairs: Pairs
    tickets: list[str]
    last_event_id: str | None
    media: bytes
    origin: bytes | None

    @property
    def cursor(self) -> str | None:
        """The header wins over the parameter of the same meaning."""
        return self.last_event_id or dict(self.pairs).get("last_event_id")


def read_stream_parameters(scope: Scope, query: Pairs) -> StreamParameters:
    """Raises ``Problem``."""
    fields: dict[bytes, bytes] = dict(scope["headers"])
    last = fields.get(b"last-event-id")
    return StreamParameters(
        {kind: decode_segment(one) for kind, one in scope["path_params"].items()},
        [pair for pair in query if pair[0] != "ticket"],
        [value for key, value in query if key == "ticket"],
        None if last is None else last.decode("latin-1"),
        fields.get(b"content-type", b"").partition(b";")[0].strip().lower(),
        fields.get(b"origin"),
    )


def invalid(detail: str) -> Problem:
    return Problem(problems.INVALID, detail)


def read_pairs(query: bytes) -> Pairs:
    """Raises ``Problem``."""
    try:
        return parse_qsl(
            query.decode("ascii"),
            keep_blank_values=True,
            errors="strict",
            max_num_fields=MOST_FIELDS,
        )
    except (UnicodeDecodeError, ValueError):
        raise invalid("the query is not percent-encoded UTF-8, or too long") from None

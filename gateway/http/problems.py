"""Condition to status, and the one error shape of every route: a problem document (RFC 9457).

Each document carries ``outcome`` (the outcome of the caller's message) and ``safe_to_retry``.
429 means that *this* destination or caller is limited, 503 that the path is down.
"""

import json
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from starlette.responses import Response

from gateway.errors import Condition, Refusal
from gateway.http.mistakes import summary
from gateway.similar_names import did_you_mean

MEDIA_TYPE = "application/problem+json"
PREFIX = "/problems/"
"""Types are relative references (RFC 9457, 3.1.1) to pages that this gateway serves."""
FORM = "application/x-www-form-urlencoded"
"""The content type of ``curl -d`` and of forms in pages."""


class Row(NamedTuple):
    """How one kind of problem is answered."""

    status: int
    kind: str
    title: str
    outcome: str
    safe_to_retry: bool | str
    retry_after: bool = False


UNROUTABLE = Row(409, "unroutable", "No queue takes this message", "unroutable", True)
NOT_FOUND = Row(404, "address-not-found", "No such address", "refused", False)
FORBIDDEN = Row(403, "forbidden", "Not permitted", "refused", False)
TOO_LARGE = Row(413, "too-large", "Message too large", "refused", False)
FULL = Row(429, "destination-full", "The queue is full", "rejected", True, True)
BACKPRESSURE = Row(503, "backpressure", "Publishers are paused", "not-sent", True, True)
QUOTA = Row(429, "quota", "Quota used up", "not-sent", True, True)
DRAINING = Row(503, "draining", "The gateway is shutting down", "not-sent", True, True)
UNAUTHORIZED = Row(401, "unauthorized", "Credentials required", "not-sent", False)
INVALID = Row(400, "invalid-request", "Malformed request", "not-sent", False)
INVALID_FIELD = Row(400, "invalid-field", "Malformed metadata field", "not-sent", False)
INVALID_CURSOR = Row(400, "invalid-cursor", "Invalid cursor", "not-sent", False)
REFUSED = Row(422, "message-refused", "The message was refused", "rejected", False)
SCHEMA = Row(422, "schema", "The request does not match its schema", "not-sent", False)
LOCKED = Row(409, "resource-locked", "In exclusive use by another connection", "refused", True)
NO_CONSUMER = Row(503, "no-consumer", "No consumer is available", "released", True, True)
CONFLICT = Row(409, "conflict", "The resource is in a conflicting state", "refused", False)
ARGUMENT = Row(422, "invalid-argument", "Invalid argument", "refused", False)
UNSUPPORTED_MEDIA = Row(415, "unsupported-media-type", "Unsupported media type", "not-sent", False)
WITH_KEY = "with-idempotency-key"
"""Safe to retry if the retry carries the same ``Idempotency-Key``."""
LEASE_LOST = Row(410, "lease-lost", "The lease has expired", "refused", False)
TRIMMED = Row(410, "journal-trimmed", "The journal begins later", "refused", False)
ALREADY_SETTLED = Row(
    409, "already-settled", "Already settled with another outcome", "refused", False
)
INVALID_TOKEN = Row(404, "invalid-token", "Invalid token", "refused", False)
OUTCOME_UNSUPPORTED = Row(
    422, "outcome-unsupported", "The queue does not support this outcome", "refused", False
)
REPLY_TIMEOUT = Row(504, "reply-timeout", "No reply in time", "accepted", False)
LOST = Row(502, "outcome-unknown", "The broker went away before it confirmed", "unknown", WITH_KEY)
UNKNOWN = Row(504, "outcome-unknown", "No confirmation in time", "unknown", WITH_KEY)
BAD_KEY = Row(400, "idempotency-key", "Malformed Idempotency-Key", "not-sent", False)
KEY_NEEDED = Row(400, "idempotency-required", "Idempotency-Key required", "not-sent", False)
KEY_BUSY = Row(
    409, "idempotency-in-progress", "The first request is in progress", "unknown", WITH_KEY, True
)
KEY_REUSED = Row(
    422, "idempotency-mismatch", "The key was used for another message", "not-sent", False
)
BAD_DIGEST = Row(400, "digest-mismatch", "The content does not match its digest", "not-sent", True)
NOT_ATTEMPTED = Row(424, "not-attempted", "Another item failed", "not-sent", True)
INTERNAL = Row(500, "internal-error", "Internal error", "unknown", False)
INTERNAL_TEXT = "The gateway failed to process the request; the failure was logged."
UNSUPPORTED = Row(501, "not-implemented", "Not implemented", "refused", False)
KEYS_UNAVAILABLE = Row(
    503, "keys-unavailable", "Tokens cannot be verified at present", "not-sent", True, True
)
HEAD_TOO_LARGE = Row(431, "head-too-large", "The request head is too large", "not-sent", False)
TOO_SLOW = Row(408, "too-slow", "The request was not received in time", "not-sent", True)
CROWDED = Row(503, "too-many-connections", "Too many connections", "not-sent", True, True)

ROWS: dict[Condition, Row] = {
    Condition.CONTENT_TOO_LARGE: TOO_LARGE,
    Condition.NO_ROUTE: UNROUTABLE,
    Condition.NO_CONSUMERS: NO_CONSUMER,
    Condition.CONNECTION_FORCED: DRAINING,
    Condition.INVALID_PATH: NOT_FOUND,
    Condition.ACCESS_REFUSED: FORBIDDEN,
    Condition.NOT_FOUND: NOT_FOUND,
    Condition.RESOURCE_LOCKED: LOCKED,
    Condition.PRECONDITION_FAILED: REFUSED,
    Condition.FRAME_ERROR: INVALID,
    Condition.SYNTAX_ERROR: INVALID,
    Condition.COMMAND_INVALID: INVALID,
    Condition.CHANNEL_ERROR: INTERNAL,
    Condition.UNEXPECTED_FRAME: INVALID,
    Condition.RESOURCE_ERROR: BACKPRESSURE,
    Condition.NOT_ALLOWED: FORBIDDEN,
    Condition.NOT_IMPLEMENTED: UNSUPPORTED,
    Condition.INTERNAL_ERROR: INTERNAL,
}

ALL_ROWS: tuple[Row, ...] = tuple(row for row in globals().values() if isinstance(row, Row))

BY_STATUS: dict[int, Row] = {
    404: Row(404, "not-found", "No such resource", "not-sent", False),
    405: Row(405, "method-not-allowed", "Method not allowed here", "not-sent", False),
}


class Problem(Exception):
    """A request ends with this document. ``extra`` adds members to it."""

    def __init__(
        self,
        row: Row,
        detail: str,
        *,
        retry_after: int = 1,
        headers: dict[str, str] | None = None,
        **extra: Any,
    ) -> None:
        super().__init__(detail)
        self.row = row
        self.detail = detail
        self.retry_after = retry_after
        self.headers = headers or {}
        if row is DRAINING:
            self.headers = {"connection": "close", **self.headers}
        self.extra = extra

    def document(self, instance: str = "") -> dict[str, Any]:
        """The JSON object, which also stands in results of batch items."""
        document: dict[str, Any] = {
            "type": PREFIX + self.row.kind,
            "title": self.row.title,
            "status": self.row.status,
            "detail": self.detail,
        }
        if instance:
            document["instance"] = instance
        document["outcome"] = self.row.outcome
        document["safe_to_retry"] = self.row.safe_to_retry
        if self.row.retry_after:
            document["retry_after_ms"] = self.retry_after * 1000
        return document | self.extra

    def response(self, instance: str = "") -> Response:
        for prefix, shape in SHAPES.items():
            if instance.startswith(prefix):
                return shape(self)
        headers = {"cache-control": "no-store", **self.headers}
        if self.row.retry_after:
            headers["retry-after"] = str(self.retry_after)
        return Response(
            json.dumps(self.document(instance)),
            self.row.status,
            headers=headers,
            media_type=MEDIA_TYPE,
        )


SHAPES: dict[str, Callable[[Problem], Response]] = {}
"""Other forms of errors, by the prefix of the paths whose clients expect them."""


def of_refusal(refusal: Refusal, hidden: bool = False) -> Problem:
    """The problem of a refusal by the broker. Its text names nodes: ``hidden`` if the caller only
    knows a route."""
    if hidden:
        row = ROWS[refusal.condition]
        return Problem(row, f"behind the route: {row.title[0].lower()}{row.title[1:]}")
    amqp = {"condition": refusal.condition.value, "description": refusal.text}
    return Problem(ROWS[refusal.condition], refusal.text, amqp=amqp)


def no_vhost(name: str) -> Problem:
    """There is no such virtual host. The default one has a name that paths must escape."""
    if "%" in name:
        hint = "its name in the path was percent-encoded twice; encode it once, / as %2F"
    elif name == "admin":
        hint = (
            "administration is by virtual host, as at /v1/admin/vhosts/%2F/queues; "
            "/api/queues lists the queues of all of them"
        )
    else:
        hint = "the default one, /, is written %2F in a path; GET /v1/admin/vhosts lists them"
    return Problem(NOT_FOUND, f"no virtual host {name!r}: {hint}")


def not_json(media: str) -> Problem:
    """A route that takes JSON got another content type."""
    told = f"this route takes application/json, and the body is {media[:100] or 'untyped'}"
    if media.lower() == FORM:
        told += ", which curl -d says by itself"
    return Problem(UNSUPPORTED_MEDIA, f"{told}; add -H 'Content-Type: application/json'")


def broken_json(error: Exception) -> Problem:
    """A body that cannot be read. ``error``: what ``json.loads`` has raised."""
    why = str(error)
    if isinstance(error, RecursionError):
        why = "it is nested too deeply"
    elif isinstance(error, UnicodeDecodeError):
        why = f"it is not UTF-8 at octet {error.start}"
    elif "double quotes" in why:
        why += "; in a shell, put single quotes around the whole body"
    return Problem(INVALID, f"the body is not JSON: {why}")


def misshapen(errors: list[dict[str, str]]) -> Problem:
    """A document that has these errors, of which the detail has the first ones."""
    return Problem(SCHEMA, summary(errors), errors=errors)


def strange_member(name: str, known: Iterable[str] = ()) -> Problem:
    """An unknown member of a request body, which is never ignored."""
    pointer = "/" + name.replace("~", "~0").replace("/", "~1")
    text = "unknown member" + did_you_mean(name, known)
    return Problem(SCHEMA, f"{pointer}: {text}", errors=[{"pointer": pointer, "detail": text}])


def challenge(detail: str = "Authenticate with HTTP Basic as a broker user.") -> Problem:
    headers = {"www-authenticate": 'Basic realm="amqp-gateway", charset="UTF-8"'}
    return Problem(UNAUTHORIZED, detail, headers=headers)

"""The pages behind problem types, and ``docs/problems.md``: both from this table.

Write the file anew with ``python -m gateway.http.admin.pages > docs/problems.md``.
"""

import sys
from html import escape

from starlette.responses import Response

from gateway.http import problems
from gateway.http.admin.admin_endpoints import Call, Endpoint, Rank
from gateway.http.problems import ALL_ROWS, BY_STATUS, Problem, Row

ABOUT: dict[str, str] = {
    "invalid-request": "A name, parameter or body cannot be understood; `detail` says which. "
    "Sending the same again gives the same answer.",
    "invalid-field": "One of the `Amqp-...` fields does not follow RFC 9651 or is out of its "
    "range; `field` names it. Fields are never ignored.",
    "invalid-cursor": "The cursor in `Last-Event-ID` was changed, or made by another gateway. "
    "Connect without it.",
    "invalid-token": "The delivery token was changed, or made by another gateway or for another "
    "virtual host.",
    "unauthorized": "There are no credentials, or they are wrong or expired. Present but invalid "
    "credentials are never treated as none.",
    "forbidden": "The user or the credential does not have this permission; also given to "
    "changes that a page of another site asks for.",
    "address-not-found": "There is no such virtual host, queue, exchange, user or connection.",
    "unroutable": "The exchange is there, but no queue took the message. It is nowhere. Retry "
    "after the bindings have changed.",
    "resource-locked": "The queue belongs to another connection, or one consumer has it alone.",
    "too-large": "The body is larger than `limit_octets`. This is decided before it is read.",
    "message-refused": "The broker refused the message for what it is, such as a user id that is "
    "not the caller's.",
    "schema": "The body is JSON but not of the expected shape; `errors` points at each place.",
    "destination-full": "The queue has reached its length limit and rejects what is published.",
    "quota": "This caller has used up a limit, or all callers of a virtual host or a route have; "
    "`RateLimit` fields and `Retry-After` say when it may go on.",
    "internal-error": "A bug. The log has it under the `X-Request-Id` of the answer.",
    "not-implemented": "The protocol has it, this gateway does not.",
    "backpressure": "Memory or disk is short, and publishers are held back. Nothing was sent.",
    "no-consumer": "The message asked for a consumer that takes it now, and there is none.",
    "draining": "The gateway is shutting down. Nothing was sent; try another or wait.",
    "outcome-unknown": "The broker did not confirm in time (504), or what it would have said was "
    "lost with the virtual host or with a gateway that stops (502): the change or message may be "
    "there or not. A retry may do it twice unless it carries the same `Idempotency-Key`.",
    "conflict": "What is there differs from what is declared, or is in use although the request "
    "says it must not be.",
    "invalid-argument": "The value is well-formed but impossible: an unknown or contradictory "
    "argument, a password that cannot be used, a pattern that is no regular expression.",
    "unsupported-media-type": "The body has a content type that this route does not read.",
    "lease-lost": "The time of the lease is over, and the message may be with somebody else. What "
    "was done for it may be done again.",
    "already-settled": "The delivery was settled with another outcome before.",
    "outcome-unsupported": "This queue cannot settle so, such as a reject without dead letters.",
    "reply-timeout": "The request was accepted by a queue, but nobody answered in time.",
    "idempotency-key": "The field is not a string of the allowed length, or is given twice.",
    "idempotency-required": "The declared route takes no message without the field, so that every "
    "retry is safe.",
    "idempotency-in-progress": "Another request with this key has no answer yet.",
    "idempotency-mismatch": "This key was used for another message; nothing was sent.",
    "digest-mismatch": "`Content-Digest` does not fit the body: it was changed on its way.",
    "not-attempted": "An earlier item of the batch failed, and `on_error` is `stop`.",
    "keys-unavailable": "The keys that tokens are checked with cannot be fetched.",
    "head-too-large": "Request line and header fields together are larger, or more, than the "
    "gateway takes (`http.max_head_octets`).",
    "too-slow": "Head or body made no progress for `http.idle_seconds`. Nothing was sent.",
    "too-many-connections": "As many HTTP connections are open as `http.max_connections` allows.",
    "not-found": "There is no route of this path.",
    "method-not-allowed": "The path exists, but not with this method; `Allow` names those it has.",
    "http": "An error of HTTP itself without more meaning; the status says it.",
}

HTTP = Row(400, "http", "HTTP error", "not-sent", False)


def all_rows() -> list[Row]:
    """The last of a kind that has several statuses stands for all."""
    rows = {row.kind: row for row in (*ALL_ROWS, *BY_STATUS.values(), HTTP)}
    return sorted(rows.values(), key=lambda row: (row.status, row.kind))


def status_of(row: Row) -> str:
    if row is HTTP:
        return "any"
    found = {one.status for one in (*ALL_ROWS, *BY_STATUS.values()) if one.kind == row.kind}
    return " or ".join(str(status) for status in sorted(found))


def about(row: Row) -> str:
    return ABOUT.get(row.kind, row.title + ".")


def retry_word(row: Row) -> str:
    retry = row.safe_to_retry
    shown = retry if isinstance(retry, str) else "yes" if retry else "no"
    return f"{shown}, see `Retry-After`" if row.retry_after else shown


def markdown() -> str:
    """``docs/problems.md``."""
    lines = [
        "# Problems",
        "",
        "Every error is `application/problem+json` (RFC 9457). `type` is `/problems/NAME`,",
        "relative to the gateway, which serves the same texts there without credentials.",
        "`outcome` says what became of the caller's message: `accepted`, `unroutable`,",
        "`released`, `rejected`, `refused`, `not-sent` or `unknown`; `safe_to_retry` whether",
        "sending it again cannot store it twice. Only RabbitMQ's paths (`/api/...`) answer errors",
        "as RabbitMQ does.",
        "",
        "This file is written by `python -m gateway.http.admin.pages > docs/problems.md`.",
        "",
    ]
    for row in all_rows():
        lines += [
            f"## {row.kind}",
            "",
            f"{row.title}. Status {status_of(row)}, outcome `{row.outcome}`, safe to retry: "
            f"{retry_word(row)}.",
            "",
            about(row),
            "",
        ]
    return "\n".join(lines).rstrip() + "\n"


def page(title: str, body: str) -> Response:
    text = (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(title)}</title>'
        f"<h1>{escape(title)}</h1>{body}</html>"
    )
    return Response(text, media_type="text/html", headers={"cache-control": "max-age=3600"})


async def list_problems(call: Call) -> Response:
    rows = all_rows()
    items = "".join(f'<li><a href="/problems/{r.kind}">{escape(r.title)}</a>' for r in rows)
    return page("Problems", f"<ul>{items}</ul>")


async def show_problem(call: Call) -> Response:
    for row in all_rows():
        if row.kind == call.names["name"]:
            facts = (
                ("Status", status_of(row)),
                ("Outcome", row.outcome),
                ("Safe to retry", retry_word(row).replace("`", "")),
            )
            shown = "".join(f"<dt>{name}<dd>{escape(value)}" for name, value in facts)
            text = escape(about(row)).replace("`", "")
            return page(row.title, f"<p>{text}</p><dl>{shown}</dl>")
    raise Problem(BY_STATUS[404], "no such problem")


ENDPOINTS = [
    Endpoint("GET", "/problems", list_problems, "All problem types", Rank.ANYBODY, gives=str,
             media="text/html", tag="descriptions"),
    Endpoint("GET", "/problems/{name}", show_problem, "What a problem type means", Rank.ANYBODY,
             gives=str, media="text/html", tag="descriptions", refusals=(problems.BY_STATUS[404],)),
]  # fmt: skip

if __name__ == "__main__":
    sys.stdout.write(markdown())

"""The pages of problem types, and ``docs/problems.md``, both from one table.

Regenerate the file with ``python -m gateway.http.admin.problem_pages > docs/problems.md``.
"""

import sys
from html import escape

from starlette.responses import Response

from gateway.http import problems
from gateway.http.admin.admin_endpoints import Call, Endpoint, Rank
from gateway.http.admin.problem_examples import ADVICE
from gateway.http.problems import ALL_ROWS, BY_STATUS, Problem, Row

ABOUT: dict[str, str] = {
    "invalid-request": "A name, parameter or body is malformed; `detail` says which. Repeating the "
    "same request gives the same answer.",
    "invalid-field": "One of the `Amqp-...` fields does not follow RFC 9651 or is out of its "
    "range; `field` names it. Fields are never ignored.",
    "invalid-cursor": "The cursor in `Last-Event-ID` was altered, or issued by another gateway. "
    "Connect without it.",
    "invalid-token": "The delivery token was altered, or issued by another gateway or for another "
    "virtual host.",
    "unauthorized": "Credentials are missing, wrong or expired. Invalid credentials are never "
    "treated as missing ones.",
    "forbidden": "The user or the credential does not have this permission. Also the answer to "
    "changes requested by a page of another site.",
    "address-not-found": "There is no such virtual host, queue, exchange, user or connection.",
    "unroutable": "The exchange exists, but it routed the message to no queue, and the message was "
    "not kept. Retry after the bindings have changed.",
    "resource-locked": "The queue is exclusive to another connection or has an exclusive consumer.",
    "too-large": "The body is larger than `limit_octets`. This is decided before it is read.",
    "message-refused": "The broker refused the message because of its properties, such as a user "
    "id other than the caller's.",
    "schema": "The body is JSON but does not match the schema; `errors` points at each mismatch.",
    "destination-full": "The queue has reached its length limit and rejects new messages.",
    "quota": "A limit of this caller, or of all callers of a virtual host or a route, is "
    "exhausted; the `RateLimit` fields and `Retry-After` say when requests are accepted again.",
    "internal-error": "A bug. The log has the details under the `X-Request-Id` of the answer.",
    "not-implemented": "The protocol defines this operation, but the gateway does not implement "
    "it.",
    "backpressure": "Memory or disk space is short, and publishers are paused. Nothing was sent.",
    "no-consumer": "The message required immediate delivery, and no consumer was ready.",
    "draining": "The gateway is shutting down. Nothing was sent; wait, or use another gateway.",
    "outcome-unknown": "The broker did not confirm in time (504), or its confirmation was lost "
    "because the virtual host was deleted or the gateway stopped (502). The change or message may "
    "have been applied. A retry may apply it twice unless it carries the same `Idempotency-Key`.",
    "conflict": "The existing resource differs from the declaration, or is in use although the "
    "request requires that it is not.",
    "invalid-argument": "The value is well-formed but not acceptable: an unknown or contradictory "
    "argument, an unusable password, a pattern that is not a regular expression.",
    "unsupported-media-type": "This route does not accept the content type of the body.",
    "lease-lost": "The lease has expired, and the message may have been delivered to another "
    "receiver. Its processing may be repeated.",
    "journal-trimmed": "Retention has removed the entries at this position. `start` is the first "
    "position that there is.",
    "already-settled": "The delivery was settled earlier with another outcome.",
    "outcome-unsupported": "The queue cannot apply this outcome, such as a reject without a dead "
    "letter exchange.",
    "reply-timeout": "A queue accepted the request, but no reply arrived in time.",
    "idempotency-key": "The field is not a string of the allowed length, or is given twice.",
    "idempotency-required": "The declared route accepts messages only with this field, so that "
    "every retry is safe.",
    "idempotency-in-progress": "Another request with this key has no answer yet.",
    "idempotency-mismatch": "This key was used for another message; nothing was sent.",
    "digest-mismatch": "`Content-Digest` does not match the body, which was altered in transit.",
    "not-attempted": "An earlier item of the batch failed, and `on_error` is `stop`.",
    "keys-unavailable": "The keys for verifying tokens cannot be fetched.",
    "head-too-large": "The request line and header fields exceed `http.max_head_octets`, or there "
    "are too many fields.",
    "too-slow": "The head or body of the request made no progress for `http.idle_seconds`. Nothing "
    "was sent.",
    "too-many-connections": "The limit `http.max_connections` of open HTTP connections is reached.",
    "not-found": "No route has this path.",
    "method-not-allowed": "The path exists, but not with this method; `Allow` names those it has.",
    "http": "A plain HTTP error; the status has its meaning.",
}

HTTP = Row(400, "http", "HTTP error", "not-sent", False)


def all_rows() -> list[Row]:
    """All rows, one per kind: of a kind with several statuses the last one."""
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


def example(row: Row) -> list[str]:
    """The lines of an example: how it comes to this problem, and how it does not."""
    advice = ADVICE[row.kind]
    lines = [*advice.wrong]
    if lines:
        lines[-1] += f"    # {status_of(row)} {row.kind}"
    mended = [*advice.mended, *([advice.shown] if advice.shown else [])]
    if lines and mended:
        lines.append("# mended:")
    return lines + mended


def markdown() -> str:
    """``docs/problems.md``."""
    lines = [
        "# Problems",
        "",
        "Every error is `application/problem+json` (RFC 9457). `type` is `/problems/NAME`,",
        "relative to the gateway, which serves the same texts there without credentials.",
        "`detail` names the rule, what it saw, and one thing to try where that can be known.",
        "`outcome` is the outcome of the caller's message: `accepted`, `unroutable`,",
        "`released`, `rejected`, `refused`, `not-sent` or `unknown`; `safe_to_retry` says whether",
        "a retry is certain not to store the message twice. Only RabbitMQ's paths (`/api/...`)",
        "answer errors in RabbitMQ's form.",
        "",
        "This file is written by `python -m gateway.http.admin.problem_pages > docs/problems.md`.",
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
            f"**Fix.** {ADVICE[row.kind].fix}",
            "",
            *(f"    {line}" for line in example(row)),
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
            fix = escape(ADVICE[row.kind].fix).replace("`", "")
            lines = escape("\n".join(example(row)))
            body = f"<p>{text}</p><dl>{shown}</dl><h2>Fix</h2><p>{fix}</p>"
            return page(row.title, f"{body}<h2>Example</h2><pre>{lines}</pre>")
    raise Problem(BY_STATUS[404], "no such problem")


ENDPOINTS = [
    Endpoint("GET", "/problems", list_problems, "All problem types", Rank.ANYBODY, gives=str,
             media="text/html", tag="descriptions"),
    Endpoint("GET", "/problems/{name}", show_problem, "Describe a problem type", Rank.ANYBODY,
             gives=str, media="text/html", tag="descriptions", refusals=(problems.BY_STATUS[404],)),
]  # fmt: skip

if __name__ == "__main__":
    sys.stdout.write(markdown())

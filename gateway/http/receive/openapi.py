"""The OpenAPI description of the routes of receiving."""

from typing import Any

from pydantic import Field

from gateway.http import problems as p
from gateway.http.description import (
    BINARY,
    FIELDS,
    JSON_VALUE,
    VHOST,
    example_of,
    in_header,
    in_path,
    in_queries,
    in_query,
    json_content,
    model_content,
    reference,
    row_responses,
)
from gateway.http.message_models import ReceivedFullMessage, ReceivedMessage
from gateway.http.publish.described import OperationView
from gateway.http.publish.operations import MEDIA_TYPE as OPERATION
from gateway.http.receive.requests import (
    Modify,
    PageQuery,
    Receive,
    Redrive,
    Reject,
    Release,
    Renew,
    SettleItem,
    ViewQuery,
)
from gateway.http.schemas import ProblemDocument, Shape

TOKEN = "AgAAAKl2dG9rZW4"
MESSAGE: dict[str, Any] = {
    "id": "0192f3c1-7a10-7c2e-9b1d-3f2a5c6d7e8f",
    "content_type": "application/json",
    "exchange": "",
    "routing_key": "orders",
    "redelivered": False,
    "body": {"json": {"order": 17}},
}


class Delivery(Shape):
    """One delivered message. In mode "auto" it is accepted already and has no token."""

    token: str | None = Field(default=None, examples=[TOKEN])
    lock_until: str | None = Field(default=None, examples=["2026-08-21T10:00:30.000Z"])
    delivery_count: int = Field(
        description="number of this delivery of the message, from 1", examples=[1]
    )
    redelivered: bool = Field(examples=[False])
    message: ReceivedFullMessage | ReceivedMessage = Field(examples=[MESSAGE])


class Deliveries(Shape):
    deliveries: list[Delivery] = Field(examples=[[example_of(Delivery)]])


class Standing(Shape):
    """State of a lease, with the message while the lease is open."""

    state: str = Field(examples=["settled"], description="leased or settled")
    outcome: str | None = Field(default=None, examples=["accepted"])
    lock_until: str | None = None
    delivery_count: int | None = None
    redelivered: bool | None = None
    message: ReceivedFullMessage | ReceivedMessage | None = None


class Settled(Shape):
    """``confirmed``: the settlement of a durable message is on disk. ``repeated``: it was settled
    so before."""

    outcome: str = Field(examples=["accepted"])
    confirmed: bool = Field(default=True, examples=[True])
    repeated: bool = Field(default=False, examples=[False])


class Renewed(Shape):
    outcome: str = Field(examples=["renewed"])
    lock_until: str = Field(examples=["2026-08-21T10:01:00.000Z"])


class SettleResult(Shape):
    """The result of one item: the members of a settlement or a renewal, or a problem."""

    index: int
    token: str
    status: int = Field(description="200, or that of the problem")
    outcome: str
    confirmed: bool | None = None
    repeated: bool | None = None
    lock_until: str | None = None
    problem: ProblemDocument | None = None


class SettleResults(Shape):
    """One entry per item, in order."""

    results: list[SettleResult] = Field(
        examples=[[{"index": 0, "token": TOKEN, "status": 200, **example_of(Settled)}]]
    )


class SeenAs(Shape):
    """A message as readers of another version get it, without the capsule that keeps what their
    form does not express."""

    version: str = Field(examples=["1.0"])
    fidelity: str | None = Field(
        default=None,
        description="exact, equivalent, capsule, edited, lossy or natural",
        examples=["equivalent"],
    )
    inexact: list[str] | None = Field(
        default=None,
        description="properties that the form does not express; with fidelity `capsule` they come "
        "back as they were",
        examples=[[]],
    )
    message: ReceivedFullMessage | ReceivedMessage | None = Field(
        default=None,
        description="without its body if that has more than 65536 octets",
        examples=[MESSAGE],
    )
    declined: str | None = Field(default=None, description="why these readers do not get it")


class Looked(Shape):
    """One browsed message."""

    position: str = Field(examples=["0-17"])
    deliveries: int = Field(description="number of earlier deliveries", examples=[0])
    expires: str | None = None
    message: ReceivedFullMessage | ReceivedMessage = Field(examples=[MESSAGE])
    came_as: str | None = Field(
        default=None,
        description="with `crossings`: the encoding in which it came; 0-9-1 is that of 0-8, 0-9 "
        "and HTTP too",
        examples=["0-9-1"],
    )
    seen_as: list[SeenAs] | None = Field(
        default=None,
        description="with `crossings`: readers of other encodings",
        examples=[[example_of(SeenAs)]],
    )


class Page(Shape):
    """``next`` is the value of ``after`` for the next page; an empty page is the last one."""

    ready: int = Field(examples=[1])
    messages: list[Looked] = Field(examples=[[example_of(Looked)]])
    next: str | None = Field(examples=["0-17"])


class RedriveFailure(Shape):
    position: str = Field(examples=["0-17"])
    reason: str


class Redriven(Shape):
    """Outcome of the examined dead letters."""

    redriven: int = Field(examples=[1])
    skipped: int = Field(
        description="dead letters that did not match or were taken by another consumer",
        examples=[0],
    )
    failed: int = Field(examples=[0])
    failures: list[RedriveFailure] = Field(
        description="position and reason of the first hundred failures", examples=[[]]
    )
    complete: bool = Field(description="true if all dead letters were examined", examples=[True])
    next: str | None = Field(
        description="position to continue from in the next call", examples=[None]
    )


class Purged(Shape):
    purged: int = Field(examples=[3])


MODELS = (
    *(Receive, Renew, Release, Reject, Modify, SettleItem, Redrive, Deliveries, Standing),
    *(Settled, Renewed, SettleResults, Page, SeenAs, Redriven, Purged),
)

RECEIVE_TEXT = """Takes up to `max` messages and leases them for `lease_ms`. A message that is not
settled by its token within that time returns to its queue. With `wait_ms` the answer waits for the
first message; 204 means that none arrived. Messages are taken only while a request waits, and are
returned at once if the answer cannot be written.

A request that is repeated with the same `Receive-Attempt-Id` while its leases run gets the same
deliveries again, in case the first answer was lost. All members of the body may be query parameters
instead. `view=raw` (or an `Accept` without JSON) gives the unchanged body of one message, with its
metadata in HTTP fields and its token in `Amqp-Lock-Token`; `max` does not apply then. That answer
is described as `*/*`, whatever its type is.

`filter` (the language of event streams), `selector` (a condition as in JMS), `group` and
`max_deliveries` take from the middle of the queue: other messages keep their positions. A long
queue is searched in portions, from its head to its end, however short `wait_ms` is. A matching
message that was delivered `max_deliveries` times already is dead-lettered with the reason
`delivery_limit` instead of being delivered."""

REDRIVE_TEXT = """Publishes dead letters again: to the exchange of their first publish
(`to: exchange`), into the queue of their first death (`to: queue`), or to a given target. Each is
removed from this queue in the same commit. One call works for about 30 seconds; `next` is the
position to continue from."""

REQUEST_TEXT = """Publishes the request with a reply address of its own and answers with the reply:
its body, and its metadata in `Amqp-` fields. `Prefer: wait=n` sets the time limit in seconds (30 by
default, at most 120). `outcome` of a 504 `reply-timeout` says whether the request was accepted.

With `Prefer: respond-async` (and `wait=n`, 0 by default) the answer is 202 and an operation, whose
`result` is the reply as a message in JSON, or the problem. Operations are kept in memory: they end
with the gateway, some minutes after completion, or when newer ones need their memory."""

GONE = (p.INVALID_TOKEN, p.LEASE_LOST, p.NOT_FOUND)
Operation = dict[str, Any]
QUEUE = in_path("queue", "Queue, percent-encoded", "orders")
TOKEN_IN_PATH = {
    **in_path("token", "Token from a receive", TOKEN),
    "schema": {"type": "string", "minLength": 1, "maxLength": 256},
}


def ok(model: type[Shape]) -> Operation:
    return {"description": "Done", "content": model_content(model)}


def body(model: Any, example: Any) -> Operation:
    return {"required": False, "content": json_content(reference(model), example)}


def make(
    name: str,
    summary: str,
    text: str,
    parameters: list[Operation],
    responses: Operation,
    *rows: p.Row,
    asks: Operation | None = None,
) -> Operation:
    made: Operation = {
        "tags": ["receiving"],
        "operationId": name,
        "summary": summary,
        "description": text,
        "parameters": [VHOST, *parameters],
        "responses": {**row_responses(p.INVALID, p.FORBIDDEN, *rows), **responses},
    }
    if asks is not None:
        made["requestBody"] = asks
    return made


PAGE = {"200": ok(Page)}
PAGES = [QUEUE, *in_queries(PageQuery)]


def settle(name: str, summary: str, text: str, model: Any, example: Any) -> Operation:
    asks = None if model is None else body(model, example)
    rows: tuple[p.Row, ...] = (*GONE, p.ALREADY_SETTLED, p.UNKNOWN)
    if model is not None:
        rows += (p.SCHEMA, p.TOO_LARGE)
    if model is Modify:
        rows += (p.OUTCOME_UNSUPPORTED,)
    result = ok(Renewed if model is Renew else Settled)
    return make(name, summary, text, [TOKEN_IN_PATH], {"200": result}, *rows, asks=asks)


def receive() -> Operation:
    parameters = [
        QUEUE,
        in_header("Receive-Attempt-Id", "6f0e-1", "Makes the receive repeatable")
        | {"schema": {"type": "string", "pattern": "^[!-~]{1,128}$"}},
        *in_queries(Receive),
    ]
    got = ok(Deliveries)
    # A raw answer has the message's own type. It may be JSON of any shape; said beside the other
    # schema, that would take all meaning from it for a generated client.
    got["content"]["*/*"] = {"schema": BINARY}
    told = {
        "schema": reference(Receive),
        "examples": {
            "any": {"value": {"max": 10, "wait_ms": 0, "lease_ms": 30000}},
            "some": {"value": {"max": 10, "selector": "JMSPriority >= 4 AND kind IS NULL"}},
        },
    }
    asks = {"required": False, "content": {"application/json": told}}
    return make(
        "receive_messages", "Receive messages with a lease", RECEIVE_TEXT, parameters,
        {"200": got, "204": {"description": "No message arrived in time"}},
        p.INVALID_FIELD, p.NOT_FOUND, p.LOCKED, p.CONFLICT, p.TOO_LARGE, p.SCHEMA, p.QUOTA,
        p.DRAINING, asks=asks,
    )  # fmt: skip


def bulk() -> Operation:
    items = {"type": "array", "items": reference(SettleItem), "minItems": 1, "maxItems": 1000}
    return make(
        "settle_deliveries", "Settle many deliveries",
        "Each item has its own result: 200 if all succeeded, else 207.", [],
        {
            "200": ok(SettleResults),
            "207": {
                "description": "Some failed",
                "content": json_content(reference(SettleResults)),
            },
        },
        p.SCHEMA, p.TOO_LARGE, p.UNKNOWN,
        asks={
            "required": True,
            "content": json_content(items, [{"token": TOKEN, "outcome": "accepted"}]),
        },
    )  # fmt: skip


def request_reply() -> Operation:
    anything: Operation = {"*/*": {"schema": JSON_VALUE}}
    fields = [in_header(*field) for field in FIELDS if field[0] != "Amqp-Reply-To"]
    return make(
        "request_reply", "Request and reply in one call", REQUEST_TEXT,
        [
            in_query(
                "to", "A queue's name, /queues/NAME or /exchanges/NAME/KEY, percent-encoded",
                "/queues/rpc", type="string", minLength=1, maxLength=1024,
                pattern="^(/queues/[!-.0-~]+|/exchanges/[!-.0-~]+(/[!-.0-~]*)?|[!-.0-~][!-~]*)$",
            )
            | {"required": True},
            in_header("Prefer", "wait=10", "`wait=n` (seconds), `respond-async`"),
            *fields,
        ],
        {
            "200": {"description": "The body of the reply, unchanged", "content": anything},
            "202": {
                "description": "In progress (`respond-async`)",
                "headers": {"Location": {"schema": {"type": "string"}}},
                "content": json_content(reference(OperationView), media=OPERATION),
            },
        },
        p.INVALID_FIELD, p.NOT_FOUND, p.UNROUTABLE, p.TOO_LARGE, p.REFUSED, p.FULL, p.QUOTA,
        p.BACKPRESSURE, p.DRAINING, p.REPLY_TIMEOUT, p.LOST,
        asks={
            "description": "The body of the request, unchanged.",
            "content": {
                "application/json": {"schema": JSON_VALUE, "example": {"ask": 17}},
                "*/*": {"schema": BINARY},
            },
        },
    )  # fmt: skip


ONE = "/v1/{vhost}/deliveries/{token}"
LETTERS = "/v1/{vhost}/dead-letters/{queue}"
NO_QUEUE = (p.NOT_FOUND, p.LOCKED)

OPERATIONS: dict[tuple[str, str], Operation] = {
    ("POST", "/v1/{vhost}/queues/{queue}/deliveries"): receive(),
    ("GET", "/v1/{vhost}/queues/{queue}/messages"): make(
        "browse_messages", "Browse messages without consuming them",
        "Ready messages, in the order of delivery.", PAGES, PAGE, *NO_QUEUE,
    ),
    ("POST", "/v1/{vhost}/deliveries/settle"): bulk(),
    ("GET", ONE): make(
        "inspect_delivery", "Show the state of a lease", "With the message while it is open.",
        [TOKEN_IN_PATH, *in_queries(ViewQuery)],
        {"200": ok(Standing)}, *GONE,
    ),
    ("DELETE", ONE): settle(
        "accept_delivery", "Accept a delivery", "Removes the message.", None, None
    ),
    ("PATCH", ONE): settle(
        "renew_delivery", "Renew a lease",
        "The lease ends `lease_ms` from now.", Renew, {"lease_ms": 60000}
    ),
    ("POST", f"{ONE}/release"): settle(
        "release_delivery", "Release a delivery",
        "Returns it to its position.", Release, {"failed": False}
    ),
    ("POST", f"{ONE}/reject"): settle(
        "reject_delivery", "Reject a delivery",
        str(Reject.__doc__), Reject, {"reason": "invalid-order"}
    ),
    ("POST", f"{ONE}/modify"): settle(
        "modify_delivery", "Release a delivery with changes",
        str(Modify.__doc__), Modify,
        {"delivery_failed": True, "annotations": {"x-opt-tried-by": "a"}},
    ),
    ("GET", LETTERS): make(
        "browse_dead_letters", "Browse dead letters",
        "Each has its history in `dead_letter`, the latest death first.", PAGES, PAGE, *NO_QUEUE,
    ),
    ("DELETE", LETTERS): make(
        "purge_dead_letters", "Purge dead letters", "Removes all ready dead letters.", [QUEUE],
        {"200": ok(Purged)}, *NO_QUEUE, p.UNKNOWN,
    ),
    ("POST", f"{LETTERS}/redrive"): make(
        "redrive_dead_letters", "Redrive dead letters", REDRIVE_TEXT, [QUEUE],
        {"200": ok(Redriven)}, *NO_QUEUE, p.CONFLICT, p.SCHEMA, p.TOO_LARGE, p.UNKNOWN,
        asks=body(Redrive, {"filter": {"reason": "rejected"}, "limit": 100}),
    ),
    ("POST", "/v1/{vhost}/requests"): request_reply(),
}  # fmt: skip

"""The routes of publishing in ``/openapi.json``."""

from base64 import b64encode
from hashlib import sha256
from typing import Any

from pydantic import Field

from gateway.http import problems as p
from gateway.http.description import (
    BINARY,
    FIELDS,
    VHOST,
    example_of,
    in_header,
    in_path,
    in_query,
    json_content,
    model_content,
    reference,
    row_responses,
)
from gateway.http.message_models import (
    CloudEvent,
    CloudEventBatch,
    MessageBatch,
    NewFullMessage,
    NewMessage,
)
from gateway.http.publish import cloudevents
from gateway.http.publish.form_reader import FORM
from gateway.http.publish.items import BATCH, LINES, MULTIPART
from gateway.http.publish.operations import MEDIA_TYPE
from gateway.http.publish.results import RECEIPT, RESULTS
from gateway.http.publish.streaming import RECEIPTS
from gateway.http.schemas import JsonValue, ProblemDocument, Receipt, Shape

MESSAGE_ID = "0192f3c1-7a10-7c2e-9b1d-3f2a5c6d7e8f"


class ItemResult(Shape):
    """The outcome of one message of a batch: the members of a receipt, or a problem."""

    index: int = Field(examples=[0])
    id: str | None = Field(default=None, description="the item's own id")
    status: int = Field(examples=[201])
    outcome: str = Field(examples=["accepted"])
    durability: str | None = Field(default=None, examples=["disk"])
    message_id: str | None = Field(default=None, examples=[MESSAGE_ID])
    address: str | None = Field(default=None, examples=["orders"])
    routed: bool | None = Field(default=None, examples=[True])
    duplicate: bool | str | None = Field(default=None, examples=[False])
    attempts: int | None = Field(default=None, examples=[1])
    confirmed_at: str | None = Field(default=None, examples=["2026-08-21T10:00:00.123Z"])
    warnings: list[str] | None = None
    replayed: bool | None = Field(
        default=None, description="the receipt of an earlier request with the same idempotency key"
    )
    problem: ProblemDocument | None = None


class Results(Shape):
    """One result per message, in the order of the batch."""

    accepted: int = Field(examples=[1])
    failed: int = Field(examples=[0])
    results: list[ItemResult] = Field(examples=[[example_of(ItemResult)]])


class Dropped(Shape):
    """A declared route has dropped a message that no queue takes."""

    outcome: str = Field(examples=["unroutable"])
    routed: bool = Field(examples=[False])


class OperationResult(Shape):
    """An answer that came later."""

    status: int = Field(examples=[201])
    content_type: str = Field(examples=[RECEIPT])
    body: JsonValue = Field(examples=[example_of(Receipt)])


class OperationView(Shape):
    """A request that continues after its answer. ``result`` is its final answer."""

    id: str = Field(examples=["Zm9vYmFyYmF6cXV4cXV1eA"])
    status: str = Field(examples=["running", "done"])
    created: str = Field(examples=["2026-08-21T10:00:00.123Z"])
    expires_in_ms: int | None = None
    result: OperationResult | None = None


MODELS = (
    *(Receipt, Results, Dropped, OperationView),
    *(NewMessage, NewFullMessage, MessageBatch, CloudEvent, CloudEventBatch),
)

SOME_EVENTS = {
    # Two in place of one: openapi-python-client leaves the form out, and without that asks of each
    # body whether it is an instance of list[CloudEvent], which Python refuses.
    "allOf": [
        reference(CloudEventBatch),
        {"type": "array", "items": reference(CloudEvent), "minItems": 1},
    ]
}
EVENT = {"specversion": "1.0", "id": "1", "source": "/shop", "type": "order.created"}
MESSAGE: dict[str, Any] = {
    "durable": True,
    "properties": {"attempt": {"$type": "ubyte", "value": 3}},
    "body": {"json": {"order": 17}},
}
PARTS = (
    "--frontier\r\nContent-Type: text/plain\r\nAmqp-Durable: ?1\r\n\r\nfirst\r\n"
    "--frontier\r\nContent-Type: image/png\r\n\r\nsecond\r\n--frontier--\r\n"
)

TEXT = """The `Content-Type` determines the form of the body:

| `Content-Type` | |
|---|---|
| `application/vnd.amqp-gateway.message+json` | one message as JSON; `view` (member, parameter) is \
`simple` or `full`, which has all sections and keeps every type |
| `application/cloudevents+json` | one CloudEvent, carried unchanged |
| any, with `ce-specversion` | a binary CloudEvent: `ce-x` becomes property `cloudEvents_x` |
| `application/vnd.amqp-gateway.batch+json` | `{"messages": [...], "atomic", "on_error"}` |
| `application/cloudevents-batch+json` | an array of CloudEvents |
| `multipart/mixed` | raw bodies, each with its own fields; `Content-ID` names a part |
| `application/vnd.amqp-gateway.messages+ndjson` | one message per line; receipts come in order \
during the request (207). `on_error=stop` stops at the first failure |
| anything else | the message body, unchanged; metadata in Structured Fields (RFC 9651) |

201 means that the broker has the message in every queue that it was routed to. Messages are durable
by default; `Amqp-Durability` (member `durability`) is `disk` if all of those queues keep the
message over a restart or a kill, `memory` if none does (and with `confirm=none`, which does not
wait for the disk), else `mixed`. The status of a batch is 201 if all messages were accepted, 207 if
some were, else that of their common problem. Messages without an id get a UUIDv7. Unknown fields
and members are errors.

* `Idempotency-Key`: a retry with the same key (by the same caller, to the same target, with the
  same message) gets the first receipt with `Idempotency-Replayed: true` and publishes no second
  message, also if the gateway was killed in between. In a batch every item has the key `key/id`
  (`key/index` without an id), so that a partly accepted batch can be repeated as a whole; an atomic
  batch has one key. The key of a refused message can be used again. A message that is not durable
  is sent again after a crash, with the same message id and `"duplicate": "possible"`.
* `Prefer: wait=n` waits n seconds for the outcome, then answers 504. `Prefer: respond-async`
  answers 202 and `Location` after `wait` seconds (0 by default). `Prefer: confirm=none` answers 202
  as soon as the message is handed to the broker.
* `Amqp-Ordering-Key` (member `ordering_key` of an item): messages with the same key are published
  in the order of their arrival, across requests of the same caller to the same target.
* `Content-Digest` with sha-256 or sha-512 is checked before anything is sent.

Each name is one percent-encoded path segment: the virtual host `/` is `%2F`."""

DIGEST = b64encode(sha256(b'{"order":17}').digest()).decode()
HEADERS = (
    ("Idempotency-Key", '"8e03978e-40d5-43e8-bc93-6894a57f9324"', "makes retries safe"),
    ("Prefer", "wait=10", "wait=n, respond-async, confirm=none"),
    ("Content-Digest", f"sha-256=:{DIGEST}:", 'RFC 9530; the example is of `{"order":17}`'),
    ("Amqp-Ordering-Key", '"customer-17"', "key of messages whose order is kept"),
)

QUEUE = [in_path("queue", "Queue, percent-encoded", "orders")]
EXCHANGE = [
    in_path("exchange", "Exchange, percent-encoded", "amq.topic"),
    in_query("routing_key", "Routing key, empty if left out", "orders.created"),
]
ADDRESS = [
    in_path(
        "address", "A queue, `/queues/NAME` or `/exchanges/NAME/KEY`, percent-encoded", "orders"
    )
]

ROUTE = [in_path("route", "Declared route; its parameters are query parameters", "prices")]


def publish(operation: str, summary: str, parameters: list[dict[str, Any]]) -> dict[str, Any]:
    message, line, parts = MESSAGE, '{"body":"%s"}\n', PARTS
    if not parameters:
        # Nothing else says where to.
        message = {"to": "orders", **MESSAGE}
        line = '{"to":"orders","body":"%s"}\n'
        parts = PARTS.replace("\r\n\r\n", '\r\nAmqp-To: "orders"\r\n\r\n')
    one = {"anyOf": [reference(NewMessage), reference(NewFullMessage)]}
    content: dict[str, Any] = {
        FORM: {
            "schema": one,
            "examples": {"simple": {"value": message}, "full": {"value": full_view(message)}},
        },
        **json_content(reference(MessageBatch), {"messages": [message, message]}, BATCH),
        **json_content(reference(CloudEvent), EVENT, cloudevents.ONE),
        **json_content(SOME_EVENTS, [EVENT], cloudevents.BATCH),
        **json_content({"type": "string"}, line % "first" + line % "second", LINES),
        f"{MULTIPART}; boundary=frontier": {"schema": BINARY, "example": parts},
        "application/octet-stream": {"schema": BINARY, "example": '{"order":17}'},
        # JSON too, which may be of any shape: its schema would be that of anything.
        "*/*": {"schema": BINARY},
    }
    fields = [in_header(*field) for field in (*FIELDS, *HEADERS)]
    return {
        "tags": ["messages"],
        "operationId": operation,
        "summary": summary,
        "description": TEXT,
        "parameters": [VHOST, *parameters, *fields],
        "requestBody": {
            "description": "One of these forms. Any other type, such as `application/json`, is "
            "the body of the message itself.",
            # A declared route says which types it takes; nothing at all has none.
            "required": parameters is ROUTE,
            "content": content,
        },
        "responses": responses() | (DROPPED if parameters is ROUTE else {}),
    }


def full_view(message: dict[str, Any]) -> dict[str, Any]:
    """The same message in the full view."""
    found = {
        "view": "full",
        "header": {"durable": message["durable"]},
        "application_properties": message["properties"],
        "body": message["body"],
    }
    return found | ({"properties": {"to": message["to"]}} if "to" in message else {})


DROPPED = {
    "200": {
        "description": "No queue takes the message; the route drops such messages",
        "content": model_content(Dropped, RECEIPT),
    }
}


def responses() -> dict[str, Any]:
    # Generators of clients take the first of several types for all of them.
    either = {"anyOf": [reference(Receipt), reference(Results)]}
    receipt = json_content(either, example_of(Receipt), RECEIPT)
    results = json_content(either, example_of(Results), RESULTS)
    said = {
        name: {"schema": {"type": "string"}}
        for name in ("Amqp-Message-Id", "Amqp-Outcome", "Amqp-Durability", "Idempotency-Replayed")
    }
    any_of_them = {"anyOf": [*either["anyOf"], reference(OperationView)]}
    later = json_content(any_of_them, example_of(OperationView), MEDIA_TYPE)
    sent = {media: {"schema": any_of_them} for media in (RECEIPT, RESULTS)}
    location = {"Location": {"schema": {"type": "string"}}}
    lines = {RECEIPTS: {"schema": {"type": "string"}}}
    return {
        "201": {
            "description": "The broker has the message, or all messages",
            "headers": said,
            "content": {**receipt, **results},
        },
        "202": {
            "description": "Sent and not confirmed (`confirm=none`), or in progress "
            "(`respond-async`)",
            "headers": location,
            "content": {**sent, **later},
        },
        "207": {
            "description": "The outcome of each message",
            "content": {**model_content(Results, RESULTS), **lines},
        },
        **row_responses(
            *(
                p.INVALID,
                p.INVALID_FIELD,
                p.BAD_KEY,
                p.KEY_NEEDED,
                p.BAD_DIGEST,
                p.UNAUTHORIZED,
                p.FORBIDDEN,
            ),
            *(p.NOT_FOUND, p.UNROUTABLE, p.KEY_BUSY, p.TOO_LARGE, p.UNSUPPORTED_MEDIA, p.REFUSED),
            *(p.SCHEMA, p.KEY_REUSED, p.FULL, p.QUOTA, p.INTERNAL, p.UNSUPPORTED, p.BACKPRESSURE),
            *(p.DRAINING, p.UNKNOWN, p.LOST),
        ),
    }


def operation(verb: str) -> dict[str, Any]:
    done = (
        {"200": {"description": "The state of the request", "content": json_content(
            reference(OperationView), media=MEDIA_TYPE)}}
        if verb == "get"
        else {"204": {"description": "Deleted; the request itself continues"}}
    )  # fmt: skip
    return {
        "tags": ["messages"],
        "operationId": "show_operation" if verb == "get" else "delete_operation",
        "summary": "Show the state of a `respond-async` request"
        if verb == "get"
        else "Delete a result",
        "description": "Visible to its caller only, for some minutes after completion.",
        "parameters": [VHOST, in_path("id", "From `Location`", "Zm9vYmFyYmF6cXV4cXV1eA")],
        "responses": {
            **done,
            **row_responses(p.UNAUTHORIZED, p.FORBIDDEN, p.BY_STATUS[404], p.INVALID),
        },
    }

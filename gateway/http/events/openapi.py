"""The OpenAPI description of the routes of streams."""

import json
from typing import Any

from pydantic import Field

from gateway.http import problems as p
from gateway.http.description import (
    LISTED,
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
from gateway.http.events.control_events import Subscription
from gateway.http.events.stream_request import StreamChange, StreamQuery
from gateway.http.message_models import EventMessage
from gateway.http.schemas import Shape

TEXT = """Server-sent events of up to 64 sources.

* `source=queue:NAME` **consumes the queue: messages that are read are removed from it.** All
  readers of the same queue see every event: the gateway is one consumer, and competes with other
  consumers of the queue. Without readers, messages stay in the queue.
  `GET .../queues/NAME/messages` shows messages without consuming them. A request that a browser
  makes for a link, a picture or a frame is refused with 403; `EventSource` and `fetch` are not.
* `source=exchange:NAME?binding=KEY` (percent-encoded) gets a copy of the messages that the exchange
  routes by that key, and leaves all queues alone. `&binding=KEY` after the source is equivalent.
  With `journal=durable` the journal of the source outlives the gateway.

Each event is one `data:` line of JSON (`EventMessage`). `body` is `{"json":..}`, `{"text":..}` or
`{"base64":..}`.
Its `id:` is a cursor: reconnect with it in `Last-Event-ID` (browsers do) or `last_event_id`. The
header `Amqp-Resume` has the result: `exact` (nothing lost, nothing twice), `gap` (some events are
gone; a `gateway.gap` event has their number, `lost` null if that is unknown), or `fresh`.
`gateway.cursor` moves the cursor past events that a filter has left out. An altered cursor is
answered with 400.

**Acceptance** (queues): a message is accepted with `ack=none` when it is written to a reader's
socket; with `ack=on-next` when `credit` more have been written, or when a reconnect brings a cursor
at or behind it; with `ack=explicit` by the `lock.token` in the event, at
`/v1/{vhost}/deliveries/{token}`, and then readers compete.

**Stream queues** of an upstream are read and not consumed: `from` names a place in the whole
stream, and the cursor is an offset, which every gateway before that upstream understands. There is
nothing to accept: `ack=on-next` is 400, `ack=explicit` 501.

**Slow readers** (`slow`): `pause` leaves messages in the queue (queues, default), `skip` drops the
oldest events and reports their number (exchanges, default), `latest` keeps the newest event per
routing key, `close` ends the stream. A reader that takes nothing for 30 s is disconnected.

**Filters** (`filter`, repeatable, all must match): `subject^=eur.` (begins with), `key=a.b`,
`property.kind=invoice`, `property.n!=3`, `property.kind` (exists). Fields: `subject`, `key`,
`exchange`, `id`, `correlation_id`, `type`, `app_id`, `content_type`, `to`, `reply_to`, `group`,
`priority`, `property.NAME`. Or `selector`, a JMS selector: `kind = 'invoice' AND n > 3`.
Names are application properties, JMS headers (`JMSPriority`) or fields (`amqp.subject`).

Control events: `gateway.open`, `gateway.gap`, `gateway.lag`, `gateway.reauth` (renew the credential
with `PATCH` of the stream), `gateway.sources` (sources were added or removed), `gateway.keepalive`,
`gateway.cursor`, `gateway.settled` and `gateway.lock-lost` (explicit), `gateway.drain`,
`gateway.warn`, `gateway.error` (with `errors=inband`, instead of another status than 200),
`gateway.close` (`reconnect` false: the stream has ended, and a reconnect gives 204). Comments
(`: hb`) keep the connection alive."""

EXAMPLE = {
    "id": "b1.Qk0",
    "data": '{"source":"queue:orders","content_type":"application/json",'
    '"routing_key":"orders","body":{"json":{"order":17}}}',
}
"""One event, parsed, of the schema ``description.EVENT``."""


SOURCE = (
    in_query(
        "source",
        "Source to read; repeatable, up to 64",
        ["queue:orders"],
        type="array",
        items={"type": "string"},
        maxItems=64,
    )
    | LISTED
    | {"required": True}
)
BINDING = in_query("binding", "Binding key of the exchange source before it", "prices.#")
PARAMETERS = [
    *in_queries(StreamQuery),
    in_header("Last-Event-ID", "b1.Qk0", "The last received cursor"),
]
QUEUE = in_path("queue", "Queue, percent-encoded", "orders")
EXCHANGE = in_path("exchange", "Exchange, percent-encoded", "amq.topic")
ROUTE = in_path("route", "Declared route; its parameters are further query parameters", "prices")
STREAM = in_path("stream", "Id of a stream, from `Amqp-Stream-Id`", "5f0c8d1e0b9a4c7d")
OPENS = (
    *(p.INVALID, p.INVALID_CURSOR, p.UNAUTHORIZED, p.FORBIDDEN, p.NOT_FOUND, p.LOCKED, p.QUOTA),
    *(p.INTERNAL, p.UNSUPPORTED, p.DRAINING),
)


class StreamSource(Shape):
    source: str = Field(examples=["queue:orders"])
    position: int = Field(examples=[17])
    behind: int = Field(examples=[0])
    slow: str = Field(examples=["pause"])


class StreamState(Shape):
    """One live stream."""

    stream: str = Field(examples=["5f0c8d1e0b9a4c7d"])
    user: str = Field(examples=["guest"])
    since: str = Field(examples=["2026-08-21T10:00:00.000Z"])
    expires_at: str | None = Field(examples=[None])
    resume: str = Field(examples=["fresh"])
    heartbeat: int = Field(examples=[15])
    format: str = Field(examples=["json"])
    event: str = Field(examples=["none"])
    ack: str = Field(examples=["none"])
    sources: list[StreamSource] = Field(examples=[[example_of(StreamSource)]])


class Subscriptions(Shape):
    subscriptions: list[Subscription] = Field(examples=[[example_of(Subscription)]])
    truncated: bool = Field(description="the list is incomplete", examples=[False])


MODELS = (StreamState, StreamSource, StreamChange, Subscription, Subscriptions, EventMessage)


def stream_operation(
    name: str, parameters: list[dict[str, Any]], asked: list[dict[str, Any]] | None = None
) -> dict[str, Any]:
    """``asked``: the members of the body of ``POST``."""
    made: dict[str, Any] = {
        "tags": ["events"],
        "operationId": name,
        "summary": "Live events of queues and exchanges, resumable",
        "description": TEXT,
        "parameters": [VHOST, *parameters],
        "responses": {
            "200": {
                "description": "The stream",
                "headers": {
                    "Amqp-Resume": {
                        "schema": {"type": "string", "enum": ["exact", "gap", "fresh"]}
                    },
                    "Amqp-Stream-Id": {"schema": {"type": "string"}},
                },
                "content": json_content({"type": "string"}, EXAMPLE, "text/event-stream"),
            },
            "204": {"description": "The stream has ended; do not reconnect"},
            **row_responses(
                *OPENS, *((p.TOO_LARGE, p.UNSUPPORTED_MEDIA, p.SCHEMA) if asked else ())
            ),
        },
    }
    if asked:
        made["summary"] += "; the parameters as JSON"
        members = {
            one["name"]: one["schema"] | {"description": one["description"]} for one in asked
        }
        needed = [one["name"] for one in asked if one.get("required")]
        made["requestBody"] = {
            "required": True,
            "content": json_content(
                {
                    "type": "object",
                    "properties": members,
                    "required": needed,
                    "additionalProperties": False,
                },
                {"source": ["queue:orders"]} if needed else {"from": "latest", "heartbeat": 30},
            ),
        }
    return made


def opening(name: str, *first: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """``GET`` and ``POST`` of one path. A source in the path is not a parameter of the query;
    acceptance has no meaning for an exchange."""
    places = [one["name"] for one in first if one["in"] == "path"]
    about = ("ack", "credit", "lease_ms") if "exchange" in places else ()
    every = [one for one in (*first, *PARAMETERS) if one["name"] not in about]
    query = [one for one in every if one["in"] == "query"]
    beside = [one for one in every if one["in"] != "query"]
    return {
        "get": stream_operation(name, every),
        "post": stream_operation(f"{name}_by_post", beside, query),
    }


def operation(
    name: str, summary: str, responses: dict[str, Any], *rows: p.Row, **more: Any
) -> dict[str, Any]:
    return {
        "tags": ["events"],
        "operationId": name,
        "summary": summary,
        "parameters": [VHOST, STREAM],
        "responses": {**row_responses(p.UNAUTHORIZED, p.FORBIDDEN, *rows), **responses},
        **more,
    }


def state() -> dict[str, Any]:
    return {"200": {"description": "The stream", "content": model_content(StreamState)}}


def changing() -> dict[str, Any]:
    return operation(
        "renew_stream",
        "Renew the credential of a stream, and change its sources",
        state(),
        *(p.BY_STATUS[404], p.INVALID, p.INVALID_CURSOR, p.TOO_LARGE, p.UNSUPPORTED_MEDIA),
        *(p.SCHEMA, p.NOT_FOUND, p.QUOTA, p.LOCKED, p.INTERNAL),
        description="The credential must have the same subject, and permit all sources of the "
        "changed stream. Without a body the sources stay as they are. The stream announces the "
        "change (`gateway.sources`) with a cursor for the new sources; a later reconnect has to "
        "name those sources itself.",
        requestBody={
            "required": False,
            "content": json_content(reference(StreamChange), {"remove": ["queue:invoices"]}),
        },
    )


def streams() -> dict[str, dict[str, Any]]:
    gone = p.BY_STATUS[404]
    return {
        "get": operation("show_stream", "Show the state of a live stream", state(), gone),
        "patch": changing(),
        "delete": operation(
            "close_stream", "End a live stream", {"204": {"description": "Done"}}, gone
        ),
    }


def subscriptions() -> dict[str, dict[str, Any]]:
    found = model_content(Subscriptions)
    change = {"change": "joined", "subscription": example_of(Subscription)}
    found |= json_content({}, {"data": json.dumps(change)}, "text/event-stream")
    answers = {"200": {"description": "Listeners over HTTP and AMQP", "content": found}}
    summary = "List listeners and their sources"
    return {
        "get": operation("list_subscriptions", summary, answers, p.NOT_FOUND, parameters=[VHOST])
    }

"""Schemas and working examples of the bodies of RabbitMQ's paths, for the description."""

from typing import Any

from pydantic import Field

from gateway.broker.exchange_types import EXCHANGE_TYPES
from gateway.broker.limits import LONGEST_TIMER
from gateway.broker.names import MOST_OCTETS
from gateway.broker.policies import APPLY_TO, NUMBERS
from gateway.http.admin.rabbit_messages import TEXTS
from gateway.http.schemas import JsonObject, JsonValue, Shape


class RabbitError(Shape):
    """An error as RabbitMQ's management has it."""

    error: str = Field(examples=["Object Not Found"])
    reason: JsonValue = Field(description="text, or a list", examples=["Not Found"])


class RabbitRouted(Shape):
    """The outcome of a publish."""

    routed: bool


class RabbitMessage(Shape):
    """A message as RabbitMQ shows it."""

    payload_bytes: int
    redelivered: bool
    exchange: str
    routing_key: str
    message_count: int = Field(description="messages that are left in the queue")
    properties: JsonObject | list[JsonValue] = Field(description="an empty list if there are none")
    payload: str
    payload_encoding: str = Field(description="string or base64", examples=["string"])


EXAMPLES: dict[str, Any] = {
    "rabbit_put_vhost": {},
    "rabbit_put_user": {"password": "correct horse", "tags": "monitoring"},
    "rabbit_put_policy": {"pattern": "^orders", "definition": {"max-length": 1000}},
    "rabbit_put_operator_policy": {"pattern": "", "definition": {"max-length": 1000000}},
    "rabbit_put_permission": {"configure": ".*", "write": ".*", "read": ".*"},
    "rabbit_put_topic_permission": {"exchange": "amq.topic", "write": "^a", "read": ".*"},
    "rabbit_bind": {"routing_key": "a.#"},
    "rabbit_bind_exchange": {"routing_key": "a.#"},
    "rabbit_put_exchange": {"type": "topic", "durable": True},
    "rabbit_put_queue": {"durable": True},
}
TEXT: dict[str, Any] = {"type": "string"}
SHORT = {"type": "string", "maxLength": 63}
FLAG = {"type": "boolean"}
NATURAL = {"type": "integer", "minimum": 0}
BOUNDS = {
    "message-ttl": NATURAL | {"maximum": LONGEST_TIMER},
    "expires": {"type": "integer", "minimum": 1, "maximum": LONGEST_TIMER},
}
TABLE = {"$ref": "#/components/schemas/ArgumentMap"}


def body_of(required: tuple[str, ...] = (), **members: Any) -> dict[str, Any]:
    return {"type": "object", "required": list(required), "properties": members}


def policy_body(*keys: str) -> dict[str, Any]:
    name = {"type": "string", "maxLength": MOST_OCTETS}
    settings = {key: BOUNDS.get(key, NATURAL) if key in NUMBERS else name for key in keys}
    definition = {
        "type": "object",
        "minProperties": 1,
        "properties": settings,
        "additionalProperties": False,
    }
    return body_of(
        ("pattern", "definition"),
        pattern=TEXT | {"format": "regex"},
        definition=definition,
        priority={"type": "integer"},
        **{"apply-to": {"enum": [*APPLY_TO]}},
    )


SCHEMAS: dict[str, Any] = {
    "rabbit_put_user": body_of(("password", "tags"), password=TEXT | {"pattern": "^[ -~]{1,99}$"},
                               tags=TEXT),
    "rabbit_put_permission": body_of(
        ("configure", "write", "read"),
        **{name: TEXT | {"format": "regex"} for name in ("configure", "write", "read")},
    ),
    "rabbit_put_topic_permission": body_of(
        ("exchange", "write", "read"),
        exchange=TEXT | {"maxLength": MOST_OCTETS},
        **{name: TEXT | {"format": "regex"} for name in ("write", "read")},
    ),
    "rabbit_put_policy": policy_body(
        *NUMBERS, "dead-letter-exchange", "dead-letter-routing-key", "alternate-exchange"
    ),
    "rabbit_put_operator_policy": policy_body(*NUMBERS),
    "rabbit_bind": body_of(routing_key=SHORT, arguments=TABLE),
    "rabbit_bind_exchange": body_of(routing_key=SHORT, arguments=TABLE),
    "rabbit_put_exchange": body_of(
        type={"enum": [*EXCHANGE_TYPES]},
        durable=FLAG, auto_delete=FLAG, internal=FLAG, arguments=TABLE,
    ),
    "rabbit_put_queue": body_of(durable=FLAG, auto_delete=FLAG, arguments=TABLE),
}  # fmt: skip
PUBLISH_BODY = body_of(
    ("properties", "routing_key", "payload", "payload_encoding"),
    properties={
        "type": "object",
        "properties": {
            "headers": {
                "type": "object",
                "additionalProperties": {"type": ["string", "boolean"]},
            },
            "delivery_mode": {"type": "integer"},
            "priority": {"type": "integer", "minimum": 0, "maximum": 255},
            "timestamp": {"type": "integer", "minimum": 0, "maximum": 2**53 - 1},
            "expiration": TEXT | {"pattern": "^[0-9]{1,9}$"},
            "user_id": {"const": "guest"},
        }
        | {name: SHORT for name in TEXTS},
    },
    routing_key=SHORT,
    payload=TEXT,
    payload_encoding={"enum": ["string"]},
)
GET_BODY = body_of(
    ("count", "ackmode", "encoding"),
    count={"type": "integer"},
    ackmode={
        "enum": [
            "ack_requeue_true", "ack_requeue_false", "reject_requeue_true", "reject_requeue_false",
        ]
    },
    encoding={"enum": ["auto", "base64"]},
    truncate={"type": "integer"},
)  # fmt: skip
PUBLISH = {
    "properties": {}, "routing_key": "orders", "payload": "hello", "payload_encoding": "string",
}  # fmt: skip
GET = {"count": 1, "ackmode": "ack_requeue_true", "encoding": "auto"}

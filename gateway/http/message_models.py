"""Messages in JSON as pydantic models: to publish, as they are received, and in event streams.

They are for the description, and so for generated clients. Requests and answers do not pass through
them: bodies may be large, and are spliced in as they came. ``tests/http/test_message_models.py``
holds them against the code that reads and writes messages (``publish/form_reader.py``,
``publish/form_writer.py``, ``receive/views.py``, ``events/rendering.py``).
"""

from typing import Annotated, Any, Literal, Self

from pydantic import ConfigDict, Field, RootModel, WithJsonSchema, model_validator
from typing_extensions import TypeAliasType

from gateway.http.schemas import JsonValue, Shape

STRICT = ConfigDict(frozen=True, defer_build=True, extra="forbid", strict=True)
ID = "0192f3c1-7a10-7c2e-9b1d-3f2a5c6d7e8f"
UINT = 2**32 - 1
WAYS = {"json_", "text", "base64"}

TypeName = Literal[
    "null", "boolean", "byte", "ubyte", "short", "ushort", "int", "uint", "long", "ulong",
    "float", "double", "decimal", "decimal32", "decimal64", "decimal128", "char", "timestamp",
    "uuid", "binary", "string", "symbol", "short-string", "described", "map", "array",
]  # fmt: skip


class TypedValue(Shape):
    """An AMQP value of a type that JSON lacks."""

    model_config = STRICT

    type: TypeName = Field(alias="$type", examples=["ulong"])
    value: JsonValue = Field(
        default=None,
        description="binary in base64, times as in RFC 3339, maps as pairs",
        examples=[17],
    )
    base64: str | None = Field(default=None, description="octets of text that is not UTF-8")
    bits: str | None = Field(
        default=None, description="octets of a floating-point or decimal number, in hexadecimal"
    )
    unit: Literal["s", "ms"] | None = Field(default=None, description="of a timestamp")
    descriptor: JsonValue = Field(default=None, description="of a described value")
    of: str | None = Field(default=None, description="type of the elements of an array")
    constructor: str | None = Field(
        default=None, description="octet before the elements of an array, in hexadecimal"
    )
    descriptors: list[JsonValue] | None = Field(default=None, description="of an array")


AmqpValue = TypeAliasType(
    "AmqpValue",
    Annotated[
        Any,
        WithJsonSchema(
            {
                "title": "AmqpValue",
                "description": "An AMQP value. Types that JSON lacks are objects with `$type` "
                "(`TypedValue`); other objects are maps.",
                "anyOf": [
                    {"type": ["null", "boolean", "number", "string"]},
                    {"type": "array", "items": {"$ref": "#/components/schemas/JsonValue"}},
                    {"$ref": "#/components/schemas/JsonObject"},
                ],
            }
        ),
    ],
)
Text = str | TypedValue
"""Text; typed if it is not UTF-8, which only old clients send."""
Table = dict[str, AmqpValue]
Moment = Annotated[int | str, Field(description="RFC 3339, or milliseconds since 1970")]
ShortText = Annotated[str, Field(max_length=255)] | TypedValue
OrderingKey = Annotated[
    str,
    Field(
        min_length=1,
        max_length=255,
        description="messages with the same key are published in their order",
    ),
]


class MessageBody(Shape):
    """One of `json`, `text` and `base64`; with the kind `none`, none of them."""

    model_config = STRICT | {"json_schema_extra": {"minProperties": 1, "maxProperties": 2}}

    kind: Literal["data", "value", "sequence", "none"] | None = Field(
        default=None,
        description="body sections of AMQP 1.0; `value` and `sequence` are their encoded octets",
    )
    json_: JsonValue = Field(default=None, alias="json", examples=[{"order": 17}])
    text: str = Field(default="", description="UTF-8")
    base64: str = Field(default="", description="any octets")

    @model_validator(mode="after")
    def have_one(self) -> Self:
        ways = len(self.model_fields_set & WAYS)
        if ways != 1 and (ways or self.kind != "none"):
            raise ValueError("must have one of json, text and base64")
        return self


class ShownBody(Shape):
    """`json` if the content type says JSON and the octets are JSON, `text` if it says text and they
    are UTF-8, else `base64`."""

    kind: Literal["data", "value", "sequence", "none"] | None = Field(
        default=None, description="body sections of AMQP 1.0, unless they are plain data"
    )
    json_: JsonValue = Field(default=None, alias="json", examples=[{"order": 17}])
    text: str | None = None
    base64: str | None = None
    omitted: Literal["too-large"] | None = Field(
        default=None, description="the body is too large for JSON; `view=raw` has it"
    )
    octets: int | None = Field(default=None, description="length of an omitted body")


class MessageGroup(Shape):
    """Group of messages."""

    model_config = STRICT

    id: Text | None = Field(default=None, examples=["g-17"])
    sequence: Annotated[int, Field(ge=0, le=UINT)] | None = None
    reply_to: Text | None = Field(default=None, description="group of the replies")


class MessageHeader(Shape):
    """Header section of AMQP 1.0 (3.2.1)."""

    model_config = STRICT

    durable: bool | None = None
    priority: Annotated[int, Field(ge=0, le=255)] | None = None
    ttl: Annotated[int, Field(ge=0, le=UINT)] | None = Field(
        default=None, description="milliseconds"
    )
    first_acquirer: bool | None = None
    delivery_count: Annotated[int, Field(ge=0, le=UINT)] | None = None


class MessageProperties(Shape):
    """Properties section of AMQP 1.0 (3.2.4)."""

    model_config = STRICT

    message_id: Text | None = None
    user_id: Text | None = None
    to: Text | None = None
    subject: Text | None = None
    reply_to: Text | None = None
    correlation_id: Text | None = None
    content_type: Text | None = None
    content_encoding: Text | None = None
    absolute_expiry_time: Moment | None = None
    creation_time: Moment | None = None
    group_id: Text | None = None
    group_sequence: Annotated[int, Field(ge=0, le=UINT)] | None = None
    reply_to_group_id: Text | None = None


class LegacyProperties(Shape):
    """What AMQP 0-x has and 1.0 lacks."""

    model_config = STRICT

    type: Text | None = None
    app_id: Text | None = None
    cluster_id: Text | None = None
    exchange: Text | None = None
    routing_key: Text | None = None


class NewMessage(Shape):
    """A message to publish, in the simple view. Members that are null are absent."""

    model_config = STRICT

    view: Literal["simple"] = "simple"
    body: MessageBody | str | None = Field(
        default=None,
        description='plain text is short for `{"text": ...}`',
        examples=[{"json": {"order": 17}}],
    )
    id: Text | None = Field(default=None, description="a UUIDv7 if absent")
    correlation_id: Text | None = None
    durable: bool | None = Field(default=None, description="default: true", examples=[True])
    priority: Annotated[int, Field(ge=0, le=255)] | None = None
    ttl_ms: Annotated[int, Field(ge=0, le=UINT)] | None = None
    user_id: Text | None = None
    to: Text | None = Field(
        default=None, description="address, where the path of the request has none"
    )
    subject: Text | None = None
    reply_to: Text | None = None
    content_type: ShortText | None = None
    content_encoding: ShortText | None = None
    expires_at: Moment | None = None
    time: Moment | None = None
    properties: Table | None = Field(
        default=None,
        description="application properties",
        examples=[{"attempt": {"$type": "ubyte", "value": 3}}],
    )
    annotations: Table | None = None
    type: ShortText | None = None
    app_id: ShortText | None = None
    cluster_id: ShortText | None = None
    group: MessageGroup | None = None
    exchange: ShortText | None = None
    routing_key: ShortText | None = None
    ordering_key: OrderingKey = ""
    redelivered: JsonValue = Field(
        default=None, description="ignored: a received message can be published as it is"
    )
    delivery_count: JsonValue = Field(default=None, description="ignored")


class NewFullMessage(Shape):
    """A message to publish with all sections, in the full view, which keeps every type."""

    model_config = STRICT

    view: Literal["full"]
    header: MessageHeader | None = None
    properties: MessageProperties | None = None
    legacy: LegacyProperties | None = None
    application_properties: Table | None = None
    delivery_annotations: Table | None = None
    message_annotations: Table | None = None
    footer: Table | None = None
    body: MessageBody | str | None = None
    ordering_key: OrderingKey = ""


class MessageBatch(Shape):
    """Several messages in one request."""

    model_config = STRICT

    messages: list[NewMessage | NewFullMessage] = Field(min_length=1)
    atomic: bool = Field(default=False, description="all of them or none")
    on_error: Literal["continue", "stop"] = Field(
        default="continue", description="stop: nothing is sent after the first failure"
    )


class CloudEvent(Shape):
    """An event of CloudEvents 1.0. Further members are its extensions."""

    model_config = ConfigDict(frozen=True, defer_build=True, extra="allow")

    specversion: Literal["1.0"]
    id: Annotated[str, Field(min_length=1)]
    source: Annotated[str, Field(min_length=1)]
    type: Annotated[str, Field(min_length=1)]


class CloudEventBatch(RootModel[list[CloudEvent]]):
    """Several events in one request."""


class DeadLetter(Shape):
    """One death of a message: the queue it left and why."""

    queue: str
    reason: str = Field(examples=["rejected"])
    count: int = Field(description="deaths in this queue for this reason", examples=[1])
    exchange: str
    routing_keys: list[str]
    first: str | None = Field(default=None, description="time of the first one")
    original_expiration: str | None = None


class ReceivedMessage(Shape):
    """A message in the simple view. Members that it lacks are absent."""

    id: Text | None = Field(default=None, examples=[ID])
    correlation_id: Text | None = None
    durable: bool | None = None
    priority: int | None = None
    ttl_ms: int | None = None
    user_id: Text | None = None
    to: Text | None = None
    subject: Text | None = None
    reply_to: Text | None = None
    content_type: Text | None = Field(default=None, examples=["application/json"])
    content_encoding: Text | None = None
    expires_at: str | None = None
    time: str | None = None
    properties: Table | None = None
    annotations: Table | None = None
    type: Text | None = None
    app_id: Text | None = None
    cluster_id: Text | None = None
    group: MessageGroup | None = None
    exchange: Text = Field(examples=[""])
    routing_key: Text = Field(examples=["orders"])
    redelivered: bool | None = Field(default=None, examples=[False])
    dead_letter: list[DeadLetter] | None = Field(
        default=None, description="deaths of the message, the latest first"
    )
    properties_unreadable: bool | None = Field(
        default=None, description="true: the publisher's properties cannot be decoded"
    )
    body: ShownBody = Field(examples=[{"json": {"order": 17}}])


class ReceivedFullMessage(Shape):
    """A message with all sections, in the full view."""

    view: Literal["full"]
    header: MessageHeader | None = None
    properties: MessageProperties | None = None
    legacy: LegacyProperties | None = None
    application_properties: Table | None = None
    delivery_annotations: Table | None = None
    message_annotations: Table | None = None
    footer: Table | None = None
    body: ShownBody


class EventLock(Shape):
    """Lease of a message that an event brings."""

    token: str = Field(description="settles it, at `/v1/{vhost}/deliveries/{token}`")
    until: str
    delivery_count: int = 1


class EventMessage(Shape):
    """The data of an event, in the format `json`."""

    source: str = Field(examples=["queue:orders"])
    id: str | int | TypedValue | None = None
    correlation_id: str | int | TypedValue | None = None
    subject: str | None = None
    to: str | None = None
    reply_to: str | None = None
    content_type: str | None = Field(default=None, examples=["application/json"])
    content_encoding: str | None = None
    type: str | None = None
    app_id: str | None = None
    durable: bool | None = None
    priority: int | None = None
    ttl_ms: int | None = None
    time: str | None = None
    expires_at: str | None = None
    user_id: str | None = None
    group: dict[str, str | int] | None = None
    traceparent: str | None = None
    tracestate: str | None = None
    properties: Table | None = None
    exchange: str | None = Field(default=None, description="absent in a declared route")
    routing_key: str | None = Field(default=None, examples=["orders"])
    redelivered: bool | None = None
    properties_unreadable: bool | None = None
    lock: EventLock | None = Field(default=None, description="with `ack=explicit`")
    body: ShownBody = Field(examples=[{"json": {"order": 17}}])

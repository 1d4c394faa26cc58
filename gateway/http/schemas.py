"""Shapes of answers, for the description and for the routes that build them; not the domain."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema
from typing_extensions import TypeAliasType

ANY_JSON = {
    "title": "JsonValue",
    "description": "Any JSON value: an object, an array, text, a number, true, false or null.",
}
"""The only schema without a type. It could name all of them, but generators of clients make a class
of that, which then has to be made for each value."""
JsonValue = TypeAliasType("JsonValue", Annotated[Any, WithJsonSchema(ANY_JSON)])


class Shape(BaseModel):
    model_config = ConfigDict(frozen=True, defer_build=True)


class JsonObject(Shape):
    """Any JSON object."""

    model_config = ConfigDict(frozen=True, defer_build=True, extra="allow")


class Receipt(Shape):
    """The broker has the message."""

    outcome: str = Field(examples=["accepted"])
    durability: str = Field(
        description="`disk`: every queue with the message keeps it over a restart or a kill; "
        "`memory`: none does; `mixed`: some do",
        examples=["disk"],
    )
    message_id: str = Field(examples=["0192f3c1-7a10-7c2e-9b1d-3f2a5c6d7e8f"])
    address: str = Field(description="the queue or exchange", examples=["orders"])
    routed: bool = Field(examples=[True])
    duplicate: bool | str = Field(
        description="`possible`: sent again after the gateway's process was killed during the "
        "first attempt",
        examples=[False],
    )
    attempts: int = Field(examples=[1])
    confirmed_at: str | None = Field(
        default=None,
        description="absent if the confirm was not waited for",
        examples=["2026-08-21T10:00:00.123Z"],
    )
    warnings: list[str] | None = Field(
        default=None, description="what is probably not meant, such as the content type of curl -d"
    )


class AmqpError(Shape):
    """An error as AMQP has it."""

    condition: str = Field(examples=["not-found"])
    description: str


class FieldError(Shape):
    """One mistake in a request: `pointer` (RFC 6901) names the member."""

    pointer: str = Field(examples=["/lease_ms"])
    detail: str


class ProblemDocument(Shape):
    """Every error of every route (RFC 9457). Some have further members."""

    model_config = ConfigDict(frozen=True, defer_build=True, extra="allow")

    type: str = Field(examples=["/problems/unroutable"])
    title: str
    status: int
    detail: str
    instance: str | None = None
    outcome: str = Field(
        description="outcome of the caller's message: accepted, unroutable, released, rejected, "
        "refused, not-sent or unknown"
    )
    safe_to_retry: bool | str = Field(
        description="a retry cannot store the message twice; `with-idempotency-key`: only if both "
        "requests have the same key"
    )
    retry_after_ms: int | None = None
    amqp: AmqpError | None = Field(
        default=None, description="condition and description that an AMQP peer would receive"
    )
    errors: list[FieldError] | None = None


class QueueView(Shape):
    """One queue, now. The rates are per second over the last few seconds."""

    name: str
    messages: int = Field(description="ready and unacknowledged")
    ready: int
    unacknowledged: int
    consumers: int
    durable: bool
    exclusive: bool
    auto_delete: bool
    publish_rate: float = 0.0
    deliver_rate: float = 0.0


class QueueList(Shape):
    """All queues of a virtual host by name."""

    queues: list[QueueView]


class ConnectionView(Shape):
    """One AMQP connection."""

    id: int
    address: str
    version: str = Field(description="version of AMQP", examples=["0-9-1"])
    product: str
    product_version: str
    platform: str
    user: str
    vhost: str
    channels: int
    state: str
    since: int = Field(description="ms since 1970")
    octets_in: int
    octets_out: int


class ConnectionList(Shape):
    """All AMQP connections of the gateway."""

    connections: list[ConnectionView]


class Health(Shape):
    """Whether the gateway can serve traffic, and the failed checks if not."""

    status: str = Field(examples=["ready"])
    checks: dict[str, bool] = {}
    publish_ms: float | None = Field(
        default=None, description="duration of the last canary publish"
    )

"""The control events of a stream: a model for each kind, whose name begins with ``gateway.``.

The models make the events and describe them in ``/asyncapi.json``. Members that were not given are
absent from the event.
"""

from typing import ClassVar, Literal

from pydantic import ConfigDict, Field

from gateway.http.schemas import ProblemDocument, Shape

CURSOR = "b1.Qk0"
STREAM = "5f0c8d1e0b9a4c7d"
SOURCE = "queue:orders"
TIME = "2026-08-21T10:00:00.000Z"
Resumed = Literal["exact", "fresh", "gap"]


class ControlEvent(Shape):
    """``kind``: the name in the ``event:`` line."""

    model_config = ConfigDict(frozen=True, defer_build=True, populate_by_name=True)
    kind: ClassVar[str]


class Subscription(Shape):
    """One listener. ``protocol`` is ``http`` for streams, ``amqp`` for consumers; ``kind`` is
    ``queue``, ``exchange`` or ``route``."""

    kind: str = Field(examples=["exchange"])
    name: str = Field(examples=["amq.topic"])
    binding: str | None = Field(examples=["#"])
    protocol: str = Field(examples=["http"])
    user: str = Field(examples=["guest"])
    stream: str | None = Field(default=None, examples=["5f0c8d1e0b9a4c7d"])
    since: str | None = Field(default=None, examples=["2026-08-21T10:00:00.000Z"])
    consumer: str | None = None


class SourceOpening(Shape):
    """How a source begins."""

    source: str = Field(examples=[SOURCE])
    resume: Resumed = Field(examples=["fresh"])
    offset: int | None = Field(default=None, description="of the next event", examples=[17])
    journal: Literal["memory", "durable"] | None = Field(
        default=None, description="of an exchange source"
    )


class OpenEvent(ControlEvent):
    """The first event of a stream. A `retry:` line beside it has the reconnect time."""

    kind = "gateway.open"
    stream: str = Field(description="id of the stream", examples=[STREAM])
    resume: Resumed = Field(
        description="exact: nothing lost, nothing twice; gap: some events are gone; fresh: a first "
        "connection; the worst of all sources",
        examples=["fresh"],
    )
    heartbeat: int = Field(description="seconds between signs of life", examples=[15])
    ack: Literal["none", "on-next", "explicit"] | None = Field(default=None, examples=["none"])
    credit: int | None = Field(default=None, description="with `ack=explicit`")
    sources: list[SourceOpening] | None = Field(
        default=None, examples=[[{"source": SOURCE, "resume": "fresh", "offset": 17}]]
    )
    subscriptions: list[Subscription] | None = Field(
        default=None, description="of a stream of subscriptions: the listeners that there are"
    )
    truncated: bool | None = Field(default=None, description="the list of listeners is incomplete")
    expires_at: str | None = Field(default=None, description="when the credential expires")


class GapEvent(ControlEvent):
    """Events of a source that the reader has missed and does not get any more."""

    kind = "gateway.gap"
    source: str = Field(examples=["exchange:prices?binding=#"])
    first: int | None = Field(
        alias="from", description="the first lost event; null: unknown", examples=[12]
    )
    to: int | None = Field(description="the last lost event; null: unknown", examples=[16])
    lost: int | None = Field(description="number of lost events; null: unknown", examples=[5])


class LagEvent(ControlEvent):
    """With `slow=latest`: events that were left out since newer ones had the same routing key."""

    kind = "gateway.lag"
    source: str = Field(examples=["exchange:prices?binding=#"])
    behind: int = Field(description="events that wait", examples=[0])
    dropped: int = Field(description="events left out since the last such event", examples=[3])


class ReauthEvent(ControlEvent):
    """The credential expires soon: PATCH the stream with a new one of the same subject."""

    kind = "gateway.reauth"
    expires_at: str = Field(examples=[TIME])
    refresh: str = Field(description="path of the stream", examples=[f"/v1/%2F/streams/{STREAM}"])


class SourcesEvent(ControlEvent):
    """Sources were added to the stream or removed from it."""

    kind = "gateway.sources"
    added: list[SourceOpening] = Field(
        examples=[[{"source": SOURCE, "resume": "fresh", "offset": 17}]]
    )
    removed: list[str] = Field(examples=[["exchange:prices?binding=#"]])


class KeepaliveEvent(ControlEvent):
    """With `keepalive=event`: a sign of life, otherwise the comment `: hb`."""

    kind = "gateway.keepalive"
    time: str = Field(examples=[TIME])
    cursor: str = Field(examples=[CURSOR])


class CursorEvent(ControlEvent):
    """The cursor behind events that a filter has left out; it is the `id:` of the event too."""

    kind = "gateway.cursor"
    cursor: str = Field(examples=[CURSOR])


class SettledEvent(ControlEvent):
    """With `ack=explicit`: a message of this stream was settled."""

    kind = "gateway.settled"
    token: str = Field(examples=["AgAAAKl2dG9rZW4"])
    outcome: str = Field(examples=["accepted"])


class LockLostEvent(ControlEvent):
    """With `ack=explicit`: a lease has ended before its message was settled."""

    kind = "gateway.lock-lost"
    token: str = Field(examples=["AgAAAKl2dG9rZW4"])


class DrainEvent(ControlEvent):
    """The stream ends soon: the gateway shuts down, or the stream has lived long enough."""

    kind = "gateway.drain"
    retry: int = Field(description="milliseconds to wait before the reconnect", examples=[2500])


class WarnEvent(ControlEvent):
    """A message that is not shown, a source that is gone, too many streams of one browser."""

    kind = "gateway.warn"
    type: Literal["not-text", "too-large", "source-lost", "browser-connections"] = Field(
        examples=["not-text"]
    )
    source: str | None = Field(default=None, examples=[SOURCE])
    position: int | None = Field(
        default=None, description="of the message that is not shown", examples=[17]
    )
    reason: str | None = Field(default=None, examples=["the body is not UTF-8"])
    octets: int | None = Field(default=None, description="of a body that is too large")
    streams: int | None = Field(default=None, description="that the browser has open")
    most: int | None = Field(default=None, description="that the browser may have open")


class ErrorEvent(ControlEvent):
    """With `errors=inband`: the request was refused. `gateway.close` follows."""

    kind = "gateway.error"
    problem: ProblemDocument = Field(
        examples=[
            {
                "type": "/problems/address-not-found",
                "title": "No such address",
                "status": 404,
                "detail": "no exchange 'prices' in virtual host '/'",
                "outcome": "refused",
                "safe_to_retry": False,
            }
        ]
    )


class CloseEvent(ControlEvent):
    """The last event of a stream. Unless `reconnect`, a request with its cursor gets 204."""

    kind = "gateway.close"
    reason: str = Field(examples=["the gateway is shutting down"])
    reconnect: bool = Field(examples=[True])
    source: str | None = Field(default=None, description="that the reason is about")
    retry: int | None = Field(default=None, description="milliseconds", examples=[2500])


CONTROL_EVENTS: tuple[type[ControlEvent], ...] = (
    OpenEvent,
    GapEvent,
    LagEvent,
    ReauthEvent,
    SourcesEvent,
    KeepaliveEvent,
    CursorEvent,
    SettledEvent,
    LockLostEvent,
    DrainEvent,
    WarnEvent,
    ErrorEvent,
    CloseEvent,
)

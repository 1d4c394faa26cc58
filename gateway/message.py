"""The message: its original bytes, and the properties that the broker needs.

A ``Message`` keeps body and property bytes in the dialect of its sender. ``Properties`` is the
canonical, 1.0-like view; it is decoded on first use (by a reader of another version, HTTP or a
headers exchange). ``Essentials`` are the few properties that the broker needs of every message;
messages with equal encoded properties share them.
"""

import struct
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from gateway.bodies import Body

Table = dict[str, Any]


class Essentials(NamedTuple):
    """The properties that the broker reads of every message. Times are milliseconds."""

    durable: bool = False
    priority: int | None = None
    ttl: int | None = None
    user_id: str | None = None
    has_headers: bool = False
    expiry: int | None = None
    """Absolute expiry time since 1970, regardless of the ttl. Only 1.0 has it."""


class Properties:
    """Canonical view of everything but the body, typed as in AMQP 1.0 §3.2. Absent is ``None``.

    ``application`` holds application properties (legacy headers); ``annotations`` message
    annotations; ``body_kind`` is "data", "value" or "sequence". ``type``, ``app_id`` and
    ``cluster_id`` exist only in the legacy versions. ``ttl`` and the times are milliseconds.
    """

    __slots__ = (
        "durable", "priority", "ttl", "first_acquirer", "delivery_count",
        "message_id", "user_id", "to", "subject", "reply_to", "correlation_id",
        "content_type", "content_encoding", "absolute_expiry_time", "creation_time",
        "group_id", "group_sequence", "reply_to_group_id",
        "type", "app_id", "cluster_id",
        "application", "annotations", "delivery_annotations", "footer", "body_kind",
    )  # fmt: skip

    durable: bool | None
    priority: int | None
    ttl: int | None
    first_acquirer: bool | None
    delivery_count: int | None
    message_id: Any
    user_id: bytes | None
    to: str | None
    subject: str | None
    reply_to: str | None
    correlation_id: Any
    content_type: str | None
    content_encoding: str | None
    absolute_expiry_time: int | None
    creation_time: int | None
    group_id: str | None
    group_sequence: int | None
    reply_to_group_id: str | None
    type: str | None
    app_id: str | None
    cluster_id: str | None
    application: Table | None
    annotations: Table | None
    delivery_annotations: Table | None
    footer: Table | None
    body_kind: str | None

    def __init__(self, **given: Any) -> None:
        # Unrolled: a loop over the names would cost more than reading the message.
        self.durable = self.priority = self.ttl = self.first_acquirer = None
        self.delivery_count = self.message_id = self.user_id = self.to = self.subject = None
        self.reply_to = self.correlation_id = self.content_type = self.content_encoding = None
        self.absolute_expiry_time = self.creation_time = self.group_id = None
        self.group_sequence = self.reply_to_group_id = self.type = self.app_id = None
        self.cluster_id = self.application = self.annotations = None
        self.delivery_annotations = self.footer = self.body_kind = None
        for name, value in given.items():
            if name not in Properties.__slots__:
                raise TypeError(f"no such property: {name}")
            setattr(self, name, value)

    def given(self) -> dict[str, Any]:
        """The properties that are present, by name."""
        pairs = ((name, getattr(self, name)) for name in Properties.__slots__)
        return {name: value for name, value in pairs if value is not None}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Properties) and self.given() == other.given()

    def __repr__(self) -> str:
        return f"Properties({', '.join(f'{k}={v!r}' for k, v in self.given().items())})"


class Dialect(Protocol):
    """The encoding of message properties in one version (and vendor). Registered in ``DIALECTS``.

    ``header`` is the encoded form without anything that depends on the body: for 0-8 to 0-9-1 the
    property flags and list; for 1.0 the bare sections before the body.
    """

    name: str

    def essentials(self, header: bytes) -> Essentials:
        """The properties that the broker needs. Raises ``ValueError`` if the bytes are not
        valid."""
        ...

    def read(self, header: bytes) -> Properties:
        """Decode all properties. Raises ``ValueError`` if the bytes are not valid."""
        ...

    def write(self, properties: Properties) -> bytes:
        """Encode naturally, as a native peer would expect; the inverse of ``read``."""
        ...

    def with_headers(self, header: bytes, added: Table) -> bytes:
        """The header with the headers that the broker adds, in the place where a reader expects
        them; all other octets are unchanged. Raises ``ValueError`` if a note cannot be written."""
        ...

    def rewrite(self, header: bytes, properties: Properties) -> bytes:
        """The header with other properties; what it tells about the form of the body stays."""
        ...

    def everlasting(self, header: bytes) -> bytes:
        """The header without a time to live; all other octets are unchanged."""
        ...


DIALECTS: dict[str, Dialect] = {}
"""Dialects by name. Adapters register theirs when imported; the store needs it to read stored
messages."""

NO_ESSENTIALS = Essentials()

UNFORESEEN = (
    ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, struct.error,
)  # fmt: skip
"""Exceptions that converters do not raise deliberately."""

Crosser = Callable[["Message", Dialect], tuple[bytes, Body]]
"""Converts a message to header and body for a reader of another dialect. Raises ``ValueError``."""


def plainly(message: "Message", dialect: Dialect) -> tuple[bytes, Body]:
    """The default conversion if none is configured: properties only."""
    return dialect.write(message.dialect.read(message.header)), message.body


LEAST_ON_WIRE = 64
"""Publishes in a row for which a ``WireRun`` pays."""


class WireRun(NamedTuple):
    """Publishes in a row as they came, in ``octets`` from ``begin`` to ``end``. Each is a head of
    ``head`` octets, its body, and one octet more. The head has at ``size_at`` the number of octets
    of the body (u64, big-endian), and behind it the encoded properties, of ``header`` octets."""

    octets: bytes
    begin: int
    end: int
    publishes: int
    head: int
    size_at: int
    header: int


class Plan(Protocol):
    """Converts messages that are like others before."""

    tally: Any
    """``number`` counts them."""

    def converted(self, header: bytes, exchange: str, key: str) -> bytes | None:
        """The header for the reader; ``None`` if it is not like the others."""
        ...


Plans = dict[tuple[Dialect, Dialect, int], Plan]
"""By dialect of the message, dialect of the reader, and octets of the header."""

_crosser: Crosser = plainly
_plans: Plans = {}


def cross_with(crosser: Crosser) -> None:
    """Set the conversion between dialects for this process. It may have ``plans``, which are used
    first."""
    global _crosser, _plans
    _crosser, _plans = crosser, getattr(crosser, "plans", {})


class Message:
    """One message. Queues hold these in great numbers: only strings, bytes and shared objects.

    ``body`` is complete: octets, or a ``LargeBody`` in a file, which supports ``len`` and slices
    too. ``added_headers`` are those of the broker (``x-death`` and the like); they never overwrite
    the sender's bytes and are merged when the message is written or read. ``user`` has published
    it; the store does not keep that.
    """

    __slots__ = (
        "dialect", "header", "body", "exchange", "key", "essentials", "added_headers", "user",
        "_properties",
    )  # fmt: skip

    def __init__(
        self,
        dialect: Dialect,
        header: bytes,
        body: Body,
        exchange: str,
        key: str,
        essentials: Essentials,
        added_headers: Table | None = None,
        user: str = "",
    ) -> None:
        self.dialect = dialect
        self.header = header
        self.body = body
        self.exchange = exchange
        self.key = key
        self.essentials = essentials
        self.added_headers = added_headers
        self.user = user
        self._properties: Properties | None = None

    @property
    def properties(self) -> Properties:
        """The canonical view, with ``added_headers`` merged into ``application``."""
        if self._properties is None:
            properties = self.dialect.read(self.header)
            if self.added_headers:
                properties.application = {**(properties.application or {}), **self.added_headers}
            self._properties = properties
        return self._properties

    def forget_properties(self) -> None:
        """Drop the decoded view, so that a queued message holds only its bytes."""
        self._properties = None

    def form_for(self, dialect: Dialect) -> tuple[bytes, Body]:
        """Header and body for a reader of ``dialect``; unchanged if it is the message's own
        dialect. Raises ``ValueError`` if the message cannot be converted for that reader. Hot."""
        header, body = self.header, self.body
        try:
            if dialect is not self.dialect:
                plan = _plans.get((self.dialect, dialect, len(header)))
                if (
                    plan is not None
                    and body.__class__ is bytes
                    and (converted := plan.converted(header, self.exchange, self.key)) is not None
                ):
                    header = converted
                    plan.tally.number += 1
                else:
                    header, body = _crosser(self, dialect)
            if self.added_headers:
                header = dialect.with_headers(header, self.added_headers)
            return header, body
        except UNFORESEEN as error:
            # An unexpected exception of a converter loses only this message: it would be raised
            # again for the next reader.
            raise ValueError(f"the message cannot be converted: {error!r}") from error

    def routed_as(
        self,
        exchange: str,
        key: str,
        essentials: Essentials | None = None,
        added_headers: Table | None = None,
    ) -> "Message":
        """The same message with another exchange and key; with other essentials and added headers
        if they are given."""
        return Message(
            self.dialect,
            self.header,
            self.body,
            exchange,
            key,
            self.essentials if essentials is None else essentials,
            self.added_headers if added_headers is None else added_headers,
            self.user,
        )

    @property
    def size(self) -> int:
        """Octets of body and properties, as counted by limits and alarms."""
        return len(self.body) + len(self.header)

    @property
    def weight(self) -> int:
        """Octets of the message that are held in memory."""
        body = self.body
        return len(self.header) + (len(body) if body.__class__ is bytes else 0)

    def __repr__(self) -> str:
        return (
            f"Message({self.dialect.name}, {self.exchange[:255]!r}, {self.key[:255]!r}, "
            f"{len(self.header)}+{len(self.body)} octets)"
        )


class WithAlternate(Message):
    """A message that goes to the exchange ``alternate`` if no queue takes it at its own: published
    as ``mandatory``, it comes back then. ``mandatory`` and ``immediate`` are what its publisher
    wanted."""

    __slots__ = ("alternate", "mandatory", "immediate")

    def __init__(
        self, message: Message, alternate: str, mandatory: bool, immediate: bool = False
    ) -> None:
        super().__init__(
            message.dialect,
            message.header,
            message.body,
            message.exchange,
            message.key,
            message.essentials,
        )
        self.alternate = alternate
        self.mandatory = mandatory
        self.immediate = immediate


class ExpiringMessage(Message):
    """A message for a reader, with the milliseconds ``left`` until it expires."""

    __slots__ = ("left",)

    def __init__(self, message: Message, left: int) -> None:
        super().__init__(
            message.dialect,
            message.header,
            message.body,
            message.exchange,
            message.key,
            message.essentials,
            message.added_headers,
            message.user,
        )
        self.left = left

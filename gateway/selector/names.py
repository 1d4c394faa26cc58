"""Resolution of names in selectors: fields of a message, or else its application properties.

Fields have their JMS names (JMS 2.0 §3.8.1.1, mapped to AMQP by the OASIS JMS mapping) and those of
the Apache selector filters: ``amqp.`` and a name of AMQP 1.0. Fields that are among the
``Essentials`` are read without decoding the properties.
"""

from collections.abc import Callable
from decimal import Decimal
from typing import Any
from uuid import UUID

from gateway.message import Message
from gateway.selector.evaluation import Value
from gateway.selector.like import LONGEST_TEXT
from gateway.values import IeeeDecimal, Scaled, Seconds

Read = Callable[[Message], Value]

NORMAL_PRIORITY = 4
"""Priority of a message without one (AMQP 1.0 §3.2.1 and JMS 2.0 §3.4.10)."""


def plain(value: Any) -> Value:
    """A value of any version as a selector value: number, text or boolean. All other values are
    unknown.

    Decimals become approximate numbers, times milliseconds, UUIDs text. Octets are decoded as
    UTF-8, unless there are too many."""
    kind = type(value)
    if kind is str or kind is int or kind is bool or kind is float or value is None:
        return value  # type: ignore[no-any-return]
    if isinstance(value, str):
        return str(value)
    if isinstance(value, Seconds):
        return int(value) * 1000
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value)
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, bytes | bytearray | memoryview):
        if len(value) > LONGEST_TEXT:
            return None
        try:
            return bytes(value).decode()
        except UnicodeDecodeError:
            return None
    if isinstance(value, IeeeDecimal | Scaled):
        value = value.decimal()
    if isinstance(value, Decimal):
        return float("nan") if value.is_nan() else float(value)
    return None


def identifier(value: Any) -> Value:
    """A message or correlation id, in the form in which JMS clients write ids that are not text."""
    if isinstance(value, UUID):
        return f"ID:AMQP_UUID:{value}"
    if isinstance(value, bytes):
        return f"ID:AMQP_BINARY:{value.hex().upper()}"
    if isinstance(value, int):
        return f"ID:AMQP_ULONG:{int(value)}"
    return plain(value)


def delivery_mode(message: Message) -> Value:
    return "PERSISTENT" if message.essentials.durable else "NON_PERSISTENT"


def priority(message: Message) -> Value:
    found = message.essentials.priority
    return NORMAL_PRIORITY if found is None else int(found)


def expiration(message: Message) -> Value:
    """Milliseconds since 1970; 0 if the message never expires, unknown if the sender gave no
    creation time."""
    properties = message.properties
    if properties.absolute_expiry_time is not None:
        return int(properties.absolute_expiry_time)
    if properties.ttl is None:
        return 0
    if properties.creation_time is None:
        return None
    return int(properties.creation_time + properties.ttl)


def subject(message: Message) -> Value:
    """The subject. The legacy versions have a type instead."""
    properties = message.properties
    return plain(properties.type if properties.subject is None else properties.subject)


def kind(message: Message) -> Value:
    properties = message.properties
    return plain(properties.subject if properties.type is None else properties.type)


def destination(message: Message) -> Value:
    to = message.properties.to
    return message.key if to is None else plain(to)


def earlier_deliveries(message: Message) -> int:
    return int(message.properties.delivery_count or 0)


def field(name: str) -> Read:
    return lambda message: plain(getattr(message.properties, name))


NAMES: dict[str, Read] = {
    "JMSMessageID": lambda message: identifier(message.properties.message_id),
    "JMSCorrelationID": lambda message: identifier(message.properties.correlation_id),
    "JMSType": kind,
    "JMSPriority": priority,
    "JMSTimestamp": field("creation_time"),
    "JMSDeliveryMode": delivery_mode,
    "JMSReplyTo": field("reply_to"),
    "JMSDestination": destination,
    "JMSExpiration": expiration,
    "JMSRedelivered": lambda message: earlier_deliveries(message) > 0,
    "JMSXGroupID": field("group_id"),
    "JMSXGroupSeq": field("group_sequence"),
    "JMSXUserID": lambda message: message.essentials.user_id,
    "JMSXDeliveryCount": lambda message: earlier_deliveries(message) + 1,
    "amqp.durable": lambda message: bool(message.essentials.durable),
    "amqp.delivery_mode": delivery_mode,
    "amqp.priority": priority,
    "amqp.ttl": lambda message: message.essentials.ttl,
    "amqp.user_id": lambda message: message.essentials.user_id,
    "amqp.to": destination,
    "amqp.subject": subject,
    "amqp.jms_type": kind,
    "amqp.redelivered": lambda message: earlier_deliveries(message) > 0,
    "amqp.delivery_count": earlier_deliveries,
    **{
        f"amqp.{name}": field(name)
        for name in (
            "first_acquirer", "message_id", "reply_to", "correlation_id", "content_type",
            "content_encoding", "absolute_expiry_time", "creation_time", "group_id",
            "group_sequence", "reply_to_group_id",
        )
    },
}  # fmt: skip


def resolve(name: str) -> Read:
    """A function that reads the value of a name from a message."""
    found = NAMES.get(name)
    if found is not None:
        return found

    def read(message: Message) -> Value:
        application = message.properties.application
        return None if application is None else plain(application.get(name))

    return read

"""The time to live of messages that are passed on: the rest of it, and not all of it again."""

from gateway.adapters.methods.content import BASIC
from gateway.adapters.methods.splicing import with_expiration, without_expiration
from gateway.adapters.performatives.content import SECTIONS
from gateway.adapters.performatives.splicing import with_ttl
from gateway.message import ExpiringMessage, Message

MOST_LEFT = (1 << 32) - 1
"""The longest time to live that RabbitMQ takes, in milliseconds."""


def left_of(message: Message) -> int:
    """The milliseconds that the source says are left of a message's time to live. Before 0-10 no
    version says how long a message has waited in its queue: of their brokers it is all of its time.
    An absolute expiry time needs no care."""
    ttl = message.essentials.ttl or 0
    return min(ttl, message.left) if isinstance(message, ExpiringMessage) else ttl


def expiring(message: Message, left: int) -> Message:
    """The message with so many milliseconds to live; with one, if it has had its time: then the
    destination decides what becomes of it. Raises ``ValueError`` if it cannot be read."""
    left = max(1, left)
    dialect, header = message.dialect, message.header
    if dialect is BASIC:
        header = with_expiration(header, left)
    elif dialect is SECTIONS:
        header = with_ttl(header, left)
    else:
        properties = dialect.read(header)
        properties.ttl = left
        header = dialect.rewrite(header, properties)
    return Message(
        dialect,
        header,
        message.body,
        message.exchange,
        message.key,
        message.essentials._replace(ttl=left),
        message.added_headers,
        message.user,
    )


def for_rabbitmq(message: Message, now: int) -> Message:
    """A message with an absolute expiry time, for RabbitMQ before 1.0, which takes no date for an
    ``expiration``: with the time that is left, unless that is more than RabbitMQ takes, and the
    date in a header. ``now`` in ms since 1970. Raises ``ValueError`` if it cannot be read."""
    essentials, dialect = message.essentials, message.dialect
    if essentials.expiry is None or essentials.ttl is not None:
        return message
    left = essentials.expiry - now
    properties = dialect.read(message.header)
    properties.ttl = max(1, min(left, MOST_LEFT))
    place = message.exchange, message.key
    given = dialect.rewrite(message.header, properties), message.body, *place
    lively = Message(dialect, *given, essentials, message.added_headers, message.user)
    header, body = lively.form_for(BASIC)
    if left > MOST_LEFT:
        header = without_expiration(header)
    return Message(BASIC, header, body, *place, BASIC.essentials(header), None, message.user)

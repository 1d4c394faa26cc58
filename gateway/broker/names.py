"""The limit of names: one for all kinds, from any protocol.

The legacy versions write names and routing keys as short strings, of 255 octets (0-9-1 §4.2.5.3).
AMQP 1.0 and HTTP could say more; a longer name would be one that their readers cannot be told.
Names in a store from before the limit are not checked again.
"""

from gateway.errors import Condition, Refusal

MOST_OCTETS = 255
"""Of a name or a routing key, as UTF-8."""
ALWAYS_FITS = MOST_OCTETS // 4
"""So many characters cannot be too many octets."""
PRIVATE = "amq.events-"
"""The names of the gateway's own queues begin with it: policies do not touch them."""


def octets(text: str) -> int:
    """Its length on a legacy wire, whose octets need not be UTF-8. Raises ``UnicodeEncodeError``
    for half a surrogate pair, as JSON may hold."""
    return len(text.encode("utf-8", "surrogateescape"))


def check_name(what: str, text: str) -> None:
    """Refuse (invalid field in 1.0, 400 over HTTP) an invalid name of ``what``."""
    try:
        size = octets(text)
    except UnicodeEncodeError:
        raise refusal(f"the {what} is not text that can be written as UTF-8") from None
    if size > MOST_OCTETS:
        raise refusal(f"the {what} has {size} octets, and {MOST_OCTETS} are allowed")


def check_key(key: str) -> None:
    """The same of a message's routing key; cheap for one that is short."""
    if len(key) > ALWAYS_FITS:
        check_name("routing key", key)


def refusal(text: str) -> Refusal:
    return Refusal(Condition.COMMAND_INVALID, text)


def title(kind: str, name: str, vhost: str) -> str:
    """How RabbitMQ names a thing in its texts."""
    return f"{kind} '{name}' in vhost '{vhost}'"

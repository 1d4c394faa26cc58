"""Dead letters: messages that leave a queue unwanted, and the headers that they get.

``x-death`` is RabbitMQ's: an array of tables, the most recent first, one per queue and reason with
a count. A message does not enter a queue that it has died in before, unless a consumer has rejected
it on the way: a cycle that no consumer keeps going must end.
"""

from typing import Any, Protocol

from gateway.broker.limits import QueueArguments
from gateway.message import Message, Properties, Table
from gateway.values import Seconds


class DeadLetterSource(Protocol):
    """The queue that a message leaves unwanted."""

    name: str
    limits: QueueArguments


def peek_properties(message: Message) -> Properties:
    """Decode, without keeping the result. Octets that cannot be decoded have no properties: the
    message is reported when it is read."""
    try:
        return message.properties
    except ValueError:
        return Properties()
    finally:
        message.forget_properties()


def header_keys(headers: Table, *names: str) -> list[str]:
    """Further routing keys in the CC and BCC headers."""
    return [
        key
        for name in names
        if isinstance(headers.get(name), list)
        for key in headers[name]
        if isinstance(key, str)
    ]


def deaths_of(headers: Table) -> list[Table]:
    deaths = headers.get("x-death")
    return [d for d in deaths if isinstance(d, dict)] if isinstance(deaths, list) else []


def reencoded(message: Message, properties: Properties, exchange: str, key: str) -> Message:
    """A message with other properties, encoded by the dialect of its sender."""
    header = message.dialect.rewrite(message.header, properties)
    essentials = message.dialect.essentials(header)
    given = header, message.body, exchange, key, essentials, None, message.user
    return Message(message.dialect, *given)


def dead_message(queue: DeadLetterSource, message: Message, reason: str, now: int) -> Message:
    """The message as it goes to the dead letter exchange of ``queue``."""
    properties = peek_properties(message)
    headers = properties.application or {}
    death: Table = {
        "count": 1,
        "reason": reason,
        "queue": queue.name,
        "time": Seconds(now // 1000),
        "exchange": message.exchange,
        "routing-keys": [message.key, *header_keys(headers, "CC", "BCC")],
    }
    if properties.ttl is not None:
        death["original-expiration"] = str(properties.ttl)
    added = dict(message.added_headers or {})
    added.update(death_headers(headers, death))
    exchange = queue.limits.dead_letter_exchange or ""
    key = queue.limits.dead_letter_key
    copies = key is not None and "CC" in headers
    to = message.key if key is None else key
    if properties.ttl is None and not copies:
        essentials = message.essentials._replace(ttl=None, expiry=None)
        return message.routed_as(exchange, to, essentials, added)
    # The sender's bytes have to change: it must not expire again, nor go to the old copies.
    if copies:
        properties = message.dialect.read(message.header)
        properties.ttl = None
        if properties.application is not None:
            properties.application.pop("CC", None)
        changed = reencoded(message, properties, exchange, to)
        changed.added_headers = added
        changed.essentials = changed.essentials._replace(expiry=None)
        return changed
    header = message.dialect.everlasting(message.header)
    essentials = message.dialect.essentials(header)._replace(expiry=None)
    given = header, message.body, exchange, to, essentials, added, message.user
    return Message(message.dialect, *given)


def death_headers(headers: Table, death: Table) -> dict[str, Any]:
    """The headers that one more death adds or changes."""
    deaths = deaths_of(headers)
    same = [
        d for d in deaths if d.get("queue") == death["queue"] and d.get("reason") == death["reason"]
    ]
    others = [d for d in deaths if d not in same]
    if same:
        again = dict(same[0])
        count = again.get("count", 0)
        again["count"] = (count if isinstance(count, int) else 0) + 1
        return {"x-death": [again, *others]}
    added: dict[str, Any] = {"x-death": [death, *others]}
    if "x-death" not in headers:
        added["x-first-death-reason"] = death["reason"]
        added["x-first-death-queue"] = death["queue"]
        added["x-first-death-exchange"] = death["exchange"]
    return added


def is_cycle(queue: str, headers: Table) -> bool:
    """Whether the message has been in this queue, and nothing but the broker moved it since."""
    for death in deaths_of(headers):
        if death.get("reason") == "rejected":
            return False
        if death.get("queue") == queue:
            return True
    return False

"""Destinations of handles as queues and exchanges of the broker (0.8a2 §2.2.6, §3.5.2).

The queue service is the queues of the virtual host. The topic service is ``amq.topic`` with the
name as routing key. A peer is a queue with a server behind it, which replies to a private queue of
the handle. A durable subscription is a queue, named like one of 1.0:
``subscription:<user>:<client>:<identifier>``.
"""

import secrets

from gateway.broker.channel import Channel
from gateway.broker.exchanges import SELECTOR
from gateway.broker.names import MOST_OCTETS, octets
from gateway.broker.publish_path import ToAll
from gateway.broker.vhost import VirtualHost
from gateway.errors import Condition, Refusal
from gateway.message import Message, Properties
from gateway.operations import DRAFT_LEVELS, Bind, DeclareQueue, PurgeQueue
from gateway.selector import Selector, SelectorError
from gateway.sessions.addresses import TOPICS
from gateway.sessions.subscriptions import (
    PREFIX,
    bind_subscription,
    check_owner,
    find_name,
    may_be_earlier,
    ownership,
)

TEMPORARY = "tmp/"
RESERVED_PREFIXES = ("amq.", PREFIX, TEMPORARY)
"""Prefixes of queues that a message to all queues does not reach."""
MOST_COPIES = 1000
"""The most queues that one message may be sent to."""

SELECTOR_TYPES = frozenset(
    ["", "text/x-sql", "application/x-sql", "application/sql", "text/x-jms-selector",
     "application/x-jms-selector"]
)  # fmt: skip
"""MIME types of selectors: different names of the one supported grammar."""


def check_name(name: str) -> str:
    if octets(name) > MOST_OCTETS:
        raise Refusal(Condition.SYNTAX_ERROR, f"a name has {MOST_OCTETS} octets at most")
    return name


def no_destination(name: str) -> Refusal:
    return Refusal(Condition.NOT_FOUND, f"no destination '{name}'")


def need_prefix(vhost: VirtualHost, name: str) -> None:
    """Refuses (404) unless a queue has this name or begins with it (§3.5.2.3)."""
    if name and name not in vhost.queues:
        if any(known.startswith(name) for known in vhost.queues):
            return
        raise no_destination(name)


def temporary_name(vhost: VirtualHost) -> str:
    """An unused name: no queue has it, and very probably no topic."""
    while True:
        name = f"{TEMPORARY}{secrets.randbelow(10**9):09}"
        if name not in vhost.queues:
            return name


def make_temporary(channel: Channel, name: str) -> str:
    """Declare a queue of the connection, or purge it if the connection has it already (§3.5.2.2).
    Refuses (403) the name of another queue."""
    queues = channel.vhost.queues
    name = name or temporary_name(channel.vhost)
    found = queues.get(name)
    if found is None:
        return private_queue(channel, name)
    if found.owner is not channel.client:
        raise Refusal(Condition.ACCESS_REFUSED, f"'{name}' is not a queue of this client")
    channel.topology.purge_queue(PurgeQueue(channel.number, None, name))
    return name


def private_queue(channel: Channel, name: str = "") -> str:
    """Declare an exclusive queue of the connection, such as the reply queue of a peer handle."""
    made = DeclareQueue(channel.number, None, name, exclusive=True, levels=DRAFT_LEVELS)
    return channel.topology.declare_queue(made).name


def delete_private(channel: Channel, name: str) -> None:
    found = channel.vhost.queues.get(name)
    if found is not None and found.owner is channel.client:
        channel.vhost.remove_queue(found)


# --- sending ------------------------------------------------------------------------------------


def matching_queues(vhost: VirtualHost, name: str) -> list[str]:
    """The queue of that name; without a name, all queues (§3.5.2.3)."""
    if name:
        if name not in vhost.queues:
            raise no_destination(name)
        return [name]
    found = [known for known in vhost.queues if not known.startswith(RESERVED_PREFIXES)]
    if not found:
        raise no_destination(name)
    if len(found) > MOST_COPIES:
        raise Refusal(Condition.RESOURCE_ERROR, f"more than {MOST_COPIES} queues")
    return found


def to_all(channel: Channel, message: Message) -> Message:
    """The message to all topics that have a subscription (§3.5.2.3)."""
    if len(channel.vhost.exchange(TOPICS).bindings) > MOST_COPIES:
        raise Refusal(Condition.RESOURCE_ERROR, f"more than {MOST_COPIES} topics")
    essentials = message.essentials._replace(has_headers=True)
    return ToAll(message.dialect, message.header, message.body, TOPICS, "", essentials)


def as_request(message: Message, answer_to: str) -> Message:
    """The message as a request, with a reply queue and a correlation id."""
    properties = Properties(**message.properties.given())
    if properties.reply_to is None:
        properties.reply_to = answer_to
    if properties.correlation_id is None:
        properties.correlation_id = properties.message_id
    header = message.dialect.rewrite(message.header, properties)
    return Message(message.dialect, header, message.body, "", message.key, message.essentials)


# --- subscriptions ------------------------------------------------------------------------------


def binding_key(name: str) -> str:
    """A binding key for a topic; a name that is empty or ends in a dot matches everything that
    begins with it."""
    return f"{name}#" if not name or name.endswith(".") else name


def subscription_name(channel: Channel, client: str, identifier: str) -> str:
    if not client:
        raise Refusal(Condition.SYNTAX_ERROR, "a durable subscription needs a client name")
    return check_name(find_name(channel, client, identifier))


def subscribe(
    channel: Channel, name: str, client: str, identifier: str, selector: Selector | None = None
) -> tuple[str, bool]:
    """Declare and bind the queue of a subscription to a topic: named if it is durable, else
    private. Messages that the selector excludes never enter it. The flag is true if an earlier
    build may have left such messages there, so that the consumer has to filter."""
    durable = bool(identifier)
    wanted = subscription_name(channel, client, identifier) if durable else ""
    key = binding_key(name)
    queue = channel.topology.declare_queue(
        DeclareQueue(
            channel.number,
            None,
            wanted,
            durable=durable,
            exclusive=not durable,
            auto_delete=not durable,
            arguments=ownership(channel, client) if durable else {},
            levels=DRAFT_LEVELS,
        )
    ).name
    if durable:
        check_owner(channel, queue, client)
    arguments = {} if selector is None else {SELECTOR: selector.text}
    earlier = durable and may_be_earlier(queue, client, identifier)
    bind = Bind(channel.number, None, queue, TOPICS, key, arguments)
    return queue, bind_subscription(channel, bind, earlier)


def read_selector(text: str, kind: str) -> Selector | None:
    """Parse a selector. Refuses unknown types (540) and syntax errors (502)."""
    if kind.lower() not in SELECTOR_TYPES:
        raise Refusal(Condition.NOT_IMPLEMENTED, f"selectors of type '{kind[:60]}' are unknown")
    if not text.strip():
        return None
    try:
        return Selector(text)
    except SelectorError as error:
        raise Refusal(Condition.SYNTAX_ERROR, f"no selector: {error}") from None

"""What handles mean on the broker: queues, topics and peers by name (0.8a2 §2.2.6, §3.5.2).

A queue service is the queues of the virtual host; a topic service is ``amq.topic`` with the name as
key; a peer is a queue that somebody serves, who answers into a queue of the handle's own. A durable
subscription is a queue, named like one of 1.0: ``subscription:<user>:<client>:<identifier>``.
"""

import secrets

from gateway.broker.channel import Channel
from gateway.broker.exchanges import SELECTOR
from gateway.broker.names import MOST_OCTETS, octets
from gateway.broker.posting import ToAll
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
NOBODYS = ("amq.", PREFIX, TEMPORARY)
"""Beginnings of names that a message to all queues does not mean."""
MOST_COPIES = 1000
"""Queues that one message may be sent to."""

SELECTOR_TYPES = frozenset(
    ["", "text/x-sql", "application/x-sql", "application/sql", "text/x-jms-selector",
     "application/x-jms-selector"]
)  # fmt: skip
"""MIME types of selectors: the one grammar there is, by all names it might go by."""


def check_name(name: str) -> str:
    if octets(name) > MOST_OCTETS:
        raise Refusal(Condition.SYNTAX_ERROR, f"a name has {MOST_OCTETS} octets at most")
    return name


def no_destination(name: str) -> Refusal:
    return Refusal(Condition.NOT_FOUND, f"no destination '{name}'")


def find_prefix(vhost: VirtualHost, name: str) -> None:
    """Refuses (404) unless it is a queue or the beginning of the name of one (§3.5.2.3)."""
    if name and name not in vhost.queues:
        if any(known.startswith(name) for known in vhost.queues):
            return
        raise no_destination(name)


def temporary_name(vhost: VirtualHost) -> str:
    """A name that neither a queue nor, in all likelihood, a topic has."""
    while True:
        name = f"{TEMPORARY}{secrets.randbelow(10**9):09}"
        if name not in vhost.queues:
            return name


def make_temporary(channel: Channel, name: str) -> str:
    """A queue of the connection; one that it has already is emptied (§3.5.2.2). Refuses (403) the
    name of another queue."""
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
    """A queue of the connection, such as the one where answers to a peer handle come in."""
    made = DeclareQueue(channel.number, None, name, exclusive=True, levels=DRAFT_LEVELS)
    return channel.topology.declare_queue(made).name


def delete_private(channel: Channel, name: str) -> None:
    found = channel.vhost.queues.get(name)
    if found is not None and found.owner is channel.client:
        channel.vhost.remove_queue(found)


# --- sending ------------------------------------------------------------------------------------


def queues_meant(vhost: VirtualHost, name: str) -> list[str]:
    """The queue of that name; without a name, all there are (§3.5.2.3)."""
    if name:
        if name not in vhost.queues:
            raise no_destination(name)
        return [name]
    found = [known for known in vhost.queues if not known.startswith(NOBODYS)]
    if not found:
        raise no_destination(name)
    if len(found) > MOST_COPIES:
        raise Refusal(Condition.RESOURCE_ERROR, f"more than {MOST_COPIES} queues")
    return found


def addressed(message: Message, exchange: str, key: str, ttl: int | None) -> Message:
    """The message with a place to go to."""
    essentials = message.essentials
    if ttl is not None:
        essentials = essentials._replace(ttl=ttl)
    return Message(message.dialect, message.header, message.body, exchange, key, essentials)


def to_all(channel: Channel, message: Message) -> Message:
    """The message to every topic there is (§3.5.2.3), as far as somebody listens to one."""
    if len(channel.vhost.exchange(TOPICS).bindings) > MOST_COPIES:
        raise Refusal(Condition.RESOURCE_ERROR, f"more than {MOST_COPIES} topics")
    essentials = message.essentials._replace(has_headers=True)
    return ToAll(message.dialect, message.header, message.body, TOPICS, "", essentials)


def asking(message: Message, answer_to: str) -> Message:
    """The same as a request: it says where the answer goes, and what it will be known by."""
    properties = Properties(**message.properties.given())
    if properties.reply_to is None:
        properties.reply_to = answer_to
    if properties.correlation_id is None:
        properties.correlation_id = properties.message_id
    header = message.dialect.write(properties)
    return Message(message.dialect, header, message.body, "", message.key, message.essentials)


# --- subscriptions ------------------------------------------------------------------------------


def binding_key(name: str) -> str:
    """Names are texts, and a beginning stands for all that it is the beginning of, up to a dot."""
    return f"{name}#" if not name or name.endswith(".") else name


def subscription_name(channel: Channel, client: str, identifier: str) -> str:
    if not client:
        raise Refusal(Condition.SYNTAX_ERROR, "a durable subscription needs a client name")
    return check_name(find_name(channel, client, identifier))


def subscribe(
    channel: Channel, name: str, client: str, identifier: str, selector: Selector | None = None
) -> tuple[str, bool]:
    """The queue of a subscription to a topic: by name if it is durable, else private. What the
    selector does not want never comes into it; True if an earlier build may have left some of that
    there, so that the consumer has to look."""
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
    """Refuses a type that is not known (540) and what is no selector (502)."""
    if kind.lower() not in SELECTOR_TYPES:
        raise Refusal(Condition.NOT_IMPLEMENTED, f"selectors of type '{kind[:60]}' are unknown")
    if not text.strip():
        return None
    try:
        return Selector(text)
    except SelectorError as error:
        raise Refusal(Condition.SYNTAX_ERROR, f"no selector: {error}") from None

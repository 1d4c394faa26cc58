"""Sources and targets of links on the broker: queues, exchanges, subscriptions to exchanges, and
dynamic nodes.

A source over an exchange is a queue bound to it. The name of the queue identifies its owner, so
that a durable subscription is found again after a restart:
``subscription:<user>:<container>:<name>``, without user and container for one that all containers
share (JMS 2.0's shared subscriptions).
"""

import secrets
from string import ascii_letters, digits
from typing import NamedTuple
from urllib.parse import quote

from gateway.broker.channel import Channel
from gateway.broker.exchanges import CONDITIONS
from gateway.broker.replies import REPLY_TO
from gateway.errors import Condition, Refusal
from gateway.operations import LINK_LEVELS, Attached, Bind, DeclareQueue, Terminus
from gateway.sessions.addresses import (
    QUEUE_CAPABILITIES,
    TOPIC_CAPABILITIES,
    TOPICS,
    NodeAddress,
    resolve,
)
from gateway.sessions.filters import Filters, read_filters
from gateway.sessions.links import Links, Node
from gateway.sessions.subscriptions import (
    bind_subscription,
    check_owner,
    find_name,
    may_be_earlier,
    ownership,
)
from gateway.values import Described

SHARED = frozenset(["shared", "global"])
KNOWN = QUEUE_CAPABILITIES | TOPIC_CAPABILITIES | SHARED

POLICIES = {
    0x2B: "close", "amqp:delete-on-close:list": "close",
    0x2C: "links", "amqp:delete-on-no-links:list": "links",
    0x2D: "messages", "amqp:delete-on-no-messages:list": "messages",
    0x2E: "links-or-messages", "amqp:delete-on-no-links-or-messages:list": "links-or-messages",
}  # fmt: skip

NEVER = "never"

NOT_DURABLE = "the queue is not durable, and the message is"

PLAIN = frozenset(ascii_letters + digits + "-_:@")
MOST_SHOWN = 80
"""Characters of a peer's name in a generated name."""

VOLATILE = "rabbitmq:volatile-queue"
"""Capability of a dynamic source for direct replies (RabbitMQ 4.2)."""


class Source(NamedTuple):
    """A source that is granted, its queue, and its filters."""

    terminus: Terminus
    node: Node
    filters: Filters


def granted(terminus: Terminus, address: str | None, filters: Filters | None = None) -> Terminus:
    """The terminus that is granted. Unsettled deliveries are kept in memory only, so that durable 2
    (unsettled state) becomes 1 (configuration)."""
    return Terminus(
        address,
        min(terminus.durable, 1),
        terminus.expiry,
        terminus.timeout,
        terminus.dynamic,
        terminus.properties,
        terminus.copy,
        terminus.default,
        filters.granted if filters is not None else {},
        tuple(name for name in terminus.capabilities if name in KNOWN),
    )


# --- targets ------------------------------------------------------------------------------------


def find_target(channel: Channel, terminus: Terminus, create: bool, links: Links) -> Attached:
    """Exchange and key to which the messages of a link are published. Refuses with 403, 404 or
    405."""
    if terminus.address is None:
        return Attached(granted(terminus, None), place=ByMessage(channel, create, links))
    address = resolve(channel, terminus.address, terminus.capabilities, create)
    there = granted(terminus, terminus.address)
    if address.kind == "management":
        return Attached(there, node="management")
    exchange, key = writable(channel, address)
    # A topic needs no subscribers, unless it is addressed in RabbitMQ's own form.
    plain = not terminus.address.startswith("/exchanges/")
    topic = bool(TOPIC_CAPABILITIES & frozenset(terminus.capabilities))
    mandatory = not (exchange and (plain or topic))
    if key is None:
        by_subject = lambda _, subject, __: (exchange, subject or "")  # noqa: E731
        return Attached(there, place=by_subject, mandatory=mandatory)
    transient = not exchange and is_transient(channel, key, links)
    return Attached(there, exchange, key, mandatory=mandatory, transient=transient)


def is_transient(channel: Channel, queue: str, links: Links) -> bool:
    """Whether a queue is lost with the broker although it is not bound to the lifetime of a link, a
    connection or its consumers."""
    found = channel.vhost.queues.get(queue)
    return (
        found is not None
        and not (found.durable or found.auto_delete)
        and found.owner is None
        and found not in links.dynamic
    )


def writable(channel: Channel, address: NodeAddress) -> tuple[str, str | None]:
    """Exchange and key of an address to which this user may write. Refuses with 403 or 404. Anybody
    may send to the exclusive queue of another connection, as in the other versions."""
    if address.kind == "queue":
        channel.publish_path.find_writable("")
        if not channel.vhost.is_reply(address.name):
            channel.vhost.queue(address.name)
        return "", address.name
    channel.publish_path.find_writable(address.name)
    return address.name, address.key


class ByMessage:
    """Routes messages of the anonymous terminus by their ``to``."""

    def __init__(self, channel: Channel, create: bool, links: Links) -> None:
        self._channel = channel
        self._create = create
        self._links = links

    def __call__(self, to: str | None, subject: str | None, durable: bool) -> tuple[str, str]:
        """Exchange and key of one message. Refuses (404) an address without a node, and (406) a
        durable message for a transient queue."""
        if not to:
            raise Refusal(Condition.PRECONDITION_FAILED, "the message has no 'to'")
        address = resolve(self._channel, to, (), self._create)
        if address.kind == "management":
            raise Refusal(Condition.NOT_ALLOWED, "requests for management need a link of their own")
        if address.kind == "queue":
            if durable and is_transient(self._channel, address.name, self._links):
                raise Refusal(Condition.PRECONDITION_FAILED, NOT_DURABLE)
            return "", address.name
        return address.name, (subject or "") if address.key is None else address.key


# --- sources ------------------------------------------------------------------------------------


def find_source(
    channel: Channel, terminus: Terminus, container: str, name: str, create: bool
) -> Source:
    """The source of a link, created if necessary. Refuses with 403, 404, 405 or 406."""
    filters = read_filters(terminus.filters)
    there = granted(terminus, terminus.address, filters)
    if terminus.address is None:
        return known_subscription(channel, there, container, name, filters)
    address = resolve(channel, terminus.address, terminus.capabilities, create)
    if address.kind == "queue":
        return Source(there, Node(address.name), filters)
    if address.kind == "management":
        raise Refusal(Condition.NOT_ALLOWED, "management is no place for messages")
    node, looks = subscription(channel, address, there, container, name, filters)
    return Source(there, node, filters if looks else filters._replace(matches=None))


def subscription_name(terminus: Terminus, container: str, name: str) -> tuple[str, str]:
    """Owner and name of a named subscription: a container, or "" for all of them. JMS clients
    append a bar and a number to the link names of a shared one. Refuses (406) a container without
    a name."""
    shared = SHARED & frozenset(terminus.capabilities)
    if shared:
        name = name.partition("|")[0]
    if "global" in shared:
        return "", name
    if not container:
        text = "a subscription that may be resumed needs a container-id"
        raise Refusal(Condition.PRECONDITION_FAILED, text)
    return container, name


def known_subscription(
    channel: Channel, terminus: Terminus, container: str, name: str, filters: Filters
) -> Source:
    """The existing subscription of a link whose source has no address: JMS clients unsubscribe in
    this way. Refuses (404) if there is none."""
    for owner in (container, ""):
        queue = find_name(channel, owner, name.partition("|")[0])
        if queue in channel.vhost.queues:
            check_owner(channel, queue, owner)
            terminus.address = queue
            terminus.durable, terminus.expiry = 1, NEVER
            return Source(terminus, Node(queue, True, True), filters)
    raise Refusal(Condition.NOT_FOUND, f"no subscription '{name}'")


def subscription(
    channel: Channel,
    address: NodeAddress,
    terminus: Terminus,
    container: str,
    name: str,
    filters: Filters,
) -> tuple[Node, bool]:
    """A queue bound to an exchange for this link: private, or named if it may outlive its
    connection or is shared. The second value: an earlier build may have left other messages in the
    queue, which the consumer has to filter."""
    durable = terminus.durable > 0 and terminus.expiry == NEVER
    named = durable or bool(SHARED & frozenset(terminus.capabilities))
    channel.vhost.exchange(address.name)
    key = binding_key(channel, address, filters)
    number = channel.number
    wanted, owner = "", ""
    if named:
        owner, name = subscription_name(terminus, container, name)
        wanted = find_name(channel, owner, name, durable)
    lasting = named or terminus.expiry in (NEVER, "connection-close") or terminus.timeout > 0
    declared = DeclareQueue(
        number,
        None,
        wanted,
        durable=durable,
        exclusive=not lasting,
        auto_delete=not lasting,
        arguments=ownership(channel, owner),
        levels=LINK_LEVELS,
    )
    queue = channel.topology.declare_queue(declared).name
    if named:
        check_owner(channel, queue, owner)
    arguments = {**(filters.headers or {}), **filters.conditions}
    bind = Bind(number, None, queue, address.name, key, arguments)
    looks = bind_subscription(channel, bind, durable and may_be_earlier(queue, owner, name))
    return Node(queue, lasting, True), looks


def narrow(channel: Channel, queue: str, filters: Filters) -> None:
    """Replace the conditions of a resumed subscription; its exchange and key stay (§2.6.3: a link
    may request other filters when it is attached again)."""
    vhost = channel.vhost
    for old in list(vhost.bindings_to(vhost.queues[queue])):
        kept = {name: value for name, value in old.arguments.items() if name not in CONDITIONS}
        arguments = {**kept, **filters.conditions}
        bind = Bind(channel.number, None, queue, old.source.name, old.key, arguments)
        bind_subscription(channel, bind)


def binding_key(channel: Channel, address: NodeAddress, filters: Filters) -> str:
    """Binding key from the filter or the address, otherwise for all messages of the exchange."""
    if filters.key is not None:
        return filters.key
    if address.key:
        return address.key
    kind = channel.vhost.exchange(address.name).type
    if kind == "direct" and filters.headers is None:
        raise Refusal(
            Condition.PRECONDITION_FAILED,
            f"a subscription to the direct exchange '{address.name}' needs a key",
        )
    return "#" if kind == "topic" else ""


# --- dynamic nodes ------------------------------------------------------------------------------


def make_dynamic(
    channel: Channel, terminus: Terminus, links: Links, container: str, name: str
) -> tuple[Terminus, str]:
    """Create the dynamic node of a link (§3.5.3); returns its terminus and its queue, "" for a
    topic. It is deleted by its lifetime policy; without one, with the link. Its address contains
    the names of link and container (§3.5.3)."""
    policy = lifetime(terminus)
    hint = recognizable(container, name)
    if frozenset(terminus.capabilities) & TOPIC_CAPABILITIES:
        key = f"amq.dynamic-{secrets.token_urlsafe(16)}{hint}"
        return granted(terminus, f"/exchanges/{TOPICS}/{quote(key, safe='')}"), ""
    made = DeclareQueue(channel.number, None, "", levels=LINK_LEVELS, hint=hint)
    queue = channel.topology.declare_queue(made).name
    links.made(channel.vhost, channel.vhost.queues[queue], policy)
    return granted(terminus, f"/queues/{quote(queue, safe='')}"), queue


def recognizable(*names: str) -> str:
    """Suffix of a generated name: the names of its owner, shortened, without characters that have a
    meaning in topics and addresses or cannot be printed."""
    shown = ("".join(c if c in PLAIN else "_" for c in name[:MOST_SHOWN]) for name in names)
    return "".join(f"_{name}" for name in shown if name)


def reply_source(terminus: Terminus) -> Source:
    """A source for direct replies, as RabbitMQ's clients request it: not a listed queue, and gone
    with its link. Its address is known once it is consumed from."""
    there = granted(terminus, None)
    there.capabilities = (VOLATILE,)
    return Source(there, Node(REPLY_TO), read_filters({}))


def lifetime(terminus: Terminus) -> str:
    """Lifetime policy of a dynamic node (§3.5.10 to §3.5.13); "close" by default. Refuses (503)
    an unknown one."""
    asked = terminus.properties.get("lifetime-policy")
    if asked is None:
        return "close"
    word = asked.descriptor if isinstance(asked, Described) else getattr(asked, "CODE", None)
    policy = POLICIES.get(word)
    if policy is None:
        raise Refusal(Condition.COMMAND_INVALID, f"unknown lifetime policy {str(word)[:60]}")
    return policy

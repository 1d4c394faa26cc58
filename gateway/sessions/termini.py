"""Sources and targets of links as things of the broker: queues, exchanges, subscriptions to
exchanges, and nodes made on demand.

A source over an exchange is a queue bound to it. Its name tells whose it is, so that a durable
subscription is found again after a restart: ``subscription:<user>:<container>:<name>``, without
user and container for one that all containers share (JMS 2.0's shared subscriptions).
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
"""Characters of a name of the peer's in a name of ours."""

VOLATILE = "rabbitmq:volatile-queue"
"""The capability of a dynamic source that is for direct replies (RabbitMQ 4.2)."""


class Source(NamedTuple):
    """A source that is in place, and how to consume from it."""

    terminus: Terminus
    node: Node
    filters: Filters


def granted(terminus: Terminus, address: str | None, filters: Filters | None = None) -> Terminus:
    """What of a terminus is really in place. Unsettled deliveries are kept in memory only, so
    that is not promised beyond the terminus itself (durable 2 becomes 1)."""
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
    """Where the messages of a link go. Refuses with 403, 404 or 405."""
    if terminus.address is None:
        return Attached(granted(terminus, None), place=ByMessage(channel, create, links))
    place = resolve(channel, terminus.address, terminus.capabilities, create)
    there = granted(terminus, terminus.address)
    if place.kind == "management":
        return Attached(there, node="management")
    exchange, key = writable(channel, place)
    # Who publishes to a topic does not ask for listeners; RabbitMQ's own addresses do.
    plain = not terminus.address.startswith("/exchanges/")
    topic = bool(TOPIC_CAPABILITIES & frozenset(terminus.capabilities))
    mandatory = not (exchange and (plain or topic))
    if key is None:
        by_subject = lambda _, subject, __: (exchange, subject or "")  # noqa: E731
        return Attached(there, place=by_subject, mandatory=mandatory)
    transient = not exchange and is_transient(channel, key, links)
    return Attached(there, exchange, key, mandatory=mandatory, transient=transient)


def is_transient(channel: Channel, queue: str, links: Links) -> bool:
    """Whether a queue is gone with the broker though nobody asked for that. One that lives as long
    as a link, a connection or its consumers is not missed after them."""
    found = channel.vhost.queues.get(queue)
    return (
        found is not None
        and not (found.durable or found.auto_delete)
        and found.owner is None
        and found not in links.dynamic
    )


def writable(channel: Channel, place: NodeAddress) -> tuple[str, str | None]:
    """Exchange and key of a place this user may write to."""
    if place.kind == "queue":
        channel.publish_path.find_writable("")
        if place.name not in channel.vhost.replies:
            channel.vhost.queue(place.name, channel.client)
        return "", place.name
    channel.publish_path.find_writable(place.name)
    return place.name, place.key


class ByMessage:
    """Where a message of the anonymous terminus goes, by its ``to``."""

    def __init__(self, channel: Channel, create: bool, links: Links) -> None:
        self._channel = channel
        self._create = create
        self._links = links

    def __call__(self, to: str | None, subject: str | None, durable: bool) -> tuple[str, str]:
        """Refuses (404) what is nowhere, and (406) a durable message for a transient queue."""
        if not to:
            raise Refusal(Condition.PRECONDITION_FAILED, "the message has no 'to'")
        place = resolve(self._channel, to, (), self._create)
        if place.kind == "management":
            raise Refusal(Condition.NOT_ALLOWED, "requests for management need a link of their own")
        if place.kind == "queue":
            if durable and is_transient(self._channel, place.name, self._links):
                raise Refusal(Condition.PRECONDITION_FAILED, NOT_DURABLE)
            return "", place.name
        return place.name, (subject or "") if place.key is None else place.key


# --- sources ------------------------------------------------------------------------------------


def find_source(
    channel: Channel, terminus: Terminus, container: str, name: str, create: bool
) -> Source:
    """What a link receives from, made if need be. Refuses with 403, 404, 405 or 406."""
    filters = read_filters(terminus.filters)
    there = granted(terminus, terminus.address, filters)
    if terminus.address is None:
        return known_subscription(channel, there, container, name, filters)
    place = resolve(channel, terminus.address, terminus.capabilities, create)
    if place.kind == "queue":
        return Source(there, Node(place.name), filters)
    if place.kind == "management":
        raise Refusal(Condition.NOT_ALLOWED, "management is no place for messages")
    node, looks = subscription(channel, place, there, container, name, filters)
    return Source(there, node, filters if looks else filters._replace(matches=None))


def subscription_name(terminus: Terminus, container: str, name: str) -> tuple[str, str]:
    """Whose a subscription is that has a name: a container's, or "" for all; and its name. JMS
    clients number the links of a shared one behind a bar. Refuses (406) a container without a
    name."""
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
    """A source without an address means the subscription that this link had (JMS unsubscribes
    like that)."""
    for who in (container, ""):
        queue = find_name(channel, who, name.partition("|")[0])
        if queue in channel.vhost.queues:
            check_owner(channel, queue, who)
            terminus.address = queue
            terminus.durable, terminus.expiry = 1, NEVER
            return Source(terminus, Node(queue, True, True), filters)
    raise Refusal(Condition.NOT_FOUND, f"no subscription '{name}'")


def subscription(
    channel: Channel,
    place: NodeAddress,
    terminus: Terminus,
    container: str,
    name: str,
    filters: Filters,
) -> tuple[Node, bool]:
    """A queue bound to an exchange for this link: private, or by name if it may outlive its
    connection or is shared. And whether its consumer has to look at what an earlier build left in
    it."""
    durable = terminus.durable > 0 and terminus.expiry == NEVER
    named = durable or bool(SHARED & frozenset(terminus.capabilities))
    channel.vhost.exchange(place.name)
    key = binding_key(channel, place, filters)
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
    bind = Bind(number, None, queue, place.name, key, arguments)
    looks = bind_subscription(channel, bind, durable and may_be_earlier(queue, owner, name))
    return Node(queue, lasting, True), looks


def narrow(channel: Channel, queue: str, filters: Filters) -> None:
    """A subscription that is resumed is to have these conditions, and the exchange and key that it
    has (§2.6.3: a link may ask for other filters when it is attached again)."""
    for old in list(channel.vhost.queues[queue].bindings):
        kept = {name: value for name, value in old.arguments.items() if name not in CONDITIONS}
        arguments = {**kept, **filters.conditions}
        bind = Bind(channel.number, None, queue, old.source.name, old.key, arguments)
        bind_subscription(channel, bind)


def binding_key(channel: Channel, place: NodeAddress, filters: Filters) -> str:
    """From the filter, the address, or else everything that the exchange has."""
    if filters.key is not None:
        return filters.key
    if place.key:
        return place.key
    kind = channel.vhost.exchange(place.name).type
    if kind == "direct" and filters.headers is None:
        raise Refusal(
            Condition.PRECONDITION_FAILED,
            f"a subscription to the direct exchange '{place.name}' needs a key",
        )
    return "#" if kind == "topic" else ""


# --- dynamic nodes ------------------------------------------------------------------------------


def make_dynamic(
    channel: Channel, terminus: Terminus, links: Links, container: str, name: str
) -> tuple[Terminus, str]:
    """A node of its own for a link (§3.5.3 dynamic), and the queue behind it. It is deleted when
    its lifetime policy says so; without one, with the link. Its address tells link and container
    (§3.5.3)."""
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
    """What a generated name tells of who it was generated for: each name as far as there is room,
    without what means something in topics and addresses, or cannot be shown."""
    shown = ("".join(c if c in PLAIN else "_" for c in name[:MOST_SHOWN]) for name in names)
    return "".join(f"_{name}" for name in shown if name)


def reply_source(terminus: Terminus) -> Source:
    """A place for direct replies, as RabbitMQ's clients ask for it: no queue that anybody could
    list, gone with its link. Its address is known when it is consumed from."""
    there = granted(terminus, None)
    there.capabilities = (VOLATILE,)
    return Source(there, Node(REPLY_TO), read_filters({}))


def lifetime(terminus: Terminus) -> str:
    """Refuses a policy that the specification does not know."""
    asked = terminus.properties.get("lifetime-policy")
    if asked is None:
        return "close"
    word = asked.descriptor if isinstance(asked, Described) else getattr(asked, "CODE", None)
    policy = POLICIES.get(word)
    if policy is None:
        raise Refusal(Condition.COMMAND_INVALID, f"unknown lifetime policy {str(word)[:60]}")
    return policy

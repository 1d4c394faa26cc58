"""Names and owners of subscriptions that outlive their connections.

The queue of a subscription is named after its user, the container (1.0) or client (0.8a2), and the
subscription. The peer chooses the last two, and other peers may choose the same; the user keeps
them apart, so that no user can take the name of another's subscription. Subscriptions of earlier
builds, whose names lack the user, are found by the user who made them, which their queue records.
Users with the permission to read any queue can still consume from this one by its own name. Queues
without a recorded owner (declared beforehand, or shared by all containers) are open to all users
with permission.
"""

from gateway.broker.channel import Channel
from gateway.broker.exchanges import CONDITIONS, REGEXP, Binding
from gateway.broker.queues import Queue
from gateway.errors import Condition, Refusal
from gateway.message import Table
from gateway.operations import Bind, CancelTopic, PurgeTopic
from gateway.sessions.addresses import TOPICS

PREFIX = "subscription:"
VOLATILE = "volatile-subscription:"
"""For shared subscriptions that are not durable: one of each kind may have the same name (JMS 2.0
§8.3)."""
PREFIXES = PREFIX, VOLATILE
USER = "x-subscription-user"
CLIENT = "x-subscription-client"


def name_of(user: str, client: str, name: str, durable: bool = True) -> str:
    """Name of the queue. ``client`` is "" for a subscription that all clients share. User and
    client are escaped, so that different pairs of them have different names."""
    whose = f"{escaped(user)}:{escaped(client)}" if client else ""
    return f"{PREFIX if durable else VOLATILE}{whose}:{name}"


def escaped(part: str) -> str:
    """Escape colons, which separate the parts of a name."""
    return part.replace("%", "%25").replace(":", "%3A")


def earlier_name(client: str, name: str, durable: bool) -> str:
    """Name of the queue in earlier builds, without the user."""
    return f"{PREFIX if durable else VOLATILE}{client}:{name}"


def find_name(channel: Channel, client: str, name: str, durable: bool = True) -> str:
    """Name of the queue of this user's subscription, whether it exists or not."""
    queues, user = channel.vhost.queues, channel.client.user
    wanted = name_of(user, client, name, durable)
    if wanted in queues or not client:
        return wanted
    earlier = queues.get(earlier_name(client, name, durable))
    if earlier is not None and owner_of(earlier) in ((None, None), (user, client)):
        return earlier.name
    return wanted


def may_be_earlier(queue: str, client: str, name: str) -> bool:
    """Whether an earlier build may have created this durable subscription. Subscriptions that all
    containers share have the same name in every build."""
    return queue == earlier_name(client, name, True)


def ownership(channel: Channel, client: str) -> Table:
    """Arguments of the queue that record its owner."""
    return {USER: channel.client.user, CLIENT: client} if client else {}


def owner_of(queue: Queue) -> tuple[object, object]:
    return queue.arguments.get(USER), queue.arguments.get(CLIENT)


def check_owner(channel: Channel, queue: str, client: str) -> None:
    """Refuses (403) the subscription of another owner: a user with the permission to configure any
    queue can have declared one of this name."""
    found = channel.vhost.queues.get(queue)
    if found is None:
        return
    owner = owner_of(found)
    if owner != (None, None) and owner != (channel.client.user if client else None, client or None):
        title = channel.vhost.title("queue", queue)
        raise Refusal(Condition.ACCESS_REFUSED, f"{title} is another's subscription")


def bind_subscription(channel: Channel, wanted: Bind, earlier: bool = False) -> bool:
    """Make this the only binding of a subscription's queue. Another topic or condition begins a new
    subscription (JMS 2.0 §8.3.3: as unsubscribing and subscribing again), so the messages in the
    queue are dropped. Refuses (405) that while another client receives from it. A queue that cannot
    be bound at all is deleted.

    ``earlier``: a build may have made it that left conditions to the consumer and kept no record of
    them. Then a condition where there was none is no change, and waiting messages stay. True if the
    condition may exclude some of them, so that the consumer has to filter."""
    if channel.topology.answers is not None:
        if not CONDITIONS.isdisjoint(wanted.arguments):
            text = "subscriptions at an upstream have no filters"
            raise Refusal(Condition.NOT_IMPLEMENTED, text)
        channel.topology.bind(wanted)
        return False
    queues = channel.vhost.queues
    try:
        binding = channel.topology.binding(wanted, *channel.topology.ends(wanted))
        found = queues[wanted.destination]
        bindings = channel.vhost.bindings_to(found)
        others = [other for other in bindings if other != binding]
        changed = bool(others) and binding not in bindings
        if changed and found.consumers:
            title = channel.vhost.title("queue", found.name)
            text = f"{title} is in use as a subscription to something else"
            raise Refusal(Condition.RESOURCE_LOCKED, text)
        channel.vhost.add_binding(binding)
    except Refusal:
        unbound = queues.get(wanted.destination)
        if unbound is not None and not channel.vhost.bindings_to(unbound) and not unbound.consumers:
            channel.vhost.remove_queue(unbound)
        raise
    if changed and not (earlier and all(moves_condition(other, binding) for other in others)):
        found.purge()
    for other in others:
        channel.vhost.remove_binding(other)
    conditional = not CONDITIONS.isdisjoint(binding.arguments)
    return earlier and conditional and bool(found.depth or found.unsettled)


def moves_condition(old: Binding, new: Binding) -> bool:
    """Whether the new binding adds a condition to the old one, which had none."""
    bare = {name: value for name, value in new.arguments.items() if name not in CONDITIONS}
    return old == Binding(new.source, new.destination, new.key, bare) != new


def subscriptions_to(channel: Channel, key: str) -> tuple[list[Queue], bool]:
    """Subscriptions to exactly this topic that this client may end, and whether there are any at
    all. A client may not end those of other users, nor private ones of other connections."""
    if "*" in key or "#" in key:
        return [], False
    found: list[Queue] = []
    others = False
    for binding in channel.vhost.exchange(TOPICS).bindings:
        queue = binding.destination
        if binding.key != key or not isinstance(queue, Queue) or REGEXP in binding.arguments:
            continue
        if binding.severed:
            continue
        if not queue.name.startswith(PREFIX) or any(
            b.key != key for b in channel.vhost.bindings_to(queue)
        ):
            continue
        owners = (None, channel.client.user)
        mine = queue.owner in (None, channel.client) and queue.arguments.get(USER) in owners
        if mine and queue not in found:
            found.append(queue)
        others = others or not mine
    return found, others or bool(found)


def purge_topic(channel: Channel, op: PurgeTopic) -> int:
    found, _ = subscriptions_to(channel, op.key)
    for queue in found:
        channel.permissions.need("read", "queue", queue.name)
    return sum(queue.purge() for queue in found)


def cancel_topic(channel: Channel, op: CancelTopic) -> int:
    found, some = subscriptions_to(channel, op.key)
    if op.if_empty and some:
        raise Refusal(Condition.PRECONDITION_FAILED, f"topic '{op.key}' has subscriptions")
    for queue in found:
        channel.permissions.need("configure", "queue", queue.name)
    return sum(channel.vhost.remove_queue(queue) for queue in found)

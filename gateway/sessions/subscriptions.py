"""Whose a subscription is that has a name and outlives its connection.

Its queue is found by a name that its peer chooses: the container's (1.0) or client's (0.8a2), and
the subscription's. Anybody may call himself the same, so the queue remembers who made it, and none
else resumes or ends it. Who may read any queue can still consume from this one by its own name:
that is for permissions to say. Queues that do not tell (declared beforehand, or shared by all
containers) belong to whom permissions let in.
"""

from gateway.broker.channel import Channel
from gateway.broker.exchanges import REGEXP
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


def name_of(client: str, name: str, durable: bool = True) -> str:
    """The queue. ``client`` is "" if the subscription is everybody's."""
    return f"{PREFIX if durable else VOLATILE}{client}:{name}"


def ownership(channel: Channel, client: str) -> Table:
    """Arguments of the queue: it is this user's."""
    return {USER: channel.client.user, CLIENT: client} if client else {}


def check_owner(channel: Channel, queue: str, client: str) -> None:
    """Refuses (403) a subscription that is another's. Names may contain what divides them, so the
    client is compared too."""
    found = channel.vhost.queues.get(queue)
    if found is None:
        return
    owner = found.arguments.get(USER), found.arguments.get(CLIENT)
    if owner != (None, None) and owner != (channel.client.user if client else None, client or None):
        what = channel.vhost.title("queue", queue)
        raise Refusal(Condition.ACCESS_REFUSED, f"{what} is another's subscription")


def bind_subscription(channel: Channel, wanted: Bind) -> None:
    """Bind the queue of a subscription so and not otherwise: who comes back and asks for another
    topic or condition begins anew (JMS 2.0 §8.3.3: as unsubscribing and subscribing again), so what
    waits there is dropped. Refuses (405) that while somebody else is receiving from it. A queue
    that cannot be bound at all does not stay."""
    queues = channel.vhost.queues
    try:
        binding = channel.binding(wanted, *channel.ends(wanted))
        found = queues[wanted.destination]
        others = [other for other in found.bindings if other != binding]
        changed = bool(others) and binding not in found.bindings
        if changed and found.consumers:
            what = channel.vhost.title("queue", found.name)
            text = f"{what} is in use as a subscription to something else"
            raise Refusal(Condition.RESOURCE_LOCKED, text)
        channel.vhost.add_binding(binding)
    except Refusal:
        unbound = queues.get(wanted.destination)
        if unbound is not None and not unbound.bindings and not unbound.consumers:
            channel.vhost.remove_queue(unbound)
        raise
    if changed:
        found.purge()
    for other in others:
        channel.vhost.remove_binding(other)


def subscriptions_to(channel: Channel, key: str) -> tuple[list[Queue], bool]:
    """The subscriptions that are made on this topic alone, as far as this client may have to do
    with them; and whether there are any at all. Those of other users, and private ones of other
    connections, are not this client's to end."""
    if "*" in key or "#" in key:
        return [], False
    found: list[Queue] = []
    others = False
    for binding in channel.vhost.exchange(TOPICS).bindings:
        queue = binding.destination
        if binding.key != key or not isinstance(queue, Queue) or REGEXP in binding.arguments:
            continue
        if not queue.name.startswith(PREFIX) or any(b.key != key for b in queue.bindings):
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
        channel.need("read", "queue", queue.name)
    return sum(queue.purge() for queue in found)


def cancel_topic(channel: Channel, op: CancelTopic) -> int:
    found, some = subscriptions_to(channel, op.key)
    if op.if_empty and some:
        raise Refusal(Condition.PRECONDITION_FAILED, f"topic '{op.key}' has subscriptions")
    for queue in found:
        channel.need("configure", "queue", queue.name)
    return sum(channel.vhost.remove_queue(queue) for queue in found)

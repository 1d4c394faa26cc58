"""Whose a subscription is that has a name and outlives its connection.

Its queue is found by a name that its peer chooses: the container's (1.0) or client's (0.8a2), and
the subscription's. Anybody may call himself the same, so the queue remembers who made it, and none
else resumes or ends it. Who may read any queue can still consume from this one by its own name:
that is for permissions to say. Queues that do not tell (declared beforehand, or shared by all
containers) belong to whom permissions let in.
"""

from gateway.broker.channel import Channel
from gateway.errors import Condition, Refusal
from gateway.message import Table

PREFIX = "subscription:"
USER = "x-subscription-user"
CLIENT = "x-subscription-client"


def name_of(client: str, name: str) -> str:
    """The queue. ``client`` is "" if the subscription is everybody's."""
    return f"{PREFIX}{client}:{name}"


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

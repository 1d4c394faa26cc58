"""Addresses of sources and targets, and their nodes on the broker (1.0 leaves them to the
container).

Written in RabbitMQ 4's form (``/queues/q``, ``/exchanges/x``, ``/exchanges/x/k``, each name
percent-encoded), in RabbitMQ 3's (``/queue/q``, ``/amq/queue/q``, ``/exchange/x/k``, ``/topic/k``),
or plainly, as Qpid and Artemis do: a queue of that name, else an exchange, else ``exchange/key``.
"""

from collections.abc import Iterable
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

from gateway.broker.channel import Channel
from gateway.errors import Condition, Refusal
from gateway.operations import LINK_LEVELS, DeclareQueue

TOPICS = "amq.topic"
"""Exchange of topics that are not exchanges themselves."""

TOPIC_CAPABILITIES = frozenset(["topic", "temporary-topic"])
QUEUE_CAPABILITIES = frozenset(["queue", "temporary-queue"])

MOST_OCTETS = 2048


class NodeAddress(NamedTuple):
    """A parsed address. ``kind`` is "queue", "exchange", "management" or "plain". If ``key`` is
    ``None``, the message (its subject) or the filter supplies it."""

    kind: str
    name: str = ""
    key: str | None = None


MANAGEMENT = NodeAddress("management")


def bad(address: str, why: str) -> Refusal:
    return Refusal(Condition.COMMAND_INVALID, f"address '{address[:200]}' {why}")


def read_address(address: str) -> NodeAddress:
    """Parse an address, without a look at the broker. Refuses (503) invalid ones."""
    if len(address) > MOST_OCTETS:
        raise bad(address, f"is longer than {MOST_OCTETS} characters")
    if address == "/management":
        return MANAGEMENT
    for scheme, kind in (("queue://", "queue"), ("topic://", "topic")):
        if address.startswith(scheme):
            name = address[len(scheme) :]
            if kind == "queue":
                return NodeAddress("queue", name)
            return NodeAddress("exchange", TOPICS, name)
    if not address.startswith("/"):
        return NodeAddress("plain", address)
    head, *names = address[1:].split("/")
    if head == "queues" and len(names) == 1:
        return NodeAddress("queue", decoded(address, names[0]))
    if head == "exchanges" and len(names) in (1, 2):
        key = decoded(address, names[1]) if len(names) == 2 else ""
        return NodeAddress("exchange", decoded(address, names[0]), key)
    rest = address[1:].partition("/")[2]
    if head == "queue" and rest:
        return NodeAddress("queue", rest)
    if head == "amq" and rest.startswith("queue/"):
        return NodeAddress("queue", rest.removeprefix("queue/"))
    if head == "exchange" and rest:
        name, slash, key = rest.partition("/")
        return NodeAddress("exchange", name, key if slash else None)
    if head == "topic" and rest:
        return NodeAddress("exchange", TOPICS, rest)
    raise bad(address, "is not in a form that is known here")


def decoded(address: str, text: str) -> str:
    """The percent-decoded name. Refuses (503) an empty name and invalid UTF-8."""
    try:
        name = unquote_to_bytes(text).decode()
    except UnicodeDecodeError:
        raise bad(address, "is not percent-encoded UTF-8") from None
    if not name:
        raise bad(address, "names nothing")
    return name


def resolve(
    channel: Channel, address: str, capabilities: Iterable[str] = (), create: bool = False
) -> NodeAddress:
    """Parse an address and find its node on this virtual host. A plain name without a node becomes
    a topic if the ``capabilities`` request one, or a durable queue if ``create`` allows that.
    Refuses (404) otherwise."""
    found = read_address(address)
    if found.kind != "plain":
        return found
    vhost, name = channel.vhost, found.name
    wanted = frozenset(capabilities)
    if vhost.is_reply(name):
        return NodeAddress("queue", name)
    if name in vhost.queues and not wanted & TOPIC_CAPABILITIES:
        return NodeAddress("queue", name)
    if name and name in vhost.exchanges:
        return NodeAddress("exchange", name)
    exchange, slash, key = name.partition("/")
    if slash and exchange in vhost.exchanges and not wanted & QUEUE_CAPABILITIES:
        return NodeAddress("exchange", exchange, key)
    if wanted & TOPIC_CAPABILITIES:
        return NodeAddress("exchange", TOPICS, name)
    if not create or not name:
        raise Refusal(Condition.NOT_FOUND, f"no queue or exchange '{name}'")
    made = DeclareQueue(channel.number, None, name, durable=True, levels=LINK_LEVELS)
    channel.topology.declare_queue(made)
    return NodeAddress("queue", name)

"""Numbers for health, metrics and console. Counters only ever grow; rates are the reader's."""

from typing import NamedTuple

from gateway.broker.limits import NO_POLICY, AppliedPolicy
from gateway.message import Table


class Totals(NamedTuple):
    """Messages since the start. ``unrouted``: routed to no queue."""

    published: int = 0
    delivered: int = 0
    acked: int = 0
    redelivered: int = 0
    unrouted: int = 0

    def plus(self, other: "Totals") -> "Totals":
        return Totals(*(one + more for one, more in zip(self, other, strict=True)))


class QueueSnapshot(NamedTuple):
    """One queue. ``octets`` is of ready bodies; ``paged`` of ``ready`` are only in the store.
    ``levels`` of priority that it was made with, 0 if an argument says how many or there are none;
    ``priority_levels``: how many there are, 1 if the queue is in order of arrival."""

    vhost: str
    name: str
    durable: bool
    exclusive: bool
    auto_delete: bool
    arguments: Table
    ready: int
    unsettled: int
    octets: int
    paged: int
    consumers: int
    published: int
    delivered: int
    acked: int
    redelivered: int
    levels: int
    priority_levels: int
    policy: AppliedPolicy = NO_POLICY


class ConsumerSnapshot(NamedTuple):
    vhost: str
    queue: str
    tag: str
    client: str
    no_ack: bool
    exclusive: bool
    priority: int
    prefetch: int
    held: int
    active: bool


class ExchangeSnapshot(NamedTuple):
    vhost: str
    name: str
    type: str
    durable: bool
    auto_delete: bool
    internal: bool
    arguments: Table
    bindings: int
    policy: AppliedPolicy = NO_POLICY


class BindingSnapshot(NamedTuple):
    vhost: str
    source: str
    destination: str
    to_exchange: bool
    key: str
    arguments: Table


class BranchSnapshot(NamedTuple):
    """A branch of a distributed transaction that is prepared, or was decided by hand: ``state`` is
    "prepared", "committed" or "rolled-back". ``since``: wall clock ms of its preparation."""

    vhost: str
    branch: str
    user: str
    state: str
    since: int
    publishes: int
    settlements: int


class VhostSnapshot(NamedTuple):
    name: str
    queues: int
    exchanges: int
    consumers: int
    clients: int
    ready: int
    unsettled: int
    totals: Totals


class BrokerSnapshot(NamedTuple):
    """The whole broker. ``octets`` are those of bodies and headers in memory."""

    vhosts: list[VhostSnapshot]
    clients: int
    channels: int
    queues: int
    exchanges: int
    consumers: int
    ready: int
    unsettled: int
    octets: int
    totals: Totals
    blocked: str | None

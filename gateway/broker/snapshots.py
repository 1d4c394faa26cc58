"""How queues, consumers and virtual hosts look from outside, in plain values."""

from collections.abc import Generator

from gateway.broker.counters import (
    ConsumerSnapshot,
    ExchangeSnapshot,
    QueueSnapshot,
    Totals,
    VhostSnapshot,
)
from gateway.broker.exchanges import Exchange
from gateway.broker.queues import Queue
from gateway.broker.vhost import VirtualHost, queue_totals


def queue_snapshot(queue: Queue) -> QueueSnapshot:
    return QueueSnapshot(
        vhost=queue.vhost.name,
        name=queue.name,
        durable=queue.durable,
        exclusive=queue.owner is not None,
        auto_delete=queue.auto_delete,
        arguments=dict(queue.arguments),
        ready=queue.depth,
        unsettled=queue.unsettled,
        octets=queue.backlog.octets,
        paged=sum(lane.paged for lane in queue.backlog.lanes),
        consumers=len(queue.consumers),
        published=queue.published + queue.passed,
        delivered=queue.delivered + queue.passed,
        acked=queue.acked + queue.passed,
        redelivered=queue.redelivered,
        levels=queue.backlog.levels,
        priority_levels=queue.backlog.levels or (queue.limits.max_priority or 0) + 1,
        policy=queue.policy,
    )


def consumer_snapshots(queue: Queue) -> list[ConsumerSnapshot]:
    return [
        ConsumerSnapshot(
            vhost=queue.vhost.name,
            queue=queue.name,
            tag=consumer.tag,
            client=getattr(consumer.origin, "name", ""),
            no_ack=consumer.no_ack,
            exclusive=consumer.exclusive,
            priority=consumer.priority,
            prefetch=consumer.limit,
            held=consumer.held,
            active=queue.dispatcher.active in (None, consumer),
        )
        for consumer in queue.consumers
    ]


def exchange_snapshot(vhost: str, exchange: Exchange) -> ExchangeSnapshot:
    return ExchangeSnapshot(
        vhost,
        exchange.name,
        exchange.type,
        exchange.durable,
        exchange.auto_delete,
        exchange.internal,
        dict(exchange.arguments),
        len(exchange.bindings),
        exchange.policy,
    )


class VhostCount:
    """Adds up the queues that a virtual host has when it is made, so that a long sum can be made in
    steps: each queue is counted once, also when it goes meanwhile."""

    def __init__(self, vhost: VirtualHost) -> None:
        self.vhost = vhost
        self.queues = list(vhost.queues.values())
        self.replies = list(vhost.replies.values())
        self.before = vhost.past.plus(Totals(unrouted=vhost.unrouted))

    def steps(self) -> Generator[None, None, VhostSnapshot]:
        """A step for each queue."""
        vhost, before = self.vhost, self.before
        consumers = ready = unsettled = published = delivered = acked = redelivered = 0
        for queue in self.queues:
            if not queue.gone:
                consumers += len(queue.consumers)
                ready += queue.depth
                unsettled += queue.unsettled
            passed = queue.passed
            published += queue.published + passed
            delivered += queue.delivered + passed
            acked += queue.acked + passed
            redelivered += queue.redelivered
            yield
        totals = before.plus(Totals(published, delivered, acked, redelivered))
        for queue in self.replies:
            totals = totals.plus(queue_totals(queue))
            yield
        return VhostSnapshot(
            name=vhost.name,
            queues=len(vhost.queues),
            exchanges=len(vhost.exchanges),
            consumers=consumers,
            clients=len(vhost.clients),
            ready=ready,
            unsettled=unsettled,
            totals=totals,
        )

"""How queues, consumers and virtual hosts look from outside, in plain values."""

from collections.abc import Iterable

from gateway.broker.counters import (
    ConsumerSnapshot,
    ExchangeSnapshot,
    QueueSnapshot,
    VhostSnapshot,
)
from gateway.broker.exchanges import Exchange
from gateway.broker.queues import Queue
from gateway.broker.vhost import VirtualHost


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
        octets=queue.octets,
        paged=sum(lane.paged for lane in queue.lanes),
        consumers=len(queue.consumers),
        published=queue.published + queue.passed,
        delivered=queue.delivered + queue.passed,
        acked=queue.acked + queue.passed,
        redelivered=queue.redelivered,
        levels=queue.levels,
        priority_levels=queue.levels or (queue.limits.max_priority or 0) + 1,
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
    )


def vhost_snapshot(vhost: VirtualHost) -> VhostSnapshot:
    queues: Iterable[Queue] = vhost.queues.values()
    return VhostSnapshot(
        name=vhost.name,
        queues=len(vhost.queues),
        exchanges=len(vhost.exchanges),
        consumers=sum(len(queue.consumers) for queue in queues),
        clients=len(vhost.clients),
        ready=sum(queue.depth for queue in queues),
        unsettled=sum(queue.unsettled for queue in queues),
        totals=vhost.totals(),
    )

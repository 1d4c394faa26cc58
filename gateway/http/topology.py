"""What there is: queues of a virtual host, and the connections of the gateway."""

import time

from fastapi import APIRouter

from gateway.http.deps import DoorsIn, Monitor, ReadableVHost
from gateway.http.rates import RatesIn
from gateway.http.schemas import ConnectionList, ConnectionView, QueueList, QueueView

router = APIRouter(prefix="/v1", tags=["topology"])


@router.get("/connections", summary="All AMQP connections")
async def list_connections(doors: DoorsIn, user: Monitor) -> ConnectionList:
    """Version, client product and user of every AMQP connection. Needs a user with the tag
    `administrator` or `monitoring`."""
    connections = [ConnectionView(**one._asdict()) for one in doors.connections()]
    return ConnectionList(connections=connections)


@router.get("/{vhost}/queues", summary="Queues with depth and rates")
async def list_queues(doors: DoorsIn, vhost: ReadableVHost, rates: RatesIn) -> QueueList:
    """All queues of a virtual host, by name, for users who have any permission there."""
    snapshots = doors.broker.queues_snapshot()
    rates.sample(time.monotonic(), snapshots)
    queues = []
    for queue in snapshots:
        if queue.vhost != vhost:
            continue
        rate = rates.of(queue)
        queues.append(
            QueueView(
                name=queue.name,
                messages=queue.ready + queue.unsettled,
                ready=queue.ready,
                unacknowledged=queue.unsettled,
                consumers=queue.consumers,
                durable=queue.durable,
                exclusive=queue.exclusive,
                auto_delete=queue.auto_delete,
                publish_rate=rate.published,
                deliver_rate=rate.delivered,
            )
        )
    queues.sort(key=lambda one: one.name)
    return QueueList(queues=queues)

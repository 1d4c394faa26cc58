"""The queues of a virtual host, and the connections of the gateway."""

from typing import Any

from fastapi import APIRouter, Response

from gateway.broker.counters import QueueSnapshot
from gateway.http.injected import DependenciesIn, Monitor, RatesIn, ReadableVHost
from gateway.http.portions import Portioned, array
from gateway.http.rates import Rates
from gateway.http.schemas import ConnectionList, ConnectionView, QueueList, QueueView

router = APIRouter(prefix="/v1", tags=["topology"])


@router.get(
    "/connections",
    operation_id="list_connections",
    summary="All AMQP connections",
    response_model=ConnectionList,
)
async def list_connections(dependencies: DependenciesIn, user: Monitor) -> Response:
    """Version, client product and user of every AMQP connection. Needs a user with the tag
    `administrator` or `monitoring`."""
    shown = (
        ConnectionView(**one._asdict()).model_dump_json() for one in dependencies.connections()
    )
    return Portioned(array((one.encode() for one in shown), b'{"connections":[', b"]}"))


QUEUE_EXAMPLE = QueueView(
    name="orders", messages=2, ready=1, unacknowledged=1, consumers=1, durable=True,
    exclusive=False, auto_delete=False, publish_rate=1.5, deliver_rate=1.0,
)  # fmt: skip
LISTED: dict[int | str, dict[str, Any]] = {
    200: {"content": {"application/json": {"example": {"queues": [QUEUE_EXAMPLE.model_dump()]}}}}
}


@router.get(
    "/{vhost}/queues",
    operation_id="list_queues",
    summary="Queues with depth and rates",
    response_model=QueueList,
    responses=LISTED,
)
async def list_queues(
    dependencies: DependenciesIn, vhost: ReadableVHost, rates: RatesIn
) -> Response:
    """All queues of a virtual host, by name, for users with any permission in it."""
    await rates.look(dependencies.broker)
    shown = (show_queue(one, rates) for one in dependencies.broker.each_queue(vhost))
    return Portioned(array(shown, b'{"queues":[', b"]}"))


def show_queue(queue: QueueSnapshot, rates: Rates) -> bytes:
    rate = rates.of(queue)
    view = QueueView(
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
    return view.model_dump_json().encode()

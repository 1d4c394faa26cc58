"""``/livez``, ``/readyz``, ``/startupz`` and the metrics: for orchestrators, without credentials
but for the last: metrics name virtual hosts and queues, so peers elsewhere authenticate."""

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from gateway.http import probes
from gateway.http.context import Context
from gateway.http.injected import ContextIn, get_monitor
from gateway.http.metrics import CONTENT_TYPE
from gateway.http.portions import Portioned
from gateway.http.queue_metrics import MOST, chosen_queues, exposition
from gateway.http.request_parameters import authenticate, existing_vhost
from gateway.http.schemas import Health
from gateway.net.loopback import peer_is_loopback

router = APIRouter(tags=["operation"])


@router.get(
    "/livez",
    operation_id="check_liveness",
    summary="Liveness of the process",
    response_model=Health,
)
async def live(context: ContextIn) -> Response:
    return await probes.live(context)


NOT_YET: dict[int | str, dict[str, Any]] = {
    503: {"model": Health, "description": "not ready; `checks` says why"}
}


@router.get(
    "/readyz",
    operation_id="check_readiness",
    summary="Readiness to publish",
    response_model=Health,
    responses=NOT_YET,
)
async def ready(
    context: ContextIn,
    canary: Annotated[
        bool, Query(description="publish a new canary message instead of using a recent result")
    ] = False,
) -> Response:
    """Listeners are up, the store writes, publishers are not paused, and a canary message has just
    passed through the broker to the disk in time. Open connections and streams continue while the
    gateway is not ready."""
    return await probes.ready(context, canary)


@router.get(
    "/startupz",
    operation_id="check_startup",
    summary="Whether publishing has succeeded since the start",
    response_model=Health,
    responses=NOT_YET,
)
async def started(context: ContextIn) -> Response:
    return await probes.started(context)


EXPOSITION: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "Prometheus' text format",
        "content": {CONTENT_TYPE.partition(";")[0]: {"schema": {"type": "string"}}},
    }
}


async def admit(request: Request, context: Context) -> None:
    """Refuse readers of metrics from other machines who may not monitor. Raises ``Problem``."""
    if not peer_is_loopback(request.scope):
        get_monitor(context.dependencies, await authenticate(context, request.scope))


@router.get(
    "/metrics",
    operation_id="show_metrics",
    summary="Counters for Prometheus",
    response_class=Response,
    responses=EXPOSITION,
)
async def metrics(request: Request, context: ContextIn) -> Response:
    """From the same machine without credentials, from others as a user with the tag
    `administrator` or `monitoring`."""
    await admit(request, context)
    return Response(await request.app.state.metrics.exposition(), media_type=CONTENT_TYPE)


@router.get(
    "/metrics/queues",
    operation_id="show_queue_metrics",
    summary="Figures of single queues for Prometheus",
    response_class=Response,
    responses=EXPOSITION,
)
async def queue_metrics(
    request: Request,
    context: ContextIn,
    vhost: Annotated[
        str | None, Query(description="virtual host; all if it is not given", examples=["/"])
    ] = None,
    name: Annotated[
        str, Query(description="pattern of names, `*` is any text", examples=["orders*"])
    ] = "*",
    limit: Annotated[
        int, Query(ge=1, le=MOST, description="queues at most, the first by name")
    ] = 1000,
) -> Response:
    """To whom `/metrics` is shown. `amqp_gateway_queues_left_out` says how many more fit than
    `limit`. Queues of the gateway's own are left out unless `name` begins with `amq.`."""
    await admit(request, context)
    if vhost is not None:
        existing_vhost(context.broker, vhost)
    queues, others = await chosen_queues(context.broker, vhost, name, limit)
    return Portioned(exposition(queues, others), media_type=CONTENT_TYPE)

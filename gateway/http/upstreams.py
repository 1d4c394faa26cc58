"""Requests over HTTP to a facade: the nodes that they name are looked up at the upstream first."""

from starlette.types import Scope

from gateway.bridge.waiting import Turn, know
from gateway.broker.broker import Broker
from gateway.http.path_segments import decode_segment


async def know_path(broker: Broker, turn: Turn, scope: Scope) -> None:
    """Look the queue and the exchange up that the path of a request names."""
    path = scope.get("path_params") or {}
    if "vhost" not in path:
        return
    vhost = decode_segment(path["vhost"])
    for kind in ("queue", "exchange"):
        if kind in path:
            await know(broker, turn, vhost, kind, decode_segment(path[kind]))

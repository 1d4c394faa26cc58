"""The routes of receiving."""

from typing import Any

from starlette.routing import BaseRoute

from gateway.http.context import Context
from gateway.http.description import Described
from gateway.http.receive import openapi as described
from gateway.http.receive.browsing import BrowseEndpoints
from gateway.http.receive.deliveries import DeliveriesEndpoint
from gateway.http.receive.metrics import ReceiveMetrics
from gateway.http.receive.receiver import Receiver
from gateway.http.receive.redrive import RedriveEndpoints
from gateway.http.receive.request_reply import PendingRequests, RequestReplyEndpoint
from gateway.http.receive.requests import Modify, Reject, Release, Renew
from gateway.http.receive.settlements import SettlementEndpoints

QUEUE = "/v1/{vhost}/queues/{queue}"
TOKENS = "/v1/{vhost}/deliveries"
SETTLE = TOKENS + "/settle"
LETTERS = "/v1/{vhost}/dead-letters/{queue}"


def routes(context: Context) -> list[BaseRoute]:
    receiver = Receiver(context)
    settlements, browsing = SettlementEndpoints(receiver), BrowseEndpoints(receiver)
    redriving, calls = RedriveEndpoints(receiver), PendingRequests(receiver)
    context.collectors.append(ReceiveMetrics(receiver, redriving, calls))

    async def close() -> None:
        await receiver.close()
        with context.dependencies.turn():
            calls.close()

    context.closers.append(close)
    settle = settlements.endpoint
    one = TOKENS + "/{token}"
    endpoints: list[tuple[str, str, Any]] = [
        ("POST", f"{QUEUE}/deliveries", DeliveriesEndpoint(receiver)),
        ("GET", f"{QUEUE}/messages", browsing.on_browse),
        ("POST", SETTLE, settlements.on_settle),
        ("GET", one, settlements.on_inspect),
        ("DELETE", one, settle(settlements.accept)),
        ("PATCH", one, settle(settlements.renew, Renew)),
        ("POST", f"{one}/release", settle(settlements.release, Release)),
        ("POST", f"{one}/reject", settle(settlements.reject, Reject)),
        ("POST", f"{one}/modify", settle(settlements.modify, Modify)),
        ("GET", LETTERS, browsing.on_letters),
        ("DELETE", LETTERS, redriving.on_purge),
        ("POST", f"{LETTERS}/redrive", redriving.on_redrive),
        ("POST", "/v1/{vhost}/requests", RequestReplyEndpoint(receiver, calls, context.operations)),
    ]
    return [
        Described(
            path,
            endpoint,
            # Without methods the endpoint itself says 405, or "settle" would be a token.
            methods=[] if path == SETTLE else [method],
            operations={method.lower(): described.OPERATIONS[method, path]},
            models=described.MODELS,
        )
        for method, path, endpoint in endpoints
    ]

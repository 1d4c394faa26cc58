"""The routes of receiving."""

from collections.abc import Awaitable, Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute
from starlette.types import Receive, Scope, Send

from gateway.http import problems
from gateway.http.context import Context
from gateway.http.description import Described
from gateway.http.problems import Problem
from gateway.http.receive import described
from gateway.http.receive.browsing import Browsing
from gateway.http.receive.calling import Calls, RequestsEndpoint
from gateway.http.receive.deliveries import DeliveriesEndpoint
from gateway.http.receive.figures import Figures
from gateway.http.receive.receiver import Receiver
from gateway.http.receive.redriving import Redriving
from gateway.http.receive.settling import Settlements

QUEUE = "/v1/{vhost}/queues/{queue}"
TOKENS = "/v1/{vhost}/deliveries"
SETTLE = TOKENS + "/settle"
LETTERS = "/v1/{vhost}/dead-letters/{queue}"


Handler = Callable[[Request], Awaitable[Response]]


def routes(context: Context) -> list[BaseRoute]:
    receiver = Receiver(context)
    settlements, looking = Settlements(receiver), Browsing(receiver)
    redriving, calls = Redriving(receiver), Calls(receiver)
    context.counters.registry.register(Figures(receiver, redriving, calls))

    async def close() -> None:
        await receiver.close()
        context.dependencies.begin_turn()
        calls.close()
        context.dependencies.end_turn()

    context.closers.append(close)
    one = TOKENS + "/{token}"
    table: list[tuple[str, dict[str, Any]]] = [
        (f"{QUEUE}/deliveries", {"POST": DeliveriesEndpoint(receiver)}),
        (f"{QUEUE}/messages", {"GET": looking.on_browse}),
        (SETTLE, {"POST": Posted(settlements.on_settle)}),
        (
            one,
            {
                "GET": settlements.on_inspect,
                "DELETE": settlements.on_accept,
                "PATCH": settlements.on_renew,
            },
        ),
        (f"{one}/release", {"POST": settlements.on_release}),
        (f"{one}/reject", {"POST": settlements.on_reject}),
        (f"{one}/modify", {"POST": settlements.on_modify}),
        (LETTERS, {"GET": looking.on_letters, "DELETE": redriving.on_purge}),
        (f"{LETTERS}/redrive", {"POST": redriving.on_redrive}),
        ("/v1/{vhost}/requests", {"POST": RequestsEndpoint(receiver, calls, context.operations)}),
    ]
    return [make_route(path, endpoints) for path, endpoints in table]


def make_route(path: str, endpoints: dict[str, Any]) -> BaseRoute:
    """One route for all methods of a path, so that 405 names them all."""
    operations = {method.lower(): described.OPERATIONS[method, path] for method in endpoints}
    # No methods are all of them: the endpoint itself says 405, or "settle" would be a token.
    methods = [] if path == SETTLE else list(endpoints)
    endpoint = by_method(endpoints) if len(endpoints) > 1 else next(iter(endpoints.values()))
    return Described(
        path, endpoint, methods=methods, operations=operations, models=described.MODELS
    )


class Posted:
    """An endpoint that is posted to and nothing else."""

    def __init__(self, handler: Handler) -> None:
        self.handler = handler

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] != "POST":
            raise Problem(problems.BY_STATUS[405], "only POST", headers={"allow": "POST"})
        response = await self.handler(Request(scope, receive))
        await response(scope, receive, send)


def by_method(endpoints: dict[str, Handler]) -> Any:
    async def dispatch(request: Request) -> Response:
        # What Starlette adds to GET is answered as GET; the server drops the body.
        method = "GET" if request.method == "HEAD" else request.method
        return await endpoints[method](request)

    return dispatch

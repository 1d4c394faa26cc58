"""Serves the module to any page: it is public, and there is nothing in it but code."""

from functools import cache
from importlib.resources import files

from starlette.requests import Request
from starlette.responses import Response

CLIENT_ROUTE = "/client/amqp-events.js"
HEADERS = {
    "access-control-allow-origin": "*",
    "cross-origin-resource-policy": "cross-origin",
    "x-content-type-options": "nosniff",
    "cache-control": "no-cache",
}


@cache
def module() -> bytes:
    return (files("gateway.http") / "client" / "amqp-events.js").read_bytes()


async def serve_client(request: Request) -> Response:
    return Response(module(), media_type="text/javascript", headers=HEADERS)

"""The yardstick for HTTP: the least an ASGI application on the same server can do."""

import sys

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route


async def take(request: Request) -> Response:
    await request.body()
    return Response(status_code=201)


async def ready(request: Request) -> Response:
    return Response()


app = Starlette(
    routes=[
        Route("/readyz", ready),
        Route("/v1/{ns:path}/queues/{queue}/messages", take, methods=["POST"]),
    ]
)

if __name__ == "__main__":
    uvicorn.run(
        app,
        host="127.0.0.1",
        port=int(sys.argv[1]),
        loop="uvloop",
        http="httptools",
        ws="none",
        lifespan="off",
        access_log=False,
        log_level="warning",
    )

"""FastAPI with all routes and one description: loaded after the start (``application.py``)."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

from fastapi import FastAPI, Request
from fastapi.openapi.utils import get_openapi
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from gateway import __version__
from gateway.http import console, description, health, reference_page, topology
from gateway.http.access.routes import routes as access_routes
from gateway.http.access.security_schemes import security_schemes
from gateway.http.admin.routes import routes as admin_routes
from gateway.http.application import Application
from gateway.http.context import Context
from gateway.http.error_handlers import add_error_shape
from gateway.http.events.opening import routes as event_routes
from gateway.http.events.stream_admin import routes as stream_routes
from gateway.http.journal.routes import routes as journal_routes
from gateway.http.metrics import Metrics
from gateway.http.prepared_content import PreparedContent
from gateway.http.publish.routes import routes as publish_routes
from gateway.http.receive.routes import routes as receive_routes

Room = Callable[[Context], list[BaseRoute]]

ROOMS: tuple[Room, ...] = (
    event_routes,
    stream_routes,
    receive_routes,
    admin_routes,
    access_routes,
    journal_routes,
)
"""Each room's ``routes(context)``, in any order: a new room adds its line here."""


def make_api(app: Application) -> FastAPI:
    """FastAPI behind an application, whose state it shares."""
    api = FastAPI(
        title="AMQP gateway",
        version=__version__,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,
        telemetry={"tracing": False, "metrics": False, "logs": False},
    )
    api.state = app.state
    api.state.openapi = None
    context: Context = app.state.context
    api.router.routes.extend(publish_routes(context, app.publishing))
    for routes in ROOMS:
        api.router.routes.extend(routes(context))
    api.state.metrics = Metrics(context)
    api.add_api_route(
        "/openapi.json", show_openapi, methods=["GET", "HEAD"], include_in_schema=False
    )
    for router in (topology.router, health.router, console.router, reference_page.router):
        api.router.routes.extend(router.routes)
    app.observe.labels.update(labels_of(api.router.routes))
    context.on_reload.append(lambda: describe_anew(api))
    add_error_shape(api)
    api.openapi = lambda: describe(api)  # type: ignore[method-assign]
    return api


def labels_of(routes: list[BaseRoute]) -> dict[Any, str]:
    """The template of each route by its endpoint, as metrics show it."""
    return {route.endpoint: route.path for route in routes if isinstance(route, Route)}


async def show_openapi(request: Request) -> Response:
    """For everybody: it is the same for each caller, and names nothing of this gateway but the
    issuer of its tokens. It is made once, by a thread, since that takes longer than a request may
    hold the loop."""
    state = request.app.state
    if state.openapi is None:
        state.openapi = asyncio.create_task(asyncio.to_thread(openapi_content, request.app))
    content: PreparedContent = await asyncio.shield(state.openapi)
    return await content.answer(request)


def openapi_content(app: FastAPI) -> PreparedContent:
    octets = json.dumps(app.openapi(), separators=(",", ":")).encode()
    return PreparedContent(octets, "application/json", {})


def describe(app: FastAPI) -> dict[str, Any]:
    """OpenAPI 3.1, made once."""
    if app.openapi_schema is None:
        schema = get_openapi(
            title=app.title, version=app.version, routes=app.routes, openapi_version="3.1.0"
        )
        schemes = security_schemes(app.state.context.authenticator)
        app.openapi_schema = description.complete(schema, app.routes, schemes)
    return app.openapi_schema


def describe_anew(api: FastAPI) -> None:
    """The description names what was set before."""
    api.openapi_schema = None
    api.state.openapi = None

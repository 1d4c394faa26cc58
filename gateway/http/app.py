"""The HTTP application: all routes, one error shape, one description."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from gateway import __version__
from gateway.errors import Refusal
from gateway.http import console, description, health, problems, reference_page, topology
from gateway.http.access.authenticator import Authenticator
from gateway.http.access.credential_cache import CredentialCache
from gateway.http.access.front import Front
from gateway.http.access.routes import routes as access_routes
from gateway.http.access.security_schemes import security_schemes
from gateway.http.admin.routes import routes as admin_routes
from gateway.http.application import Application
from gateway.http.context import Context
from gateway.http.dependencies import HttpDependencies
from gateway.http.events.cursor import Cursors
from gateway.http.events.hub import Hub
from gateway.http.events.opening import routes as event_routes
from gateway.http.events.stream_admin import routes as stream_routes
from gateway.http.fast_path import FastPath
from gateway.http.journal.routes import routes as journal_routes
from gateway.http.journal.thread import JournalThread
from gateway.http.leases import LeaseTable
from gateway.http.metrics import Counters
from gateway.http.observe.canary import Canary
from gateway.http.observe.observation import Observe
from gateway.http.observe.spans import find_spans
from gateway.http.prepared_content import PreparedContent
from gateway.http.publish.operations import Operations
from gateway.http.publish.publisher import Publisher
from gateway.http.publish.routes import DECLARED_ROUTE, EXCHANGE_ROUTE, QUEUE_ROUTE
from gateway.http.publish.routes import routes as publish_routes
from gateway.http.receive.routes import routes as receive_routes

Room = Callable[[Context], list[BaseRoute]]

GRACE_SECONDS = 2.0
"""For publishes that wait for their confirm when the gateway stops."""

ROOMS: tuple[Room, ...] = (
    publish_routes,
    event_routes,
    stream_routes,
    receive_routes,
    admin_routes,
    access_routes,
    journal_routes,
)
"""Each room's ``routes(context)``, in any order: a new room adds its line here."""


def build(dependencies: HttpDependencies) -> Application:
    """The application over the given parts. End it with ``close``."""
    app = Application(
        title="AMQP gateway",
        version=__version__,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,
        telemetry={"tracing": False, "metrics": False, "logs": False},
    )
    context = app.state.context = make_context(dependencies)
    app.state.hub = context.hub
    app.state.openapi = None
    for routes in ROOMS:
        for route in routes(context):
            app.router.routes.append(route)
    app.add_api_route(
        "/openapi.json", show_openapi, methods=["GET", "HEAD"], include_in_schema=False
    )
    for router in (topology.router, health.router, console.router, reference_page.router):
        app.router.routes.extend(router.routes)
    labels = labels_of(app.router.routes)
    app.observe = Observe(
        labels=labels,
        requests=context.counters.requests,
        durations=context.counters.durations,
        spans=find_spans(),
        log_requests=dependencies.settings.log_requests,
    )
    app.front = Front(context.authenticator, publish_endpoint(app, DECLARED_ROUTE))
    publish = {
        "queues": publish_endpoint(app, QUEUE_ROUTE),
        "exchanges": publish_endpoint(app, EXCHANGE_ROUTE),
    }
    app.fast_path = FastPath(app.front, context.credentials, publish)
    context.on_reload.append(lambda: take_settings(app))
    add_error_shape(app)
    app.openapi = lambda: describe(app)  # type: ignore[method-assign]
    return app


def make_context(dependencies: HttpDependencies) -> Context:
    broker, settings = dependencies.broker, dependencies.settings
    cursors = Cursors(dependencies.secret)
    leases = LeaseTable(broker.state, dependencies.secret)
    authenticator = Authenticator(dependencies, cursors.known)
    hub = Hub(dependencies, cursors, leases, authenticator.still_good)
    publisher = Publisher(
        broker, dependencies.begin_turn, dependencies.end_turn, settings.confirm_seconds
    )
    seconds = settings.canary_seconds
    journal = JournalThread(dependencies.journal)
    return Context(
        dependencies,
        hub,
        publisher,
        Counters(dependencies, hub, publisher, journal),
        authenticator,
        CredentialCache(authenticator),
        Canary(dependencies, seconds, seconds),
        Operations(broker, settings),
        leases,
        journal,
    )


def take_settings(app: Application) -> None:
    """Derive anew what was derived from settings when the application was built."""
    context: Context = app.state.context
    settings = context.settings
    context.publisher.seconds = settings.confirm_seconds
    context.canary.fresh_seconds = context.canary.limit_seconds = settings.canary_seconds
    app.observe.log_requests = settings.log_requests
    context.authenticator.take_settings()
    app.front.take_settings()
    app.openapi_schema = None
    app.state.openapi = None


def labels_of(routes: list[BaseRoute]) -> dict[Any, str]:
    """The template of each route by its endpoint, as metrics show it."""
    return {route.endpoint: route.path for route in routes if isinstance(route, Route)}


def publish_endpoint(app: FastAPI, path: str) -> Any:
    """The endpoint of the route with this template that is posted to."""
    return next(
        route.endpoint
        for route in app.routes
        if isinstance(route, Route) and route.path == path and "POST" in (route.methods or ())
    )


async def close(app: FastAPI) -> None:
    """End all event streams and the publisher's channels. Called before the server stops, which
    waits for responses to end."""
    context: Context = app.state.context
    await context.hub.close()
    for closer in context.closers:
        await closer()
    await context.publisher.drain(GRACE_SECONDS)
    context.publisher.close()


def add_error_shape(app: FastAPI) -> None:
    app.add_exception_handler(problems.Problem, problems.on_problem)
    app.add_exception_handler(Refusal, problems.on_refusal)
    app.add_exception_handler(HTTPException, problems.on_http)
    app.add_exception_handler(RequestValidationError, problems.on_validation)
    app.add_exception_handler(Exception, problems.on_failure)


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

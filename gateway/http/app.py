"""The HTTP application: its parts, and publishing. ``api.py`` has the other routes, which are
loaded when a request needs them, or after the start."""

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from gateway.http.access.authenticator import Authenticator
from gateway.http.access.credential_cache import CredentialCache
from gateway.http.access.front import Front
from gateway.http.application import Application
from gateway.http.context import Context
from gateway.http.counters import Counters
from gateway.http.dependencies import HttpDependencies
from gateway.http.events.cursor import Cursors
from gateway.http.events.hub import Hub
from gateway.http.fast_path import FastPath
from gateway.http.journal.thread import JournalThread
from gateway.http.leases import LeaseTable
from gateway.http.observe.canary import Canary
from gateway.http.observe.observation import Observe
from gateway.http.observe.spans import find_spans
from gateway.http.probes import probes
from gateway.http.publish.endpoints import EXCHANGE_ROUTE, QUEUE_ROUTE, publishing
from gateway.http.publish.operations import Operations
from gateway.http.publish.publisher import Publisher

if TYPE_CHECKING:
    from fastapi import FastAPI

GRACE_SECONDS = 2.0
"""For publishes that wait for their confirm when the gateway stops."""


def build(dependencies: HttpDependencies) -> Application:
    """The application over the given parts. End it with ``close``."""
    context = make_context(dependencies)
    ways_in, early = publishing(context), probes(context)
    observe = Observe(
        labels=ways_in.labels() | {probe: path for path, probe in early.items()},
        requests=context.counters.requests,
        durations=context.counters.durations,
        spans=find_spans(),
        log_requests=dependencies.settings.log_requests,
    )
    front = Front(context.authenticator, ways_in.declared, early)
    endpoints = ways_in.endpoints
    plain = {"queues": endpoints[QUEUE_ROUTE], "exchanges": endpoints[EXCHANGE_ROUTE]}
    fast_path = FastPath(front, context.credentials, plain)
    app = Application(context, ways_in, observe, front, fast_path, import_routes)
    context.on_reload.append(lambda: take_settings(app))
    return app


def import_routes() -> "Callable[[Application], FastAPI]":
    """Import the modules of all routes."""
    from gateway.http.load_fastapi import load_fastapi

    load_fastapi()
    from gateway.http.api import make_api

    return make_api


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
        Counters(),
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


async def close(app: Application) -> None:
    """End all event streams and the publisher's channels. Called before the server stops, which
    waits for responses to end."""
    context: Context = app.state.context
    if app.loading:
        with suppress(Exception):  # its failure is told where it was begun
            await app.load()
    await context.hub.close()
    for closer in context.closers:
        await closer()
    await context.publisher.drain(GRACE_SECONDS)
    context.publisher.close()

"""The routes of administration, all of them on the admin listener."""

from starlette.routing import BaseRoute

from gateway.http.admin import (
    asyncapi,
    branches,
    bridge,
    capabilities,
    definitions,
    importing,
    inventory,
    modes,
    moves,
    rabbit,
    sessions,
    topology,
)
from gateway.http.admin import connections as traffic
from gateway.http.admin import problem_pages as pages
from gateway.http.admin import users as people
from gateway.http.admin.endpoint_routes import make_routes
from gateway.http.context import Context

ROOM = (
    *(topology, branches, people, traffic, sessions, bridge, modes, moves, definitions, importing),
    *(capabilities, rabbit, inventory, pages, asyncapi),
)
ENDPOINTS = [endpoint for part in ROOM for endpoint in part.ENDPOINTS]


def routes(context: Context) -> list[BaseRoute]:
    return [*make_routes(context, ENDPOINTS)]

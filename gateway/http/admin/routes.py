"""The routes of administration, all of them on the admin listener."""

from starlette.routing import BaseRoute

from gateway.http.admin import asyncapi, definitions, pages, people, rabbit, topology, traffic
from gateway.http.admin.entries import make_routes
from gateway.http.context import Context

ROOM = (topology, people, traffic, definitions, rabbit, pages, asyncapi)
ENDPOINTS = [endpoint for part in ROOM for endpoint in part.ENDPOINTS]


def routes(context: Context) -> list[BaseRoute]:
    return [*make_routes(context, ENDPOINTS)]

"""The routes of sessions, tickets and metadata."""

from starlette.routing import BaseRoute

from gateway.http.access.endpoints import router
from gateway.http.context import Context


def routes(context: Context) -> list[BaseRoute]:
    context.closers.append(context.authenticator.close)
    return list(router.routes)

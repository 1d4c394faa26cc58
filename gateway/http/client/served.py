"""Serves the modules of the client to any page: they are public, and there is nothing but code."""

from functools import cache
from importlib.resources import files

from starlette.requests import Request
from starlette.responses import Response

from gateway.http import problems
from gateway.http.prepared_content import PreparedContent
from gateway.http.problems import Problem

CLIENT_ROUTE = "/client/{name}"
HEADERS = {
    "access-control-allow-origin": "*",
    "cross-origin-resource-policy": "cross-origin",
    "x-content-type-options": "nosniff",
}


@cache
def modules() -> dict[str, PreparedContent]:
    """Every module by name."""
    folder = files("gateway.http") / "client"
    return {
        one.name: PreparedContent(one.read_bytes(), "text/javascript", HEADERS)
        for one in folder.iterdir()
        if one.name.endswith(".js")
    }


async def serve_client(request: Request) -> Response:
    found = modules().get(request.path_params["name"])
    if found is None:
        raise Problem(problems.BY_STATUS[404], "the client has no such module")
    return await found.answer(request)

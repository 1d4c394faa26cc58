"""The answers to exceptions behind FastAPI's routes, in the one error shape."""

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, Route

from gateway.errors import Refusal
from gateway.http.meant_paths import path_hint
from gateway.http.problems import (
    BY_STATUS,
    INTERNAL,
    INTERNAL_TEXT,
    SCHEMA,
    Problem,
    Row,
    of_refusal,
)


def add_error_shape(app: FastAPI) -> None:
    app.add_exception_handler(Problem, on_problem)
    app.add_exception_handler(Refusal, on_refusal)
    app.add_exception_handler(HTTPException, on_http)
    app.add_exception_handler(RequestValidationError, on_validation)
    app.add_exception_handler(Exception, on_failure)


def instance_of(request: Request) -> str:
    return str(request.scope.get("path", ""))


async def on_problem(request: Request, error: Exception) -> Response:
    assert isinstance(error, Problem)
    return error.response(instance_of(request))


async def on_refusal(request: Request, error: Exception) -> Response:
    assert isinstance(error, Refusal)
    return of_refusal(error).response(instance_of(request))


async def on_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    row = BY_STATUS.get(error.status_code)
    if row is None:
        row = Row(error.status_code, "http", str(error.detail), "not-sent", False)
    detail = row.title
    if row.kind == "not-found":
        path = instance_of(request)
        detail = f"nothing at {path}{path_hint(path, lambda meant: is_path(request, meant))}"
    headers = dict(error.headers or {})
    if error.status_code == 405:
        headers = {"allow": ", ".join(methods_here(request))}
        detail = f"{request.method} is not allowed here: use one of {headers['allow']}"
    return Problem(row, detail, headers=headers).response(instance_of(request))


def is_path(request: Request, path: str) -> bool:
    """Whether there is a route for a path, with any method."""
    scope = {**request.scope, "path": path}
    routes = (route for route in request.app.routes if isinstance(route, Route))
    return any(route.matches(scope)[0] is not Match.NONE for route in routes)


def methods_here(request: Request) -> list[str]:
    """The methods of this path, of all routes for it."""
    found: set[str] = set()
    for route in request.app.routes:
        if isinstance(route, Route) and route.matches(request.scope)[0] is not Match.NONE:
            found |= route.methods or set()
    return sorted(found)


def pointer_of(place: tuple[int | str, ...]) -> str:
    """A pointer into the body, as on other routes; or the kind and the name of a parameter."""
    parts = place[1:] if place[0] == "body" else place
    return "".join(f"/{part}" for part in parts)


async def on_validation(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    errors = [{"pointer": pointer_of(one["loc"]), "detail": one["msg"]} for one in error.errors()]
    return Problem(SCHEMA, "see errors", errors=errors).response(instance_of(request))


async def on_failure(request: Request, error: Exception) -> Response:
    """The log has the traceback (the server writes it); the caller learns nothing of it."""
    return Problem(INTERNAL, INTERNAL_TEXT).response(instance_of(request))

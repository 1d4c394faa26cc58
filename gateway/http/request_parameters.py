"""The caller, the virtual host and the body of a request, as all routes read them.

Names stand in the *raw* path, one percent-encoded segment each, so that ``%2F`` stays inside its
segment; ``access.front`` makes routing see them that way and ``path_segments`` decodes them.
"""

from typing import Any, TypeVar
from urllib.parse import parse_qsl

from pydantic import BaseModel, ValidationError
from starlette.types import Receive, Scope

from gateway.broker.broker import Broker
from gateway.http import problems
from gateway.http.access.principal import Principal
from gateway.http.context import Context
from gateway.http.mistakes import members_at, members_of, text_of
from gateway.http.path_segments import decode_segment
from gateway.http.problems import Problem
from gateway.http.upstreams import know_path
from gateway.similar_names import did_you_mean

M = TypeVar("M", bound=BaseModel)


async def authenticate(context: Context, scope: Scope) -> Principal:
    """The caller. Raises ``Problem``: 401 without valid credentials, never anonymous. The nodes
    that the path names are known afterwards, also if they are those of an upstream."""
    principal = await context.credentials.of_request(scope)
    if context.broker.facades:
        await know_path(context.broker, context.dependencies.turn, scope)
    return principal


async def read_caller(context: Context, scope: Scope) -> tuple[Principal, str]:
    """The caller, and the virtual host that its path names. Raises ``Problem``."""
    principal = await authenticate(context, scope)
    return principal, vhost_of(context.broker, scope["path_params"]["vhost"])


async def read_limited(scope: Scope, receive: Receive, limit: int) -> bytes:
    """The whole body of a request, at most ``limit`` octets. Raises ``Problem``: 413, before
    anything is read if there is a Content-Length; 400 if the caller has disconnected."""
    told = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
    body = bytearray()
    more = told.isdigit() and int(told) <= limit
    while more:
        message = await receive()
        if message["type"] != "http.request":
            raise Problem(problems.INVALID, "the body is incomplete")
        body += message.get("body", b"")
        if len(body) > limit:
            break
        if not message.get("more_body", False):
            return bytes(body)
    raise Problem(
        problems.TOO_LARGE,
        f"a body has at most {limit} octets here",
        headers={"connection": "close"},
        limit_octets=limit,
    )


def read_parameters(query: bytes) -> dict[str, str]:
    """The parameters of a query, each at most once. Raises ``Problem``."""
    try:
        pairs = parse_qsl(query.decode("ascii"), keep_blank_values=True, errors="strict")
    except (UnicodeDecodeError, ValueError):
        raise Problem(problems.INVALID, "the query is not percent-encoded UTF-8") from None
    given: dict[str, str] = {}
    for name, value in pairs:
        if name in given:
            raise Problem(problems.INVALID, f"{name} given twice")
        given[name] = value
    return given


def read_query(query: bytes, model: type[M]) -> M:
    """The parameters of a query as a model. Raises ``Problem``."""
    try:
        return model.model_validate_strings(read_parameters(query))
    except ValidationError as error:
        texts = dict.fromkeys(parameter_text(one, model) for one in error.errors())
        raise Problem(problems.INVALID, "; ".join(texts)) from None


def parameter_text(one: Any, model: type[BaseModel]) -> str:
    name = ".".join(map(str, members_of(one)))
    if one["type"] == "extra_forbidden":
        known = members_at(model, one["loc"])
        there = f"; there are {', '.join(sorted(known))}" if known else ""
        return f"no such parameter: {name}{did_you_mean(name, known) or there}"
    return f"{name}: {text_of(one, model)}"


def vhost_of(broker: Broker, segment: str) -> str:
    """The existing virtual host that a path segment names. Raises ``Problem`` 404."""
    return existing_vhost(broker, decode_segment(segment))


def existing_vhost(broker: Broker, vhost: str) -> str:
    """Raises ``Problem`` 404."""
    if vhost not in broker.vhosts:
        raise problems.no_vhost(vhost)
    return vhost

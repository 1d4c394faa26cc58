"""The endpoint ``/v1/{vhost}/routes/{route}/messages``: a stable name for a target, safe to expose
to browsers.

A request is checked against the limits of the route and is then an ordinary publish, whose target
appears only under the name of the route. The permissions of the broker's user still apply.
"""

import asyncio
import json
from typing import NoReturn

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gateway.config.web import DeclaredRoute
from gateway.http import problems
from gateway.http.access.authenticator import PRINCIPAL, Authenticator
from gateway.http.access.json_schema import Check, schema_check
from gateway.http.access.principal import Action
from gateway.http.path_segments import decode_segment
from gateway.http.problems import Problem

SMALL = 4096
"""Maximum octets of a body that is validated on the loop."""


class Declared:
    """The endpoint. ``publish`` is the application behind it."""

    def __init__(self, authenticator: Authenticator, publish: ASGIApp) -> None:
        self.authenticator = authenticator
        self.publish = publish
        self.checks = {
            (route.vhost, route.name): schema_check(route.schema_document)
            for route in authenticator.catalogue.routes.values()
            if route.schema_document is not None
        }
        self.__name__ = "publish_by_route"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            receive, route = await self.admit(scope, receive)
            send = dropping(send) if route.unroutable == "drop" else send
            await self.publish(scope, receive, send)
        except Problem as problem:
            await problem.response(scope["path"])(scope, receive, send)

    async def admit(self, scope: Scope, receive: Receive) -> tuple[Receive, DeclaredRoute]:
        """The route, if the caller may publish by it, and a body within its limits. Raises
        ``Problem``."""
        if scope["method"] != "POST":
            raise Problem(problems.BY_STATUS[405], "only POST", headers={"allow": "POST"})
        authenticator, path = self.authenticator, scope["path_params"]
        caller = scope[PRINCIPAL] = await authenticator.authenticate(scope)
        vhost, name = decode_segment(path["vhost"]), decode_segment(path["route"])
        route = authenticator.catalogue.route(vhost, name)
        if not route.publish:
            raise Problem(problems.FORBIDDEN, "the route does not permit publishing")
        caller.need(authenticator.dependencies.broker, Action.PUBLISH, vhost, "route", name)
        authenticator.quotas.charge_routes(scope, [route])
        kind = header(scope, b"content-type").split(b";")[0].strip().lower().decode("latin-1")
        if kind not in route.content_types:
            raise Problem(
                problems.UNSUPPORTED_MEDIA,
                f"the route takes {', '.join(route.content_types)}, and the body is "
                f"{kind[:100] or 'untyped'}",
            )
        if route.idempotency == "required" and not header(scope, b"idempotency-key"):
            raise Problem(problems.KEY_NEEDED, "the route takes no message without Idempotency-Key")
        receive = limited(scope, receive, route.max_body_octets)
        check = self.checks.get((vhost, name))
        if check is not None:
            if header(scope, b"content-encoding"):
                raise Problem(problems.UNSUPPORTED_MEDIA, "the route takes no encoded bodies")
            body = await read_all(receive)
            if len(body) < SMALL:
                check_body(check, body)
            else:
                # A thread lets the loop serve other requests meanwhile.
                loop = asyncio.get_running_loop()
                await loop.run_in_executor(None, check_body, check, body)
            receive = replay(body, receive)
        return receive, route


def header(scope: Scope, wanted: bytes) -> bytes:
    return next((value for name, value in scope["headers"] if name == wanted), b"")


def too_large(limit: int) -> Problem:
    return Problem(
        problems.TOO_LARGE,
        f"a body of this route has at most {limit} octets (routes.max_body_octets)",
        setting="routes.max_body_octets",
        headers={"connection": "close"},
        limit_octets=limit,
    )


def limited(scope: Scope, receive: Receive, limit: int) -> Receive:
    """``receive`` with a limit. Raises ``Problem`` before reading if the length is known, otherwise
    while reading."""
    length = header(scope, b"content-length")
    if length and (not length.isdigit() or int(length) > limit):
        raise too_large(limit)
    size = 0

    async def receiving() -> Message:
        nonlocal size
        message = await receive()
        size += len(message.get("body", b""))
        if size > limit:
            raise too_large(limit)
        return message

    return receiving


async def read_all(receive: Receive) -> bytes:
    parts = []
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise Problem(problems.INVALID, "the body is incomplete")
        parts.append(message.get("body", b""))
        if not message.get("more_body", False):
            return b"".join(parts)


def replay(body: bytes, receive: Receive) -> Receive:
    given = False

    async def receiving() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receiving


def dropping(send: Send) -> Send:
    """``send`` for a route that drops unroutable messages: 409 ``unroutable`` becomes a receipt
    with ``"routed": false``."""
    start: Message | None = None
    parts: list[bytes] = []

    async def sending(message: Message) -> None:
        nonlocal start
        if message["type"] == "http.response.start" and message["status"] == 409:
            start = message
            return
        if start is None:
            await send(message)
            return
        parts.append(message.get("body", b""))
        if message.get("more_body", False):
            return
        body = b"".join(parts)
        try:
            unroutable = json.loads(body).get("outcome") == "unroutable"
        except (ValueError, AttributeError):
            unroutable = False
        if unroutable:
            body = b'{"outcome":"unroutable","routed":false}'
            start["status"] = 200
            start["headers"] = [
                (b"content-type", b"application/vnd.amqp-gateway.receipt+json"),
                (b"content-length", b"%d" % len(body)),
                (b"amqp-outcome", b"unroutable"),
                (b"cache-control", b"no-store"),
            ]
        await send(start)
        await send({"type": "http.response.body", "body": body})

    return sending


def check_body(check: Check, body: bytes) -> None:
    try:
        document = json.loads(body, parse_constant=refuse_constant)
    except (ValueError, RecursionError):
        raise Problem(problems.SCHEMA, "the body is not JSON", errors=[]) from None
    try:
        errors = check(document)
    except RecursionError:
        raise Problem(problems.SCHEMA, "the body is nested too deeply", errors=[]) from None
    if errors:
        raise Problem(problems.SCHEMA, "the body does not match the route's schema", errors=errors)


def refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")

"""Declared routes: stable names for targets, safe to show to browsers.

Such a request becomes one to the node behind the route, with a credential for that node alone,
after its body has passed the route's own limits. What the broker permits its user stays the bound.
"""

import json
import re
from collections.abc import Callable
from typing import Any
from urllib.parse import quote, urlencode

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gateway.http import problems
from gateway.http.access.gate import PRINCIPAL, Gate
from gateway.http.access.principal import Principal
from gateway.http.access.rights import Action, Right
from gateway.http.access.settings import DeclaredRoute
from gateway.http.access.tickets import read_query
from gateway.http.deps import decode_segment
from gateway.http.problems import Problem

PARAMETER = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]{0,63})\}")
MAX_KEY = 255
STREAM_PARAMETERS = frozenset(
    {"from", "last_event_id", "heartbeat", "filter", "format", "event", "errors", "payload"}
    | {"keepalive", "slow", "ack", "credit"}
)
Check = Callable[[Any], list[dict[str, str]]]


class Declared:
    """All routes. ``publish`` and ``events`` are the endpoints of raw nodes."""

    def __init__(
        self, gate: Gate, publish_queue: ASGIApp, publish_exchange: ASGIApp, events: ASGIApp
    ) -> None:
        self.gate = gate
        self.broker = gate.doors.broker
        self.publish_queue = publish_queue
        self.publish_exchange = publish_exchange
        self.events = events
        routes = gate.settings.routes
        self.routes = {(route.vhost, route.name): route for route in routes}
        self.checks = {
            (route.vhost, route.name): schema_check(route.schema)
            for route in routes
            if route.schema is not None
        }

    def route(self, vhost: str, name: str) -> DeclaredRoute:
        found = self.routes.get((vhost, name))
        if found is None:
            raise Problem(problems.NOT_FOUND, "no such route")
        return found

    def find(self, scope: Scope, parts: list[str]) -> ASGIApp:
        """The endpoint of ``/v1/{vhost}/routes/{route}/messages`` or ``.../events``. Raises
        ``Problem``."""
        vhost, name, what = decode_segment(parts[2]), decode_segment(parts[4]), parts[5]
        if what == "messages":
            return Publishing(self, vhost, name)
        if what == "events":
            return Streaming(self, vhost, name)
        raise Problem(problems.BY_STATUS[404], f"nothing at {scope['path']}")

    async def admit(self, scope: Scope, vhost: str, name: str, action: Action) -> DeclaredRoute:
        """The route, if the caller may use it so; from then on the caller may only do this, to
        what is behind it. Raises ``Problem``."""
        caller = await self.gate.authenticate(scope)
        route = self.route(vhost, name)
        if not (route.publish if action is Action.PUBLISH else route.stream):
            raise Problem(problems.FORBIDDEN, f"the route is not for {action.value}")
        caller.need(self.broker, action, vhost, "route", name)
        scope[PRINCIPAL] = narrowed(caller, action, [route])
        return route

    def named(self, scope: Scope) -> list[str]:
        """The routes that an event stream names with ``source=route:NAME``. Raises ``Problem`` if
        raw nodes stand beside them."""
        if b"route" not in scope["query_string"] or scope["method"] != "GET":
            return []
        query = read_query(scope)
        found = [value[6:] for key, value in query if key == "source" and value[:6] == "route:"]
        if found and len(found) < sum(key == "source" for key, _ in query):
            raise Problem(problems.INVALID, "declared routes and raw nodes in one stream")
        if found and any(key == "binding" for key, _ in query):
            raise Problem(problems.INVALID, "a declared route takes no binding")
        return found

    def streams(self, vhost: str, names: list[str], app: ASGIApp) -> ASGIApp:
        """The endpoint of a stream whose sources are routes."""

        async def run(scope: Scope, receive: Receive, send: Send) -> None:
            caller = await self.gate.authenticate(scope)
            routes = [self.route(vhost, name) for name in names]
            for route in routes:
                if not route.stream:
                    raise Problem(problems.FORBIDDEN, "the route is not for stream")
                caller.need(self.broker, Action.STREAM, vhost, "route", route.name)
            scope[PRINCIPAL] = narrowed(caller, Action.STREAM, routes)
            query = [pair for pair in read_query(scope) if pair[0] != "source"]
            query = [("source", source_of(route, {})) for route in routes] + query
            scope["query_string"] = urlencode(query, quote_via=quote).encode()
            await app(scope, receive, send)

        return run


class Publishing:
    """``POST /v1/{vhost}/routes/{route}/messages``."""

    def __init__(self, declared: Declared, vhost: str, name: str) -> None:
        self.declared, self.vhost, self.name = declared, vhost, name

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        declared = self.declared
        scope["endpoint"] = Publishing
        if scope["method"] != "POST":
            raise Problem(problems.BY_STATUS[405], "only POST", headers={"allow": "POST"})
        route = await declared.admit(scope, self.vhost, self.name, Action.PUBLISH)
        kind = header(scope, b"content-type").split(b";")[0].strip().lower().decode("latin-1")
        if kind not in route.content_types:
            raise Problem(
                problems.UNSUPPORTED_MEDIA,
                "the route takes " + ", ".join(route.content_types),
            )
        check = declared.checks.get((self.vhost, self.name))
        if check is None:
            receive = limited(scope, receive, route.max_body_octets)
        else:
            if header(scope, b"content-encoding"):
                raise Problem(problems.UNSUPPORTED_MEDIA, "the route takes no encoded bodies")
            body = await read_all(limited(scope, receive, route.max_body_octets))
            check_body(check, body)
            receive = replay(body, receive)
        endpoint = self.target(scope, route)
        await endpoint(scope, receive, dropping(send) if route.unroutable == "drop" else send)

    def target(self, scope: Scope, route: DeclaredRoute) -> ASGIApp:
        """The endpoint behind the route, for a scope that names its node."""
        given = dict(read_query(scope))
        vhost = quote(route.vhost, safe="")
        if route.queue:
            if given:
                raise Problem(problems.INVALID, "the route takes no parameters")
            scope["path_params"] = {"vhost": vhost, "queue": quote(route.queue, safe="")}
            scope["query_string"] = b""
            return self.declared.publish_queue
        key = fill(route.key, given)
        scope["path_params"] = {"vhost": vhost, "exchange": quote(route.exchange, safe="")}
        scope["query_string"] = b"routing_key=" + quote(key, safe="").encode() if key else b""
        return self.declared.publish_exchange


class Streaming:
    """``GET /v1/{vhost}/routes/{route}/events``."""

    def __init__(self, declared: Declared, vhost: str, name: str) -> None:
        self.declared, self.vhost, self.name = declared, vhost, name

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        declared = self.declared
        scope["endpoint"] = Streaming
        if scope["method"] != "GET":
            raise Problem(problems.BY_STATUS[405], "only GET", headers={"allow": "GET"})
        route = await declared.admit(scope, self.vhost, self.name, Action.STREAM)
        query = read_query(scope)
        names = set(PARAMETER.findall(route.key))
        kept = [pair for pair in query if pair[0] in STREAM_PARAMETERS]
        given = {key: value for key, value in query if key in names}
        if len(kept) + len(given) != len(query):
            raise Problem(problems.INVALID, "a parameter is unknown to the route")
        kept.insert(0, ("source", source_of(route, given)))
        scope["query_string"] = urlencode(kept, quote_via=quote).encode()
        scope["path_params"] = {"vhost": quote(route.vhost, safe="")}
        await declared.events(scope, receive, send)


def narrowed(caller: Principal, action: Action, routes: list[DeclaredRoute]) -> Principal:
    rights = [
        Right(
            frozenset({action}),
            route.vhost,
            "queue" if route.queue else "exchange",
            route.queue or route.exchange,
            True,
        )
        for route in routes
    ]
    return caller._replace(rights=tuple(rights))


def source_of(route: DeclaredRoute, given: dict[str, str]) -> str:
    if route.queue:
        return f"queue:{route.queue}"
    names = set(PARAMETER.findall(route.key)) - given.keys()
    if names:
        raise Problem(problems.INVALID, f"the route needs the parameter {sorted(names)[0]}")
    return f"exchange:{route.exchange}?binding={fill(route.key, given)}"


def fill(template: str, given: dict[str, str]) -> str:
    """The key of a template. A value is one word of a topic: no dot and no wildcard slips in.
    Raises ``Problem``."""
    names = set(PARAMETER.findall(template))
    if given.keys() != names:
        wanted = ", ".join(sorted(names)) or "no parameters"
        raise Problem(problems.INVALID, f"the route takes {wanted}")
    for value in given.values():
        if not value or any(letter in value for letter in ".*#") or not value.isprintable():
            raise Problem(problems.INVALID, "a parameter of a route is a word without . * #")
    key = PARAMETER.sub(lambda found: given[found[1]], template)
    if len(key.encode()) > MAX_KEY:
        raise Problem(problems.INVALID, f"the routing key is longer than {MAX_KEY} octets")
    return key


def header(scope: Scope, wanted: bytes) -> bytes:
    return next((value for name, value in scope["headers"] if name == wanted), b"")


def too_large(limit: int) -> Problem:
    return Problem(
        problems.TOO_LARGE,
        f"a body of this route has at most {limit} octets",
        headers={"connection": "close"},
        limit_octets=limit,
    )


def limited(scope: Scope, receive: Receive, limit: int) -> Receive:
    """Raises ``Problem`` before a byte is read when the length is known, and while reading."""
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
    """For a route whose messages may find no queue: 409 ``unroutable`` becomes a receipt that says
    ``"routed": false``."""
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
        document = json.loads(body)
    except (ValueError, RecursionError):
        raise Problem(problems.SCHEMA, "the body is not JSON", errors=[]) from None
    try:
        errors = check(document)
    except RecursionError:
        raise Problem(problems.SCHEMA, "the body is nested too deeply", errors=[]) from None
    if errors:
        raise Problem(problems.SCHEMA, "the body does not match the route's schema", errors=errors)


def schema_check(schema: dict[str, Any]) -> Check:
    """Needs the extra ``schema``; ``gateway.config`` has said so if it is missing."""
    from jsonschema import Draft202012Validator, SchemaError, validators  # type: ignore[import-untyped]
    from referencing import Registry

    # An own registry: references are never fetched.
    kind = validators.validator_for(schema, default=Draft202012Validator)
    try:
        kind.check_schema(schema)
    except SchemaError as error:
        raise ValueError(f"not a JSON Schema: {error.message}") from None
    validator = kind(schema, registry=Registry())

    def check(document: Any) -> list[dict[str, str]]:
        found = []
        for error in validator.iter_errors(document):
            pointer = "".join(f"/{part}" for part in error.absolute_path)
            found.append({"pointer": pointer, "detail": error.message[:200]})
            if len(found) == 20:
                break
        return found

    return check

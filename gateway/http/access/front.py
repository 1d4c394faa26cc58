"""The outermost layer: routes per listener, raw paths, CORS, tickets, headers and counters.

Names are in the *raw* path, one percent-encoded segment each, so that ``%2F`` stays within its
segment: routing uses the undecoded path, and ``segments.decode_segment`` decodes.
"""

from collections.abc import Mapping
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gateway.http.access.gate import NO_NODES, Gate
from gateway.http.access.gate import PLANE as PLANE
from gateway.http.access.quotas import LIMITS, chunked
from gateway.http.metrics import Counters
from gateway.http.problems import BY_STATUS, Problem

ADMIN_PATHS = frozenset({"/", "/metrics", "/livez", "/readyz", "/startupz"})
ADMIN_PREFIXES = ("/v1/admin", "/v1/connections", "/api/", "/console", "/v1/traces", "/v1/logs")
OPEN_NOUNS = frozenset(
    {"routes", "operations", "streams", "capabilities", "deliveries", "events", "subscriptions"}
)
"""Segments after a virtual host that do not always name a node; where they can (streams, presence),
the endpoint checks it. The token of a delivery was issued before."""
RAW_NOUNS = frozenset(
    {"queues", "exchanges", "addresses", "messages", "events", "requests", "dead-letters"}
)
"""Segments that could follow a virtual host named "admin"."""
ALWAYS = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
]
PAGE = [
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"x-frame-options", b"DENY"),
    (
        b"content-security-policy",
        b"default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
]


class Front:
    """Wraps the application. ``labels`` has the route templates by endpoint, for metrics;
    ``publish`` has the publish endpoints by the noun in their path. ``declared`` is the endpoint of
    declared routes. Both are called from here, because the layers below would be a third of the
    cost of a publish."""

    app: ASGIApp

    def __init__(
        self,
        counters: Counters,
        labels: dict[Any, str],
        gate: Gate,
        publish: Mapping[str, ASGIApp],
        declared: ASGIApp,
    ) -> None:
        self.counters = counters
        self.labels = labels
        self.gate = gate
        self.publish = publish
        self.declared = declared
        settings = gate.settings
        self.raw_nodes = settings.raw_nodes
        self.apart = gate.dependencies.admin_apart
        self.origins = gate.origins if gate.origins.known else None
        self.counting = gate.quotas.counts_octets

    def around(self, app: ASGIApp) -> ASGIApp:
        """The application wrapped in this layer."""
        self.app = app
        return self

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        raw: bytes | None = scope.get("raw_path")
        if raw is not None:
            path = raw.decode("ascii", "replace")
            # RabbitMQ's paths may end with a slash.
            scope["path"] = path[:-1] if path.startswith("/api/") and path[-1] == "/" else path
        status = 500
        origin = self.origin_of(scope) if self.origins is not None else None

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = self.complete(scope, message.get("headers", []), origin)
            await send(message)

        try:
            app = self.hot(scope) or self.choose(scope, origin)
            if self.counting and chunked(scope):
                receive = self.gate.quotas.counting(scope, receive)
            await app(scope, receive, sending)
        except Problem as problem:
            await problem.response(scope["path"])(scope, receive, sending)
        finally:
            label = self.labels.get(scope.get("endpoint"), "other")
            self.counters.requests[scope["method"] if label != "other" else "", label, status] += 1

    # --- which endpoint -------------------------------------------------------------------------

    def hot(self, scope: Scope) -> ASGIApp | None:
        """The endpoint, if this is ``POST /v1/{vhost}/{noun}s/{name}/messages``."""
        if scope["method"] != "POST" or scope.get("root_path"):
            return None
        parts = scope["path"].split("/")
        if len(parts) != 6 or parts[0] or parts[1] != "v1" or parts[5] != "messages":
            return None
        if not (self.raw_nodes or scope.get(PLANE) == "admin"):
            return None
        endpoint = self.publish.get(parts[3])
        if endpoint is None or not parts[2] or not parts[4]:
            return None
        scope["endpoint"] = endpoint
        scope["path_params"] = {"vhost": parts[2], parts[3][:-1]: parts[4]}
        return endpoint

    def choose(self, scope: Scope, origin: bytes | None) -> ASGIApp:
        """The application for a request. Raises ``Problem``."""
        path = scope["path"]
        on_admin = scope.get(PLANE) == "admin"
        if self.apart and not on_admin and is_admin(path):
            raise nothing_at(path)
        if scope["method"] == "OPTIONS" and origin is not None and self.is_preflight(scope):
            return Preflight(self.gate.origins.preflight(origin))
        parts = path.split("/")
        if len(parts) < 4 or parts[1] != "v1" or scope.get("root_path"):
            return self.app
        if parts[3] == "routes" and len(parts) == 6 and parts[5] == "messages":
            scope["endpoint"] = self.declared
            scope["path_params"] = {"vhost": parts[2], "route": parts[4]}
            return self.declared
        administers = parts[2] == "admin" and parts[3] not in RAW_NOUNS
        if not (self.raw_nodes or on_admin or administers or parts[3] in OPEN_NOUNS):
            raise Problem(BY_STATUS[404], NO_NODES)
        return self.app

    # --- fields of every response --------------------------------------------------------------

    def complete(
        self, scope: Scope, headers: list[tuple[bytes, bytes]], origin: bytes | None
    ) -> list[tuple[bytes, bytes]]:
        """A page has its own policy; all other responses get the strictest one."""
        names = {name for name, _ in headers}
        kind = next((value for name, value in headers if name == b"content-type"), b"")
        added = [pair for pair in ALWAYS if pair[0] not in names]
        if kind.startswith((b"text/", b"image/")) and not kind.startswith(b"text/event-stream"):
            added += [pair for pair in PAGE if pair[0] not in names]
        added += scope.get(LIMITS, ())
        if self.origins is not None:
            if origin is None:
                added.append((b"vary", b"Origin"))
            elif b"access-control-allow-origin" not in names:
                added += self.origins.answer(origin)
        return [*headers, *added]

    @staticmethod
    def origin_of(scope: Scope) -> bytes | None:
        for name, value in scope["headers"]:
            if name == b"origin":
                found: bytes = value
                return found
        return None

    @staticmethod
    def is_preflight(scope: Scope) -> bool:
        return any(name == b"access-control-request-method" for name, _ in scope["headers"])


class Preflight:
    """The answer to a CORS preflight for any route."""

    def __init__(self, headers: list[tuple[bytes, bytes]]) -> None:
        self.headers = headers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = [*self.headers, (b"cache-control", b"no-store")]
        await send({"type": "http.response.start", "status": 204, "headers": headers})
        await send({"type": "http.response.body", "body": b""})


def is_admin(path: str) -> bool:
    return path in ADMIN_PATHS or path.startswith(ADMIN_PREFIXES)


def nothing_at(path: str) -> Problem:
    return Problem(BY_STATUS[404], f"nothing at {path}")


def admin_plane(app: ASGIApp) -> ASGIApp:
    """The application as the admin listener serves it."""

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        scope[PLANE] = "admin"
        await app(scope, receive, send)

    return serve

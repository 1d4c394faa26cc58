"""The routes that each listener serves, and the fields of every response: CORS and security.

Names are in the *raw* path, one percent-encoded segment each, so that ``%2F`` stays within its
segment: routing uses the undecoded path, and ``path_segments.decode_segment`` decodes.
"""

from collections.abc import Mapping

from starlette.types import ASGIApp, Receive, Scope, Send

from gateway.http.access.authenticator import NO_NODES, Authenticator
from gateway.http.access.authenticator import PLANE as PLANE
from gateway.http.access.quotas import LIMITS, chunked
from gateway.http.problems import BY_STATUS, Problem

Headers = list[tuple[bytes, bytes]]

ADMIN_PATHS = frozenset({"/", "/metrics", "/metrics/queues", "/livez", "/readyz", "/startupz"})
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
    """Chooses the application for a request and adds the fields that every response has.
    ``declared`` is the endpoint of declared routes, which is called from here because routing would
    be a third of the cost of a publish; ``probes`` are called from here because they are needed
    before the router is there."""

    def __init__(
        self, authenticator: Authenticator, declared: ASGIApp, probes: Mapping[str, ASGIApp]
    ) -> None:
        self.authenticator = authenticator
        self.declared = declared
        self.probes = probes
        self.apart = authenticator.dependencies.admin_apart
        self.take_settings()

    def take_settings(self) -> None:
        """As ``Authenticator.take_settings``, and after it."""
        authenticator = self.authenticator
        self.origins = authenticator.origins if authenticator.origins.known else None
        self.counts_octets = authenticator.quotas.counts_octets
        self.own = [*ALWAYS, (b"vary", b"Origin")] if authenticator.origins.known else ALWAYS

    # --- which endpoint -------------------------------------------------------------------------

    def choose(self, scope: Scope) -> ASGIApp | None:
        """The application for a request; ``None`` for the router. Raises ``Problem``."""
        raw: bytes | None = scope.get("raw_path")
        if raw is not None:
            path = raw.decode("ascii", "replace")
            # RabbitMQ's paths may end with a slash.
            scope["path"] = path[:-1] if path.startswith("/api/") and path[-1] == "/" else path
        path = scope["path"]
        on_admin = scope.get(PLANE) == "admin"
        if self.apart and not on_admin and is_admin(path):
            raise nothing_at(path)
        if scope["method"] == "OPTIONS" and self.origins is not None and self.is_preflight(scope):
            origin = self.origin_of(scope)
            if origin is not None:
                return Preflight(self.origins.preflight(origin))
        if path in self.probes and scope["method"] == "GET" and not scope["query_string"]:
            scope["endpoint"] = self.probes[path]
            return self.probes[path]
        parts = path.split("/")
        if len(parts) < 4 or parts[1] != "v1" or scope.get("root_path"):
            return None
        if parts[3] == "routes" and len(parts) == 6 and parts[5] == "messages":
            scope["endpoint"] = self.declared
            scope["path_params"] = {"vhost": parts[2], "route": parts[4]}
            return self.declared
        administers = parts[2] == "admin" and parts[3] not in RAW_NOUNS
        if not (self.authenticator.names_nodes(scope) or administers or parts[3] in OPEN_NOUNS):
            raise Problem(BY_STATUS[404], NO_NODES)
        return None

    def counting(self, scope: Scope, receive: Receive) -> Receive:
        """``receive``, within the quota of octets if the body has no known length."""
        if self.counts_octets and chunked(scope):
            return self.authenticator.quotas.counting(scope, receive)
        return receive

    # --- fields of every response --------------------------------------------------------------

    def complete(self, scope: Scope, headers: Headers) -> Headers:
        """A page has its own policy; all other responses get the strictest one."""
        names = {name for name, _ in headers}
        kind = next((value for name, value in headers if name == b"content-type"), b"")
        added = [pair for pair in ALWAYS if pair[0] not in names]
        if kind.startswith((b"text/", b"image/")) and not kind.startswith(b"text/event-stream"):
            added += [pair for pair in PAGE if pair[0] not in names]
        added += scope.get(LIMITS, ())
        if self.origins is not None:
            origin = self.origin_of(scope)
            if origin is None:
                added.append((b"vary", b"Origin"))
            elif b"access-control-allow-origin" not in names:
                added += self.origins.answer(origin)
        return [*headers, *added]

    def complete_own(self, scope: Scope, headers: Headers) -> Headers:
        """The same for an answer that has none of these fields, to a request without ``Origin``.
        Hot."""
        return [*headers, *self.own, *scope.get(LIMITS, ())]

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

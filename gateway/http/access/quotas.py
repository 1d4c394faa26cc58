"""Quotas of requests and of body octets, per caller, virtual host and declared route, with the
``RateLimit`` fields of draft-ietf-httpapi-ratelimit-headers."""

from collections.abc import Callable, Container, Hashable, Iterable
from typing import NamedTuple
from urllib.parse import unquote

from starlette.types import Message, Receive, Scope

from gateway.config.web import AccessSettings, DeclaredRoute, Quota
from gateway.http import problems
from gateway.http.access.principal import Principal
from gateway.http.problems import Problem
from gateway.net.buckets import Buckets, Left, Rate

LIMITS = "gateway.limits"
"""Key in a scope: the fields for the answer."""
OCTETS_KEY = "gateway.octets"
"""Key in a scope: the buckets that are charged for a body of unknown length."""


class Limit(NamedTuple):
    """One kind of quota. ``name`` is its name in fields and problems; "octets" counts body octets,
    all others count requests."""

    name: str
    buckets: Buckets
    octets: bool

    @property
    def policy(self) -> str:
        rate = self.buckets.rate
        return f'"{self.name}";q={int(rate.burst)};w={max(1, round(rate.seconds))}'

    def field(self, left: Left) -> str:
        return f'"{self.name}";r={left.remaining};t={left.seconds}'


class Quotas:
    """All buckets. ``vhosts`` are the existing virtual hosts; other names have no quota."""

    def __init__(
        self,
        settings: AccessSettings,
        routes: Iterable[DeclaredRoute],
        clock: Callable[[], float],
        vhosts: Container[str],
    ) -> None:
        def limits(prefix: str, quota: Quota) -> list[Limit]:
            found = []
            if quota.requests is not None:
                rate = Rate(quota.requests, quota.requests_seconds)
                found.append(Limit(f"{prefix}requests", Buckets(rate, clock), False))
            if quota.octets is not None:
                rate = Rate(quota.octets, quota.octets_seconds)
                found.append(Limit(f"{prefix}octets", Buckets(rate, clock), True))
            return found

        self.vhosts = vhosts
        self.of_caller = limits("", settings.quota)
        self.of_vhost = limits("vhost-", settings.vhost_quota)
        self.of_route = {
            (route.vhost, route.name): limits("route-", route.quota) for route in routes
        }
        everything = [*self.of_caller, *self.of_vhost]
        self.active = bool(everything)
        for one in self.of_route.values():
            everything += one
        self.counts_octets = any(limit.octets for limit in everything)

    def charge(self, principal: Principal, scope: Scope) -> None:
        """Raises ``Problem`` (429) when a quota is used up."""
        use: list[tuple[Limit, Hashable]] = [(one, principal.identity) for one in self.of_caller]
        if self.of_vhost:
            vhost = vhost_in(scope)
            if vhost in self.vhosts:
                use += [(one, vhost) for one in self.of_vhost]
        self.apply(scope, use)

    def charge_routes(self, scope: Scope, routes: list[DeclaredRoute]) -> None:
        """Raises ``Problem`` (429) when the quota of a declared route is used up."""
        use: list[tuple[Limit, Hashable]] = []
        for name in dict.fromkeys((route.vhost, route.name) for route in routes):
            use += [(one, name) for one in self.of_route.get(name, ())]
        if use:
            self.apply(scope, use)

    def apply(self, scope: Scope, use: list[tuple[Limit, Hashable]]) -> None:
        """Charge all quotas, or none if one is exhausted."""
        length = length_of(scope)
        asked = [(limit, key, length if limit.octets else 1.0) for limit, key in use]
        lefts = [(limit, limit.buckets.look(key, amount)) for limit, key, amount in asked]
        refused = next((pair for pair in lefts if not pair[1].allowed), None)
        if refused is None:
            lefts = [(limit, limit.buckets.take(key, amount)) for limit, key, amount in asked]
            scope.setdefault(OCTETS_KEY, []).extend(
                (limit.buckets, key) for limit, key in use if limit.octets
            )
        before = dict(scope.get(LIMITS, ()))
        for name, said in (
            (b"ratelimit-policy", [limit.policy for limit, _ in lefts]),
            (b"ratelimit", [limit.field(left) for limit, left in lefts]),
        ):
            known = [before[name]] if name in before else []
            before[name] = b", ".join([*known, *(one.encode() for one in said)])
        scope[LIMITS] = [pair for pair in before.items() if pair[1]]
        if refused is not None:
            limit, left = refused
            raise Problem(
                problems.QUOTA,
                f"the quota of {limit.name} is used up",
                retry_after=left.seconds,
                quota=limit.name,
            )

    def counting(self, scope: Scope, receive: Receive) -> Receive:
        """``receive`` that charges a body without ``Content-Length`` while it is read."""

        async def receiving() -> Message:
            message = await receive()
            if message["type"] == "http.request":
                for buckets, key in scope.get(OCTETS_KEY, ()):
                    buckets.charge(key, len(message.get("body", b"")))
            return message

        return receiving


def vhost_in(scope: Scope) -> str | None:
    """The virtual host in a path."""
    raw: bytes = scope.get("raw_path") or scope["path"].encode("utf-8", "replace")
    parts = raw.split(b"/", 3)
    return unquote(parts[2].decode("latin-1")) if len(parts) > 3 and parts[1] == b"v1" else None


def length_of(scope: Scope) -> float:
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit():
            return float(value[:15])
    return 0.0


def chunked(scope: Scope) -> bool:
    return any(name == b"transfer-encoding" for name, _ in scope["headers"])

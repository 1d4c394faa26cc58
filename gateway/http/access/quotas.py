"""How much a caller may ask for: requests and octets of bodies, with the ``RateLimit`` fields of
draft-ietf-httpapi-ratelimit-headers."""

from starlette.types import Message, Receive, Scope

from gateway.http import problems
from gateway.http.access.buckets import Buckets, Left
from gateway.http.access.principal import Principal
from gateway.http.problems import Problem

LIMITS = "gateway.limits"
"""In a scope: the fields for the answer."""
OCTETS_KEY = "gateway.octets"
"""In a scope: whose bucket a body of unknown length is charged to."""


class Quotas:
    """Buckets per principal; ``None`` is unlimited."""

    def __init__(self, requests: Buckets | None, octets: Buckets | None) -> None:
        self.requests = requests
        self.octets = octets
        self.active = requests is not None or octets is not None
        policies = [
            f'"{name}";q={int(buckets.rate.burst)};w={max(1, round(buckets.rate.seconds))}'
            for name, buckets in (("requests", requests), ("octets", octets))
            if buckets is not None
        ]
        self.policy = ", ".join(policies).encode()

    def charge(self, principal: Principal, scope: Scope) -> None:
        """Raises ``Problem`` (429) when the quota is used up."""
        key = principal.identity
        lefts: dict[str, Left] = {}
        if self.requests is not None:
            lefts["requests"] = self.requests.take(key)
        if self.octets is not None:
            if all(left.allowed for left in lefts.values()):
                lefts["octets"] = self.octets.take(key, length_of(scope))
            scope[OCTETS_KEY] = key
        fields = ", ".join(
            [f'"{name}";r={left.remaining};t={left.seconds}' for name, left in lefts.items()]
        )
        scope[LIMITS] = [
            (b"ratelimit-policy", self.policy),
            (b"ratelimit", fields.encode()),
        ]
        for name, left in lefts.items():
            if not left.allowed:
                raise Problem(
                    problems.QUOTA,
                    f"the quota of {name} is used up",
                    retry_after=left.seconds,
                    quota=name,
                )

    def counting(self, scope: Scope, receive: Receive) -> Receive:
        """Charges a body without ``Content-Length`` as it comes."""
        octets = self.octets

        async def receiving() -> Message:
            message = await receive()
            key = scope.get(OCTETS_KEY)
            if key is not None and octets is not None and message["type"] == "http.request":
                octets.charge(key, len(message.get("body", b"")))
            return message

        return receiving


def length_of(scope: Scope) -> float:
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit():
            return float(value[:15])
    return 0.0


def chunked(scope: Scope) -> bool:
    return any(name == b"transfer-encoding" for name, _ in scope["headers"])

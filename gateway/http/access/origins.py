"""Checks of the requesting page: origins, Fetch Metadata, and CORS responses (finite lists, no
``*``)."""

from collections.abc import Iterable

from starlette.types import Scope

from gateway.http import problems
from gateway.http.fields import READERS
from gateway.http.problems import Problem

SAFE = frozenset({"GET", "HEAD"})
MAX_AGE_SECONDS = 7200
METHODS = "GET, HEAD, POST, PUT, PATCH, DELETE, QUERY"
ALLOWED = (
    *("authorization", "content-type", "content-digest", "idempotency-key", "last-event-id"),
    *("prefer", "receive-attempt-id", "traceparent", "tracestate", "baggage", "x-request-id"),
)
EXPOSED = (
    *("location", "retry-after", "ratelimit", "ratelimit-policy", "content-digest", "etag"),
    *("idempotency-replayed", "preference-applied", "traceparent", "x-request-id"),
    *(
        "amqp-message-id",
        "amqp-outcome",
        "amqp-durability",
        "amqp-stream-id",
        "amqp-resume",
        "amqp-property",
    ),
)

Headers = list[tuple[bytes, bytes]]


def listed(*groups: tuple[str, ...]) -> bytes:
    return ", ".join(dict.fromkeys(name for group in groups for name in group)).encode()


def amqp_fields() -> tuple[str, ...]:
    names = {name.decode() for name in READERS} | {"amqp-property"}
    return tuple(sorted(name for name in names if name.startswith("amqp-")))


class Origins:
    """The configured origins."""

    def __init__(self, origins: Iterable[str], credentials: bool) -> None:
        self.known = frozenset(origin.encode("ascii") for origin in origins)
        self.credentials = credentials
        self.allow = listed(ALLOWED, amqp_fields())
        self.expose = listed(EXPOSED, amqp_fields())

    def own(self, scope: Scope, origin: bytes) -> bool:
        """Whether an ``Origin`` is this server. A proxy may terminate TLS, so the scheme is not
        compared."""
        host = next((value for name, value in scope["headers"] if name == b"host"), b"")
        return bool(host) and origin in (b"http://" + host, b"https://" + host)

    def trusted(self, scope: Scope, origin: bytes) -> bool:
        return origin in self.known or self.own(scope, origin)

    def check_ambient(
        self,
        scope: Scope,
        origin: bytes | None,
        site: bytes | None,
        mode: bytes | None,
        session: bool = False,
    ) -> None:
        """Credentials that a browser adds by itself are accepted only from pages of this server and
        of listed origins, also for reads, since a stream takes messages. A listed page that may not
        use them can still send its own password, but only in a request of mode "cors". A
        ``session`` is always added by the browser. Raises ``Problem``."""
        if origin is not None:
            if not self.trusted(scope, origin):
                raise Problem(problems.FORBIDDEN, "pages of this origin may not use this gateway")
            remembered = session or mode not in (None, b"cors")
            if remembered and not (self.credentials or self.own(scope, origin)):
                raise Problem(
                    problems.FORBIDDEN,
                    "pages of this origin may not use stored credentials (http.origin_credentials)",
                )
            return
        if site in (None, b"same-origin", b"none"):
            return
        opening = mode == b"navigate" and scope["method"] in SAFE
        if opening and not scope["path"].startswith("/v1/"):
            return  # a link to the console
        raise Problem(problems.FORBIDDEN, "cross-site requests may not change anything")

    def preflight(self, origin: bytes) -> Headers:
        """The answer to a preflight. Raises ``Problem`` for an origin that is not listed."""
        if origin not in self.known:
            raise Problem(
                problems.FORBIDDEN,
                "this origin is not allowed",
                headers={"vary": "Origin, Access-Control-Request-Method"},
            )
        return [
            *self.answer(origin),
            (b"access-control-allow-methods", METHODS.encode()),
            (b"access-control-allow-headers", self.allow),
            (b"access-control-max-age", b"%d" % MAX_AGE_SECONDS),
        ]

    def answer(self, origin: bytes) -> Headers:
        """The CORS fields of a response."""
        headers: Headers = [(b"vary", b"Origin")]
        if origin in self.known:
            headers.append((b"access-control-allow-origin", origin))
            headers.append((b"access-control-expose-headers", self.expose))
            if self.credentials:
                headers.append((b"access-control-allow-credentials", b"true"))
        return headers

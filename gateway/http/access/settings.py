"""Plain settings of access, handed in by the composition root. Times are seconds."""

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from gateway.net.buckets import Rate

ASYMMETRIC = ("RS256", "PS256", "ES256", "Ed25519", "EdDSA", "RS384", "RS512", "PS384", "PS512",
              "ES384", "ES512")  # fmt: skip


class BearerSettings(NamedTuple):
    """Whose tokens are taken. Exactly one of ``jwks`` (a file or a URL) and ``secret`` is set."""

    issuer: str
    audience: str
    jwks: str = ""
    secret: bytes = b""
    algorithms: tuple[str, ...] = ASYMMETRIC
    leeway_seconds: int = 30
    refresh_seconds: float = 600.0
    user_claim: str = ""
    user: str = ""
    scope_prefix: str = ""
    resource: str = ""

    def __repr__(self) -> str:
        return f"BearerSettings(issuer={self.issuer!r})"


class DeclaredRoute(NamedTuple):
    """A stable name for a target, safe to show to browsers. ``key`` may hold ``{name}`` of query
    parameters. ``schema`` is a JSON Schema for bodies. ``idempotency``: whether a publish needs
    an ``Idempotency-Key``. The rates, ``max_streams`` and ``max_leases`` (what streams with
    ``ack=explicit`` may hold at once) are of all its callers together."""

    name: str
    vhost: str = "/"
    queue: str = ""
    exchange: str = ""
    key: str = ""
    publish: bool = True
    stream: bool = False
    schema: dict[str, Any] | None = None
    max_body_octets: int = 1 << 20
    content_types: tuple[str, ...] = ("application/json",)
    unroutable: Literal["refuse", "drop"] = "refuse"
    idempotency: Literal["optional", "required"] = "optional"
    request_rate: Rate | None = None
    octet_rate: Rate | None = None
    max_streams: int | None = None
    max_leases: int | None = None


@dataclass(slots=True, frozen=True)
class AccessSettings:
    """Everything about who may do what over HTTP."""

    failures: int = 20
    failure_seconds: float = 60.0
    bearer: BearerSettings | None = None
    session_seconds: float = 8 * 3600.0
    plain_cookie: bool = False
    """Sessions over plain http from this machine, under a name without ``__Host-``."""
    max_sessions: int = 10_000
    ticket_seconds: float = 60.0
    ticket_idle_seconds: float = 900.0
    origins: tuple[str, ...] = ()
    origin_credentials: bool = False
    request_rate: Rate | None = None
    octet_rate: Rate | None = None
    vhost_request_rate: Rate | None = None
    vhost_octet_rate: Rate | None = None
    max_streams_per_vhost: int | None = None
    """Of all callers of one virtual host together."""
    raw_nodes: bool = True
    admin_apart: bool = False
    routes: tuple[DeclaredRoute, ...] = ()

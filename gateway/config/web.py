"""Settings of the HTTP side: one model for each area, and the tables that they make in the file.

``HttpSettings`` is the table ``[http]``: its areas are apart so that each part of ``gateway.http``
takes the one it needs, and their keys stand in one table. ``gateway.http`` and its tests use these
models as they are, so a limit has one name, one meaning and one default.
"""

import json
import re
from functools import cached_property
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator

from gateway.config.section import AtStart, Live, Section
from gateway.errors import ConfigError

Algorithm = Literal[
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512",
    "Ed25519", "EdDSA",
]  # fmt: skip
ORIGIN = re.compile(r"https?://(\[[0-9a-f:.]+\]|[a-z0-9.-]+)(:[0-9]{1,5})?")


SECRET_OCTETS = 32
"""Minimum octets of a shared secret."""


def read_named(path: Path, key: str) -> bytes:
    """The content of a file named by a setting. Raises ``ConfigError``."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{key}: {path}: {error.strerror}") from None


def trustworthy(where: str) -> bool:
    """Whether this is a file, or a URL whose answers cannot be forged in transit."""
    if "://" not in where:
        return True
    parts = urlsplit(where)
    local = parts.hostname in ("localhost", "127.0.0.1", "::1")
    return parts.scheme == "https" or (parts.scheme == "http" and local)


class BearerSettings(Section):
    """Access tokens (JWTs) of one issuer. Off without an issuer."""

    issuer: str = Field("", description="`iss` of the tokens; empty: no tokens are accepted")
    audience: str = Field("", description="required value of `aud`")
    jwks: str = Field(
        "", description="the issuer's keys (JWKS): a file, or a URL (https, or http on loopback)"
    )
    secret_file: Path | None = Field(
        None, description="instead of jwks: file with a shared secret of 32 octets or more (HS256)"
    )
    algorithms: list[Algorithm] = Field(
        ["RS256", "PS256", "ES256", "Ed25519", "EdDSA"],
        description="accepted signature algorithms with jwks",
    )
    leeway_seconds: int = Field(30, ge=0, le=300, description="tolerated clock difference")
    refresh_seconds: float = Field(600, ge=15, description="age at which keys are refetched")
    user_claim: str = Field("", description="claim that names the broker's user")
    user: str = Field("", description="broker's user for tokens without that claim")
    scope_prefix: str = Field("", description="prefix of the gateway's words in `scope`")
    resource: str = Field(
        "", description="URL of this gateway, for protected-resource metadata (RFC 9728)"
    )

    @model_validator(mode="after")
    def _complete(self) -> "BearerSettings":
        if not self.issuer:
            if self.jwks or self.secret_file or self.audience:
                raise ValueError("bearer tokens need an issuer")
            return self
        if not self.audience:
            raise ValueError("bearer tokens need an audience")
        if bool(self.jwks) == bool(self.secret_file):
            raise ValueError("bearer tokens need jwks or secret_file, and not both")
        if not (self.user_claim or self.user):
            raise ValueError("bearer tokens need user_claim or user")
        if self.jwks and not trustworthy(self.jwks):
            raise ValueError("jwks must be a file, an https URL or an http URL on loopback")
        return self

    @cached_property
    def secret(self) -> bytes:
        """The shared secret; empty if keys come from ``jwks``. Raises ``ConfigError``."""
        if self.secret_file is None:
            return b""
        secret = read_named(self.secret_file, "http.bearer.secret_file").strip()
        if len(secret) < SECRET_OCTETS:
            raise ConfigError(
                f"http.bearer.secret_file: a shared secret has {SECRET_OCTETS} octets or more"
            )
        return secret

    @property
    def accepted_algorithms(self) -> list[str]:
        """The accepted algorithms: HS256 for a shared secret, otherwise ``algorithms``."""
        return ["HS256"] if self.secret_file is not None else list(self.algorithms)


class SessionSettings(Section):
    """Sessions of browsers."""

    seconds: float = Field(28800, ge=60, description="longest life of a session")
    plain_http: bool = Field(
        False, description="true: a cookie without __Host- for plain http on loopback"
    )
    max_sessions: int = Field(10000, ge=1, description="sessions at once, and tickets at once")


class TicketSettings(Section):
    """Stream tickets."""

    seconds: float = Field(
        60, ge=1, le=300, description="time within which a ticket must first be used"
    )
    idle_seconds: float = Field(
        900, ge=1, description="time without a connection after which a ticket's session ends"
    )


class Quota(Section):
    """Limits of one caller; off by default."""

    requests: int | None = Field(None, ge=1, description="requests per requests_seconds")
    requests_seconds: float = Field(1, gt=0, description="period of the limit on requests")
    octets: int | None = Field(None, ge=1, description="body octets per octets_seconds")
    octets_seconds: float = Field(1, gt=0, description="period of the limit on octets")


class SharedQuota(Quota):
    """Limits of all callers of a virtual host together."""

    streams: int | None = Field(None, ge=0, description="event streams at once")


class RouteQuota(SharedQuota):
    """Limits of all callers of one declared route together."""

    leases: int | None = Field(None, ge=0, description="unsettled messages of ack=explicit at once")


class HttpListenerSettings(Section):
    """The HTTP listener, and limits of one connection."""

    host: AtStart[str] = Field("127.0.0.1", description="address to listen on")
    port: AtStart[int] = Field(8080, ge=0, le=65535, description="TCP port; 0 takes a free one")
    trusted_proxies: AtStart[list[str]] = Field(
        [], description="proxies whose X-Forwarded-For and X-Forwarded-Proto are trusted"
    )
    max_head_octets: Live[int] = Field(65536, ge=4096, description="largest request head")
    max_connections: Live[int] = Field(20000, ge=1, description="HTTP connections at once")
    idle_seconds: Live[float] = Field(
        30,
        gt=0,
        description="time without progress after which a request or its answer is dropped",
    )
    log_requests: Live[bool] = Field(False, description="log a line for each request")
    canary_seconds: Live[float] = Field(
        2, gt=0, description="time limit for the publish behind /readyz"
    )


class AccessSettings(Section):
    """Access: origins, failed logins, tokens, sessions and quotas."""

    raw_nodes: AtStart[bool] = Field(
        True,
        description="false: only declared routes; queues and exchanges cannot be addressed by name",
    )
    origins: Live[list[str]] = Field(
        [], description="origins whose pages may use the gateway (CORS)"
    )
    origin_credentials: Live[bool] = Field(
        False, description="true: pages of these origins may send cookies and passwords"
    )
    failures: Live[int] = Field(
        20, ge=1, description="wrong passwords for one user from one address within failure_seconds"
    )
    failure_seconds: Live[float] = Field(60, gt=0, description="period of failures")
    bearer: Live[BearerSettings] = Field(default_factory=BearerSettings)
    session: Live[SessionSettings] = Field(default_factory=SessionSettings)
    tickets: Live[TicketSettings] = Field(default_factory=TicketSettings)
    quota: Live[Quota] = Field(default_factory=Quota)
    vhost_quota: Live[SharedQuota] = Field(default_factory=SharedQuota)

    @field_validator("origins")
    @classmethod
    def _origins(cls, given: list[str]) -> list[str]:
        for origin in given:
            if not ORIGIN.fullmatch(origin):
                raise ValueError(f"{origin!r} is no origin, such as https://app.example")
        return given


class PublishSettings(Section):
    """Limits of publishing, and times of waiting for it."""

    max_body_octets: Live[int] = Field(16 << 20, ge=1, description="largest request body")
    max_inflight_octets: Live[int] = Field(
        256 << 20, ge=1, description="total octets of request bodies being received"
    )
    spool_octets: Live[int] = Field(
        1 << 20, ge=1, description="larger request bodies are buffered in a file"
    )
    spool_dir: AtStart[Path | None] = Field(
        None, description="directory of large bodies; unset: in data_dir"
    )
    max_batch_items: Live[int] = Field(1000, ge=1, description="messages in a batch document")
    max_batch_octets: Live[int] = Field(
        4 << 20, ge=1, description="octets of a batch document, or of a line of a streamed batch"
    )
    stream_window: Live[int] = Field(
        1000, ge=1, description="unconfirmed messages in a streamed batch"
    )
    confirm_seconds: Live[float] = Field(
        10, gt=0, le=60, description="time to wait for the broker's confirm"
    )
    confirm_most_seconds: Live[float] = Field(
        60, gt=0, description="longest time that Prefer: wait may request"
    )
    retry_after_seconds: Live[int] = Field(
        1,
        ge=1,
        le=3600,
        description="`Retry-After` while a destination is full or publishers are paused",
    )
    idempotency_seconds: Live[int] = Field(
        3600, ge=1, le=86400, description="time that the outcome of an idempotency key is kept"
    )
    max_idempotency_keys: Live[int] = Field(
        100_000, ge=1, description="idempotency keys kept per caller"
    )
    max_replay_blocks: Live[int] = Field(
        65_536,
        ge=1,
        description="blocks of 4096 keys kept per caller for its replays, until they are deleted",
    )
    max_operations: Live[int] = Field(
        1000, ge=1, description="results of respond-async kept per caller"
    )
    operation_seconds: Live[int] = Field(
        600, ge=1, description="time that a result of respond-async is kept"
    )
    max_operation_octets: Live[int] = Field(
        64 << 20, ge=1, description="total octets of these results; the oldest are removed first"
    )


class ReceiveSettings(Section):
    """Receives, leases, dead letters, requests and their replies."""

    receive_octets: Live[int] = Field(
        16 << 20, ge=1, description="octets of message bodies in one receive"
    )
    max_leases_per_user: Live[int] = Field(10000, ge=1, description="leases of one user")
    max_receives_per_user: Live[int] = Field(1000, ge=1, description="waiting receives of one user")
    redrive_seconds: Live[float] = Field(
        30, gt=0, description="time after which a redrive returns with a continuation"
    )
    reply_seconds: Live[float] = Field(
        30, gt=0, description="time to wait for the reply to a request"
    )
    async_reply_seconds: Live[float] = Field(
        600, gt=0, description="time to wait for the reply with Prefer: respond-async"
    )
    late_reply_seconds: Live[float] = Field(
        60, ge=0, description="time during which late replies are still counted"
    )
    max_requests_per_user: Live[int] = Field(1000, ge=1, description="waiting requests of one user")


class EventSettings(Section):
    """Event streams and their journals."""

    max_streams: Live[int] = Field(5000, ge=1, description="event streams at once")
    max_streams_per_user: Live[int] = Field(5000, ge=1, description="event streams of one user")
    max_sources_per_stream: Live[int] = Field(
        64, ge=1, le=64, description="sources of one event stream"
    )
    max_sources: Live[int] = Field(
        4096, ge=1, description="sources with a journal, read or lingering"
    )
    heartbeat_seconds: Live[int] = Field(
        15, ge=5, le=55, description="heartbeat of an event stream whose request sets none"
    )
    reconnect_ms: Live[int] = Field(
        2500,
        ge=1,
        description="reconnect time sent to readers of events, spread by half in both directions",
    )
    stall_seconds: Live[float] = Field(
        30,
        gt=0,
        description="time after which a reader whose socket accepts nothing is disconnected",
    )
    queue_prefetch: Live[int] = Field(
        256,
        ge=2,
        le=65535,
        description="messages of a queue source that may wait to be written to its first reader",
    )
    journal_events: Live[int] = Field(10000, ge=1, description="events of a source kept in memory")
    journal_octets: Live[int] = Field(
        32 << 20, ge=1, description="octets of a source kept in memory"
    )
    linger_seconds: Live[float] = Field(
        120, ge=0, description="time that a source without readers is kept"
    )
    durable_sources: Live[list[str]] = Field(
        [], description="globs over `exchange:NAME?binding=KEY`: sources with a durable journal"
    )
    max_durable_sources: Live[int] = Field(64, ge=0, description="durable journals at once")
    durable_linger_seconds: Live[float] = Field(
        7 * 86400, ge=0, description="time that a durable journal without readers is kept"
    )
    stream_seconds: Live[float] = Field(
        86400, ge=0, description="longest life of an event stream; 0 is no limit"
    )
    drain_spread_ms: Live[int] = Field(
        10000, ge=0, description="time over which readers reconnect after a shutdown"
    )
    browser_streams_warn: Live[int] = Field(
        3, ge=1, description="number of streams at which a browser over HTTP/1.1 is warned"
    )
    browser_streams_max: Live[int] = Field(
        4, ge=0, description="streams of one browser over HTTP/1.1; 0 is no limit"
    )


class HttpSettings(
    EventSettings, ReceiveSettings, PublishSettings, AccessSettings, HttpListenerSettings
):
    """The table ``[http]``."""


class AdminSettings(Section):
    """A separate listener for the console, health, metrics and administration."""

    host: AtStart[str] = Field("127.0.0.1", description="address to listen on")
    port: AtStart[int | None] = Field(
        None,
        ge=0,
        le=65535,
        description="TCP port; unset: administration is served on the HTTP port",
    )


class DeclaredRoute(Section):
    """A declared route: a stable name for a target, for callers that must not name nodes."""

    name: str = Field(pattern=r"^[A-Za-z0-9._~-]{1,128}$", description="name in the path")
    vhost: str = Field("/", description="virtual host of the target")
    queue: str = Field("", max_length=255, description="target queue")
    exchange: str = Field("", max_length=255, description="or target exchange")
    key: str = Field("", max_length=255, description="routing key; `{word}` is a query parameter")
    publish: bool = Field(True, description="whether messages may be published")
    stream: bool = Field(False, description="whether events may be read")
    json_schema: Path | None = Field(
        None, description="JSON Schema of bodies, patterns in RE2 (extra `schema`)"
    )
    max_body_octets: int = Field(1 << 20, ge=1, description="largest body")
    content_types: list[str] = Field(
        ["application/json"], min_length=1, description="accepted content types"
    )
    unroutable: Literal["refuse", "drop"] = Field(
        "refuse",
        description="answer for a message that no queue takes: 409 (`refuse`), or 200 (`drop`)",
    )
    idempotency: Literal["optional", "required"] = Field(
        "optional", description="whether a publish needs an Idempotency-Key"
    )
    quota: RouteQuota = Field(default_factory=RouteQuota)

    @model_validator(mode="after")
    def _target(self) -> "DeclaredRoute":
        if bool(self.queue) == bool(self.exchange):
            raise ValueError("a route has a queue or an exchange, and not both")
        if self.queue and self.key:
            raise ValueError("only a route to an exchange has a key")
        return self

    @field_validator("content_types")
    @classmethod
    def _content_types(cls, given: list[str]) -> list[str]:
        return [kind.lower() for kind in given]

    @cached_property
    def schema_document(self) -> dict[str, Any] | None:
        """The JSON Schema of bodies. Raises ``ConfigError``."""
        if self.json_schema is None:
            return None
        octets = read_named(self.json_schema, f"routes.{self.name}")
        try:
            found: dict[str, Any] = json.loads(octets)
        except ValueError as error:
            raise ConfigError(f"routes.{self.name}: {self.json_schema}: {error}") from None
        return found

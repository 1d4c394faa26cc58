"""Configuration: defaults that need no file, a TOML file, and environment variables over both.

``AMQP_GATEWAY_AMQP__PORT=5673`` overrides ``[amqp] port``. Lower floors never see this module:
``gateway.app`` hands them plain values.
"""

import os
import re
import tomllib
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

import platformdirs
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from gateway.errors import ConfigError

Algorithm = Literal[
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512",
    "Ed25519", "EdDSA",
]  # fmt: skip
ORIGIN = re.compile(r"https?://(\[[0-9a-f:.]+\]|[a-z0-9.-]+)(:[0-9]{1,5})?")


def trustworthy(where: str) -> bool:
    """A file, or a URL that nobody on the way can answer."""
    if "://" not in where:
        return True
    parts = urlsplit(where)
    local = parts.hostname in ("localhost", "127.0.0.1", "::1")
    return parts.scheme == "https" or (parts.scheme == "http" and local)


class Section(BaseModel):
    """A table of the file. Unknown keys are errors: a misspelt limit must not be ignored."""

    model_config = ConfigDict(extra="forbid")


class Tls(Section):
    """Certificate for the TLS port and for TLS on the plain port."""

    port: int | None = Field(default=None, ge=0, le=65535, description="TLS-only port, often 5671")
    certificate: Path | None = Field(default=None, description="PEM file with the chain")
    key: Path | None = Field(default=None, description="PEM file with the private key")
    client_ca: Path | None = Field(
        default=None, description="PEM file; clients must then show a certificate of this authority"
    )

    @model_validator(mode="after")
    def _complete(self) -> "Tls":
        if (self.port is not None or self.key or self.client_ca) and not self.certificate:
            raise ValueError("TLS needs a certificate")
        if self.certificate and not self.key:
            raise ValueError("TLS needs a key")
        return self


class Amqp(Section):
    """The AMQP listener."""

    host: str = Field(default="127.0.0.1", description="address to listen on")
    port: int = Field(default=5672, ge=0, le=65535, description="TCP port; 0 takes a free one")
    header_0_9: Literal["0-9"] = Field(
        default="0-9", description="what the header AMQP 1 1 0 9 means on this listener"
    )
    mechanisms: list[Literal["PLAIN", "AMQPLAIN", "SCRAM-SHA-256", "EXTERNAL", "ANONYMOUS"]] = (
        Field(
            default=["PLAIN", "AMQPLAIN", "SCRAM-SHA-256", "EXTERNAL", "ANONYMOUS"],
            description="SASL mechanisms allowed; EXTERNAL needs a client certificate, "
            "ANONYMOUS an anonymous_user",
        )
    )
    anonymous_user: str | None = Field(
        default=None, description="the user that ANONYMOUS logins act as"
    )
    compat: Literal["", "rabbitmq-4"] = Field(
        default="", description="broker that clients of 1.0 are told they talk to, if they insist"
    )
    handshake_seconds: float = Field(
        default=10, gt=0, description="a peer that has not opened by then is dropped"
    )
    heartbeat_seconds: int = Field(default=60, ge=0, le=65535, description="proposed heartbeat")
    frame_max: int = Field(default=131072, ge=4096, description="largest frame, octets")
    channel_max: int = Field(default=2047, ge=1, le=65535, description="channels per connection")
    max_connections: int = Field(default=10000, ge=1, description="connections in all")
    max_message_octets: int = Field(
        default=128 << 20, ge=1, description="largest message body, octets"
    )
    tls: Tls = Field(default_factory=Tls)


class Bearer(Section):
    """Whose access tokens (JWTs) are taken. Off without an issuer."""

    issuer: str = Field(default="", description="`iss` of the tokens; empty takes no tokens")
    audience: str = Field(default="", description="what `aud` must hold")
    jwks: str = Field(
        default="", description="keys of the issuer: a file, or a URL (https, or http on loopback)"
    )
    secret_file: Path | None = Field(
        default=None, description="instead: a file with a shared secret of 32 octets or more, HS256"
    )
    algorithms: list[Algorithm] = Field(
        default=["RS256", "PS256", "ES256", "Ed25519", "EdDSA"],
        description="signature algorithms taken with jwks",
    )
    leeway_seconds: int = Field(default=30, ge=0, le=300, description="by which clocks may differ")
    refresh_seconds: float = Field(default=600, ge=15, description="age at which keys are had anew")
    user_claim: str = Field(default="", description="claim that names the broker's user")
    user: str = Field(default="", description="broker's user for tokens without that claim")
    scope_prefix: str = Field(default="", description="what stands before our words in `scope`")
    resource: str = Field(
        default="", description="URL of this gateway, for protected-resource metadata (RFC 9728)"
    )

    @model_validator(mode="after")
    def _complete(self) -> "Bearer":
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


class Session(Section):
    """Sessions of browsers."""

    seconds: float = Field(default=28800, ge=60, description="longest life of a session")
    plain_http: bool = Field(
        default=False, description="true: a cookie without __Host- for plain http on loopback"
    )
    max_sessions: int = Field(default=10000, ge=1, description="sessions, and tickets, at once")


class Tickets(Section):
    """Stream tickets."""

    seconds: float = Field(default=60, ge=1, le=300, description="time to the first use")
    idle_seconds: float = Field(
        default=900, ge=1, description="time without a connection that ends a ticket's session"
    )


class Quota(Section):
    """What one caller may ask for; off by default."""

    requests: int | None = Field(default=None, ge=1, description="requests in requests_seconds")
    requests_seconds: float = Field(default=1, gt=0, description="time that requests are for")
    octets: int | None = Field(default=None, ge=1, description="body octets in octets_seconds")
    octets_seconds: float = Field(default=1, gt=0, description="time that octets are for")


class SharedQuota(Quota):
    """Of all callers together."""

    streams: int | None = Field(default=None, ge=0, description="event streams at once")


class Http(Section):
    """The HTTP listener."""

    host: str = Field(default="127.0.0.1", description="address to listen on")
    port: int = Field(default=8080, ge=0, le=65535, description="TCP port; 0 takes a free one")
    trusted_proxies: list[str] = Field(
        default=[], description="addresses whose X-Forwarded-For and -Proto are believed"
    )
    canary_seconds: float = Field(
        default=2, gt=0, description="how long the publish behind /readyz may take"
    )
    log_requests: bool = Field(default=False, description="a line in the log for each request")
    raw_nodes: bool = Field(
        default=True, description="false: only declared routes, no queue or exchange by its name"
    )
    origins: list[str] = Field(
        default=[], description="origins whose pages may use the gateway (CORS)"
    )
    origin_credentials: bool = Field(
        default=False, description="true: those pages may send cookies and passwords"
    )
    failures: int = Field(default=20, ge=1, description="wrong passwords of a peer in a while")
    failure_seconds: float = Field(default=60, gt=0, description="that while")
    max_head_octets: int = Field(default=65536, ge=4096, description="largest request head")
    max_connections: int = Field(default=20000, ge=1, description="HTTP connections at once")
    idle_seconds: float = Field(
        default=30, gt=0, description="a request that makes no progress is dropped"
    )
    max_body_octets: int = Field(default=16 << 20, ge=1, description="largest request body")
    max_inflight_octets: int = Field(
        default=256 << 20, ge=1, description="request bodies still coming in, all together"
    )
    spool_octets: int = Field(
        default=1 << 20, ge=1, description="a larger body waits in a temporary file"
    )
    max_batch_items: int = Field(default=1000, ge=1, description="messages of a batch document")
    max_batch_octets: int = Field(
        default=4 << 20, ge=1, description="a batch document, or a line of a streamed batch"
    )
    spool_dir: Path | None = Field(
        default=None, description="directory of those files; unset: `spool` in the data directory"
    )
    stream_window: int = Field(
        default=1000, ge=1, description="unconfirmed messages of a streamed batch"
    )
    confirm_seconds: float = Field(default=10, gt=0, le=60, description="wait for the broker")
    confirm_most_seconds: float = Field(
        default=60, gt=0, description="the longest that Prefer: wait can ask for"
    )
    idempotency_seconds: int = Field(
        default=3600, ge=1, le=86400, description="how long the outcome of a key is kept"
    )
    max_idempotency_keys: int = Field(default=100_000, ge=1, description="keys kept per caller")
    max_operations: int = Field(
        default=1000, ge=1, description="answers kept per caller for respond-async"
    )
    operation_seconds: int = Field(default=600, ge=1, description="how long they are kept")
    max_operation_octets: int = Field(
        default=64 << 20, ge=1, description="all kept answers together; the oldest make room"
    )
    receive_octets: int = Field(default=16 << 20, ge=1, description="bodies in one receive")
    max_leases_per_user: int = Field(default=10000, ge=1, description="leases of one user")
    max_receives_per_user: int = Field(
        default=1000, ge=1, description="receives of one user that wait for a message"
    )
    redrive_seconds: float = Field(
        default=30, gt=0, description="time after which a redrive says how to go on"
    )
    reply_seconds: float = Field(default=30, gt=0, description="wait for the reply to a request")
    async_reply_seconds: float = Field(
        default=600, gt=0, description="wait for the reply with Prefer: respond-async"
    )
    late_reply_seconds: float = Field(default=60, ge=0, description="late replies are counted")
    max_requests_per_user: int = Field(
        default=1000, ge=1, description="requests of one user that wait for a reply"
    )
    max_streams: int = Field(default=5000, ge=1, description="event streams at once")
    max_streams_per_user: int = Field(default=5000, ge=1, description="event streams of one user")
    journal_events: int = Field(default=10000, ge=1, description="events kept per source")
    journal_octets: int = Field(default=32 << 20, ge=1, description="octets kept per source")
    linger_seconds: float = Field(
        default=120, ge=0, description="a source without readers is kept this long"
    )
    durable_sources: list[str] = Field(
        default=[], description="globs over exchange:NAME?binding=KEY: journals kept on disk"
    )
    max_durable_sources: int = Field(default=64, ge=0, description="journals on disk at once")
    durable_linger_seconds: float = Field(
        default=7 * 86400, ge=0, description="such a journal without readers is kept this long"
    )
    stream_seconds: float = Field(
        default=86400, ge=0, description="longest life of an event stream; 0 is for ever"
    )
    drain_spread_ms: int = Field(
        default=10000, ge=0, description="at shutdown readers are spread over this time"
    )
    browser_streams_warn: int = Field(
        default=3, ge=1, description="from this stream on a browser over HTTP/1.1 is warned"
    )
    browser_streams_max: int = Field(
        default=4, ge=0, description="streams of one browser over HTTP/1.1; 0 is no limit"
    )
    bearer: Bearer = Field(default_factory=Bearer)
    session: Session = Field(default_factory=Session)
    tickets: Tickets = Field(default_factory=Tickets)
    quota: Quota = Field(default_factory=Quota)
    vhost_quota: SharedQuota = Field(default_factory=SharedQuota)

    @field_validator("origins")
    @classmethod
    def _origins(cls, given: list[str]) -> list[str]:
        for origin in given:
            if not ORIGIN.fullmatch(origin):
                raise ValueError(f"{origin!r} is no origin, such as https://app.example")
        return given


class Admin(Section):
    """A listener of its own for the console, health, metrics and administration."""

    host: str = Field(default="127.0.0.1", description="address to listen on")
    port: int | None = Field(
        default=None,
        ge=0,
        le=65535,
        description="TCP port; unset: all of it is served on the HTTP port",
    )


class Route(Section):
    """A declared route: a stable name for a target, for callers that must not name nodes."""

    name: str = Field(pattern=r"^[A-Za-z0-9._~-]{1,128}$", description="its name in the path")
    vhost: str = Field(default="/", description="virtual host of the target")
    queue: str = Field(default="", max_length=255, description="target queue")
    exchange: str = Field(default="", max_length=255, description="or target exchange")
    key: str = Field(
        default="", max_length=255, description="routing key; `{word}` is a query parameter"
    )
    publish: bool = Field(default=True, description="whether messages may be published")
    stream: bool = Field(default=False, description="whether events may be read")
    json_schema: Path | None = Field(
        default=None, description="JSON Schema of bodies (needs the extra `schema`)"
    )
    max_body_octets: int = Field(default=1 << 20, ge=1, description="largest body")
    content_types: list[str] = Field(
        default=["application/json"], min_length=1, description="content types taken"
    )
    unroutable: Literal["refuse", "drop"] = Field(
        default="refuse", description="a message that no queue takes: 409, or 200 without a queue"
    )
    idempotency: Literal["optional", "required"] = Field(
        default="optional", description="whether a publish needs an Idempotency-Key"
    )
    quota: SharedQuota = Field(default_factory=SharedQuota)

    @model_validator(mode="after")
    def _target(self) -> "Route":
        if bool(self.queue) == bool(self.exchange):
            raise ValueError("a route has a queue or an exchange, and not both")
        if self.queue and self.key:
            raise ValueError("only a route to an exchange has a key")
        return self


class CrossingSection(Section):
    """Messages that cross between 1.0 and the older versions: docs/crossing.md."""

    mode: Literal["natural", "lossless", "strict", "lenient"] = Field(
        default="lossless", description="what becomes of what the other version cannot say"
    )
    fidelity: Literal["values", "bytes"] = Field(
        default="values", description="what comes back the same"
    )


class LimitsSection(Section):
    """Memory and disk."""

    memory_high: float = Field(
        default=0.4, gt=0, le=1, description="share of RAM at which publishers are held back"
    )
    memory_page: float = Field(
        default=0.2, gt=0, le=1, description="share of RAM in message bodies that starts paging"
    )
    disk_free_octets: int = Field(
        default=50_000_000, ge=0, description="free disk below which publishers are held back"
    )
    store_backlog_octets: int = Field(
        default=64 << 20, ge=1 << 20, description="unwritten octets that hold publishers back"
    )


class Settings(BaseSettings):
    """Everything that can be set."""

    model_config = SettingsConfigDict(
        env_prefix="AMQP_GATEWAY_", env_nested_delimiter="__", extra="forbid"
    )

    data_dir: Path = Field(
        default_factory=lambda: Path(platformdirs.user_data_dir("amqp-gateway", appauthor=False)),
        description="directory of the durable store",
    )
    durable: bool = Field(default=True, description="false: keep nothing on disk")
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="least important messages that are logged"
    )
    log_format: Literal["text", "json"] = Field(
        default="text", description="lines of text, or one JSON object per line"
    )
    vhosts: list[str] = Field(default=["/"], description="virtual hosts made on an empty store")
    amqp: Amqp = Field(default_factory=Amqp)
    http: Http = Field(default_factory=Http)
    admin: Admin = Field(default_factory=Admin)
    crossing: CrossingSection = Field(default_factory=CrossingSection)
    limits: LimitsSection = Field(default_factory=LimitsSection)
    routes: list[Route] = Field(default=[], description="declared routes, see below")

    @model_validator(mode="after")
    def _distinct(self) -> "Settings":
        names = [(route.vhost, route.name) for route in self.routes]
        if len(set(names)) < len(names):
            raise ValueError("two routes have the same name")
        return self

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Command line over environment over file over defaults."""
        sources: list[PydanticBaseSettingsSource] = [init_settings, env_settings]
        if _reading is not None:
            sources.append(TomlConfigSettingsSource(settings_cls, toml_file=_reading))
        return tuple(sources)


_reading: Path | None = None


def read_settings(path: Path | None, **given: Any) -> Settings:
    """Settings from ``path`` (if any), the environment and ``given`` (which win).

    Raises ``ConfigError`` with one line per mistake, naming the key.
    """
    global _reading
    if path is not None:
        try:
            with open(path, "rb") as file:
                tomllib.load(file)
        except OSError as error:
            raise ConfigError(f"{path}: {error.strerror}") from None
        except tomllib.TOMLDecodeError as error:
            raise ConfigError(f"{path}: not valid TOML: {error}") from None
    _reading = path
    try:
        settings = Settings(**given)
    except ValidationError as error:
        where = str(path or "settings")
        lines = [
            f"{where}: {'.'.join(str(part) for part in mistake['loc']) or '(top)'}: "
            f"{mistake['msg'].removeprefix('Value error, ')}"
            for mistake in error.errors()
        ]
        raise ConfigError("\n".join(lines)) from None
    finally:
        _reading = None
    tls = settings.amqp.tls
    for file_path in (tls.certificate, tls.key, tls.client_ca):
        if file_path is not None and not os.access(file_path, os.R_OK):
            raise ConfigError(f"amqp.tls: cannot read {file_path}")
    return settings

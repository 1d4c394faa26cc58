"""Configuration: defaults, overridden by a TOML file, overridden by environment variables.

``AMQP_GATEWAY_AMQP__PORT=5673`` overrides ``[amqp] port``. Lower floors never see this module:
``gateway.app`` hands them plain values.
"""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal, get_args

import platformdirs
from pydantic import Field, ValidationError, model_validator
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from gateway import bodies, partial_bodies
from gateway.broker.limits import Limits
from gateway.config.amqp import AmqpSettings
from gateway.config.bridge import ShovelSettings, UpstreamSettings
from gateway.config.facade import FacadeSettings
from gateway.config.journal import JournalSettings
from gateway.config.observe import ObserveSettings
from gateway.config.ports import Listener, collision
from gateway.config.section import AtStart, Live, Section
from gateway.config.web import AdminSettings, DeclaredRoute, HttpSettings
from gateway.errors import ConfigError
from gateway.operations import SessionLimits
from gateway.similar_names import did_you_mean

DEFAULTS = Limits()
SESSIONS = SessionLimits()


class CrossingSettings(Section):
    """Messages that cross between 1.0 and the older versions: docs/crossing.md."""

    mode: AtStart[Literal["natural", "lossless", "strict", "lenient"]] = Field(
        "lossless", description="treatment of properties that the other version cannot express"
    )
    fidelity: AtStart[Literal["values", "bytes"]] = Field(
        "values", description="precision of the way back"
    )


class ResourceSettings(Section):
    """Memory and disk."""

    memory_high: Live[float] = Field(
        0.4, gt=0, le=1, description="share of RAM in use above which publishers are paused"
    )
    memory_page: Live[float] = Field(
        0.2,
        gt=0,
        le=1,
        description="share of RAM in message bodies above which queues page to disk",
    )
    disk_free_octets: Live[int] = Field(
        50_000_000, ge=0, description="free disk octets below which publishers are paused"
    )
    store_backlog_octets: Live[int] = Field(
        64 << 20,
        ge=1 << 20,
        description="octets waiting for the store above which publishers are paused",
    )
    large_octets: Live[int] = Field(
        bodies.THRESHOLD,
        ge=1 << 16,
        description="message bodies of this size or more are kept in files",
    )
    spool_octets: Live[int] = Field(
        bodies.MOST_OCTETS, ge=0, description="total octets of such files in use; 0 is no limit"
    )
    staged_octets: Live[int] = Field(
        partial_bodies.MOST_OCTETS,
        ge=0,
        description="octets of partly received bodies; 0 is no limit",
    )
    staged_items: Live[int] = Field(
        partial_bodies.MOST_ITEMS, ge=1, description="number of partly received bodies"
    )
    staged_seconds: Live[int] = Field(
        partial_bodies.KEEP_SECONDS,
        ge=1,
        description="time that a partly received body waits for its sender to continue",
    )
    branches: Live[int] = Field(
        DEFAULTS.max_branches,
        ge=0,
        description="branches of distributed transactions of a virtual host at a time",
    )
    branch_octets: Live[int] = Field(
        DEFAULTS.max_branch_octets,
        ge=0,
        description="octets of publishes that wait for the commit of such branches",
    )
    branch_seconds: Live[int] = Field(
        DEFAULTS.max_branch_seconds,
        ge=0,
        description="time in which a branch must be prepared, unless its client sets another;"
        " 0 is no limit",
    )
    session_seconds: Live[int] = Field(
        SESSIONS.seconds,
        ge=0,
        description="longest time that a session of 0-10 is kept for another connection",
    )
    sessions: Live[int] = Field(
        SESSIONS.sessions, ge=0, description="sessions of 0-10 that are, or will be, kept"
    )
    user_sessions: Live[int] = Field(
        SESSIONS.user_sessions, ge=0, description="such sessions of one user"
    )
    session_octets: Live[int] = Field(
        SESSIONS.octets,
        ge=0,
        description="octets that a kept session remembers, to send them again",
    )
    all_session_octets: Live[int] = Field(
        SESSIONS.all_octets, ge=0, description="such octets of all sessions"
    )

    def of_broker(self, memory: int) -> Limits:
        """The limits that the broker keeps to, with so many octets of memory."""
        return Limits(
            int(memory * self.memory_page),
            max_branches=self.branches,
            max_branch_octets=self.branch_octets,
            max_branch_seconds=self.branch_seconds,
        )

    def of_sessions(self) -> SessionLimits:
        """The limits of sessions of 0-10."""
        return SessionLimits(
            self.session_seconds,
            self.sessions,
            self.user_sessions,
            self.session_octets,
            self.all_session_octets,
        )


PREFIX = "AMQP_GATEWAY_"


class Settings(BaseSettings):
    """All settings."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, env_nested_delimiter="__", extra="forbid")

    data_dir: AtStart[Path] = Field(
        default_factory=lambda: Path(platformdirs.user_data_dir("amqp-gateway", appauthor=False)),
        description="directory of the durable store",
    )
    durable: AtStart[bool] = Field(True, description="false: keep everything in memory")
    log_level: Live[Literal["debug", "info", "warning", "error"]] = Field(
        "info", description="lowest level that is logged"
    )
    log_format: Live[Literal["text", "json"]] = Field(
        "text", description="lines of text, or one JSON object per line"
    )
    vhosts: Live[list[str]] = Field(["/"], description="virtual hosts created if they are missing")
    definitions: Live[Path | None] = Field(
        None,
        description="file of definitions, RabbitMQ's or exported, or of another broker "
        "(docs/import.md), applied at each start",
    )
    definitions_format: Live[Literal["auto", "rabbitmq", "broker-j", "artemis", "qpid-cpp"]] = (
        Field("auto", description="what wrote that file")
    )
    amqp: AmqpSettings = Field(default_factory=AmqpSettings)
    http: HttpSettings = Field(default_factory=HttpSettings)
    admin: AdminSettings = Field(default_factory=AdminSettings)
    crossing: CrossingSettings = Field(default_factory=CrossingSettings)
    limits: ResourceSettings = Field(default_factory=ResourceSettings)
    journal: JournalSettings = Field(default_factory=JournalSettings)
    routes: AtStart[list[DeclaredRoute]] = Field([], description="declared routes, see below")
    upstreams: AtStart[list[UpstreamSettings]] = Field(
        [], description="brokers that the gateway connects to, see below"
    )
    shovels: AtStart[list[ShovelSettings]] = Field(
        [], description="queues whose messages are moved elsewhere, see below"
    )
    facades: AtStart[list[FacadeSettings]] = Field(
        [], description="virtual hosts whose queues live on an upstream, see below"
    )
    observe: AtStart[list[ObserveSettings]] = Field(
        [], description="proxies that record the use that clients make of old brokers, see below"
    )

    @model_validator(mode="after")
    def _distinct(self) -> "Settings":
        routes = [f"{route.vhost} {route.name}" for route in self.routes]
        for what, names in (
            ("routes", routes),
            ("upstreams", [one.name for one in self.upstreams]),
            ("shovels", [one.name for one in self.shovels]),
            ("facades", [one.vhost for one in self.facades]),
            ("observers", [one.name for one in self.observe]),
        ):
            if len(set(names)) < len(names):
                raise ValueError(f"two {what} have the same name")
        if told := collision(self.listening()):
            raise ValueError(told)
        if len({one.file for one in self.observe}) < len(self.observe):
            raise ValueError("two observers write the same file")
        if not self.durable and any(one.record for one in self.journal.recording):
            raise ValueError("journal.recording needs durable = true")
        known = {"", *(one.name for one in self.upstreams)}
        for shovel in self.shovels:
            for upstream in (shovel.source.upstream, shovel.destination.upstream):
                if upstream not in known:
                    raise ValueError(f"shovel {shovel.name}: no upstream is called {upstream!r}")
        for facade in self.facades:
            for name in (facade.upstream, facade.successor):
                if name not in known:
                    raise ValueError(f"facade {facade.vhost}: no upstream is called {name!r}")
        return self

    def listening(self) -> list[Listener]:
        """All listeners."""
        amqp = self.amqp
        return [
            ("amqp.port", amqp.host, amqp.port),
            ("amqp.tls.port", amqp.host, amqp.tls.port),
            *(("amqp.listeners.port", one.host or amqp.host, one.port) for one in amqp.listeners),
            ("http.port", self.http.host, self.http.port),
            ("admin.port", self.admin.host, self.admin.port),
            *((f"observe {one.name}: port", one.host, one.port) for one in self.observe),
        ]

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """The sources by precedence: command line, environment, file, defaults."""
        sources: list[PydanticBaseSettingsSource] = [init_settings, env_settings]
        if _reading is not None:
            sources.append(TomlConfigSettingsSource(settings_cls, toml_file=_reading))
        return tuple(sources)


_reading: Path | None = None


def meant(mistake: Any) -> str:
    """The known key that is most like an unknown one, as a question."""
    table: Any = Settings
    *path, key = mistake["loc"]
    for part in path:
        if isinstance(part, str):
            kind = getattr(table, "model_fields", {}).get(part)
            table = getattr(kind, "annotation", None)
        table = next(iter(get_args(table)), table)
    return did_you_mean(str(key), getattr(table, "model_fields", {}))


def text_of(mistake: Any) -> str:
    if mistake["type"] == "extra_forbidden":
        return f"unknown setting{meant(mistake)}"
    told = str(mistake["msg"]).removeprefix("Value error, ")
    given = mistake.get("input")
    return f"{told}, and is {given}" if isinstance(given, int | float) else told


def check_environment(names: Iterable[str]) -> None:
    """Raises ``ConfigError`` for variables of tables that do not exist. Others may be somebody
    else's: Kubernetes sets AMQP_GATEWAY_PORT for a service of that name."""
    for name in names:
        table, nested, _ = name.upper().removeprefix(PREFIX).lower().partition("__")
        if name.upper().startswith(PREFIX) and nested and table not in Settings.model_fields:
            meant = did_you_mean(table, Settings.model_fields)
            raise ConfigError(f"environment: {name}: unknown setting {table}{meant}")


def read_settings(path: Path | None, **given: Any) -> Settings:
    """Settings from ``path`` (if any), the environment and ``given`` (which win).

    Raises ``ConfigError`` with one line per mistake, naming the key.
    """
    global _reading
    check_environment(os.environ)
    if path is not None:
        import tomllib

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
            f"{text_of(mistake)}"
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

"""AMQP listeners, and the limits proposed and accepted there.

Limits that adapters enforce have their defaults in ``gateway.limits``.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, WithJsonSchema, field_validator, model_validator

from gateway.adapters.methods.transitional.versions import REQUESTS
from gateway.adapters.registry import sharing
from gateway.broker.limits import read_queue_arguments
from gateway.config.section import AtStart, Live, Section
from gateway.errors import Refusal
from gateway.limits import MECHANISMS, Limits, Mechanism


def _one_of(versions: list[str]) -> Callable[[str], str]:
    def checked(value: str) -> str:
        if value not in versions:
            raise ValueError(f"should be {', '.join(versions[:-1])} or {versions[-1]}")
        return value

    return checked


SHARED_0_9 = sorted(sharing("0-9"))
Meaning0_9 = Annotated[
    str, AfterValidator(_one_of(SHARED_0_9)), WithJsonSchema({"enum": SHARED_0_9})
]
"""Versions that open with AMQP 1 1 0 9; 0-9a0-7 is 0-9a0 with method headers of 7 octets."""
SHARED_0_10 = sorted(sharing(REQUESTS))
Meaning0_10 = Annotated[
    str, AfterValidator(_one_of(SHARED_0_10)), WithJsonSchema({"enum": SHARED_0_10})
]
"""Versions that open with AMQP 1 1 0 10."""

DEFAULTS = Limits()
RequireTls = Literal["no", "passwords", "yes"]


class TlsSettings(Section):
    """Certificate for the TLS port and for TLS on the plain port."""

    port: AtStart[int | None] = Field(None, ge=0, le=65535, description="TLS-only port, often 5671")
    certificate: Live[Path | None] = Field(None, description="PEM file with the chain")
    key: Live[Path | None] = Field(None, description="PEM file with the private key")
    client_ca: Live[Path | None] = Field(
        None, description="PEM file; clients must then present a certificate from this authority"
    )

    @model_validator(mode="after")
    def _complete(self) -> "TlsSettings":
        if (self.port is not None or self.key or self.client_ca) and not self.certificate:
            raise ValueError("TLS needs a certificate")
        if self.certificate and not self.key:
            raise ValueError("TLS needs a key")
        return self


class AmqpListener(Section):
    """A further AMQP listener, for clients that need different settings."""

    name: str | None = Field(
        None, min_length=1, description="name in the journal; unset: its address and port"
    )
    host: str | None = Field(None, description="address to listen on; unset: `amqp.host`")
    port: int = Field(ge=0, le=65535, description="TCP port; 0 takes a free one")
    header_0_9: Meaning0_9 = Field(
        "0-9", description="version that the header AMQP 1 1 0 9 selects on this listener"
    )
    header_0_10: Meaning0_10 | None = Field(
        None,
        description="version that the headers AMQP 1 1 0 10 and AMQP 1 1 99 0 select on this "
        "listener; unset: the published 0-10, and 1 1 99 0 is refused",
    )
    tls_only: bool = Field(False, description="true: a TLS-only port; false: TLS by first octet")
    require_tls: RequireTls | None = Field(
        None, description="as `amqp.require_tls`, for this listener; unset: `amqp.require_tls`"
    )
    mechanisms: list[Mechanism] | None = Field(
        None, description="SASL mechanisms allowed here; unset: `amqp.mechanisms`"
    )
    anonymous_user: str | None = Field(
        None, description="user of ANONYMOUS logins on this listener; unset: `amqp.anonymous_user`"
    )


class AmqpSettings(Section):
    """The AMQP listener."""

    host: AtStart[str] = Field("127.0.0.1", description="address to listen on")
    port: AtStart[int] = Field(5672, ge=0, le=65535, description="TCP port; 0 takes a free one")
    header_0_9: AtStart[Meaning0_9] = Field(
        "0-9", description="version that the header AMQP 1 1 0 9 selects on this listener"
    )
    header_0_10: AtStart[Meaning0_10 | None] = Field(
        None,
        description="version that the headers AMQP 1 1 0 10 and AMQP 1 1 99 0 select on this "
        "listener; unset: the published 0-10, and 1 1 99 0 is refused",
    )
    require_tls: AtStart[RequireTls] = Field(
        "no",
        description="refused without TLS: `passwords`, mechanisms that send the password in clear; "
        "`yes`, every connection",
    )
    mechanisms: AtStart[list[Mechanism]] = Field(
        default_factory=lambda: list(MECHANISMS),
        description="SASL mechanisms allowed; EXTERNAL needs a client certificate, "
        "ANONYMOUS an anonymous_user",
    )
    anonymous_user: AtStart[str | None] = Field(
        None, description="user of ANONYMOUS logins; unset: they are refused"
    )
    create_queues: Live[bool] = Field(
        True,
        description="a link of 1.0 to a plain name that is neither queue nor exchange creates a "
        "durable queue of that name",
    )
    compat: Live[Literal["", "rabbitmq-4"]] = Field(
        "", description="broker to present to clients of 1.0 that accept no other"
    )
    synch: Live[bool] = Field(
        DEFAULTS.synch,
        description="answer SYNCHREQ of 0-9a0 with method 2, 6, a number that its document does "
        "not define",
    )
    templates: Live[dict[str, dict[str, str | int | bool]]] = Field(
        {}, description="queue arguments by template name, for clients of 0-9a0 and 0-9a6"
    )
    handshake_seconds: Live[float] = Field(
        DEFAULTS.handshake_timeout, gt=0, description="time limit for opening a connection"
    )
    failure_pause_seconds: Live[float] = Field(
        2, ge=0, description="delay before a failed login is answered and the connection closed"
    )
    heartbeat_seconds: Live[int] = Field(
        DEFAULTS.heartbeat, ge=0, le=65535, description="proposed heartbeat"
    )
    frame_max: Live[int] = Field(DEFAULTS.frame_max, ge=4096, description="largest frame, octets")
    channel_max: Live[int] = Field(
        DEFAULTS.channel_max, ge=1, le=65535, description="channels per connection"
    )
    max_connections: Live[int] = Field(10000, ge=1, description="AMQP connections at once")
    max_message_octets: Live[int] = Field(
        DEFAULTS.max_message_octets,
        ge=1,
        le=0xFFFF_FFFF,
        description="largest message body, octets",
    )
    tls: TlsSettings = Field(default_factory=TlsSettings)
    listeners: AtStart[list[AmqpListener]] = Field([], description="further listeners, see below")

    @field_validator("templates")
    @classmethod
    def _arguments(cls, given: dict[str, dict[str, str | int | bool]]) -> Any:
        for name, arguments in given.items():
            try:
                read_queue_arguments(dict(arguments), f"template '{name}'")
            except Refusal as refusal:
                raise ValueError(str(refusal)) from None
        return given

    @model_validator(mode="after")
    def _certified(self) -> "AmqpSettings":
        if any(one.tls_only for one in self.listeners) and not self.tls.certificate:
            raise ValueError("a listener that is tls_only needs amqp.tls.certificate")
        required = [self.require_tls, *(one.require_tls or "no" for one in self.listeners)]
        if set(required) != {"no"} and not self.tls.certificate:
            raise ValueError("require_tls needs amqp.tls.certificate")
        return self

    def limits(self) -> Limits:
        """The limits that adapters enforce."""
        return Limits(
            frame_max=self.frame_max,
            channel_max=self.channel_max,
            heartbeat=self.heartbeat_seconds,
            max_message_octets=self.max_message_octets,
            handshake_timeout=self.handshake_seconds,
            synch=self.synch,
        )

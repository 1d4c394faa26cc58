"""Observe mode beside the gateway: proxies before old brokers."""

from pathlib import Path

from pydantic import Field, field_validator, model_validator

from gateway.config.bridge import NAME, read_address
from gateway.config.section import Section


class ObserveSettings(Section):
    """A proxy before an old broker, which records what its clients use."""

    name: str = Field(pattern=NAME, description="name in the administration")
    host: str = Field("127.0.0.1", description="address that the broker's clients connect to")
    port: int = Field(ge=0, le=65535, description="port there; 0: any free one")
    upstream: str = Field(description="the broker: `amqp://host:port` or `amqps://host:port`")
    upstream_ca: Path | None = Field(
        None, description="PEM file of the authorities of its certificate; unset: the system's"
    )
    tls_certificate: Path | None = Field(
        None, description="PEM file: clients connect with TLS, which ends here"
    )
    tls_key: Path | None = Field(None, description="PEM file of its private key")
    file: Path = Field(description="file of the inventory; gone on with if it exists")
    save_seconds: float = Field(5.0, ge=0.05, description="time between two writes of the file")

    @field_validator("upstream")
    @classmethod
    def _readable(cls, text: str) -> str:
        read_address(text)
        return text

    @model_validator(mode="after")
    def _together(self) -> "ObserveSettings":
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise ValueError("tls_certificate and tls_key belong together")
        return self

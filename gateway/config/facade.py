"""Virtual hosts whose queues live on an upstream."""

from pathlib import Path
from typing import Any, Literal
from urllib.parse import unquote, urlsplit

from pydantic import Field, model_validator

from gateway.config.bridge import NAME, PORTS
from gateway.config.section import Section
from gateway.errors import ConfigError


class FacadeSettings(Section):
    """A virtual host of this gateway that shows the exchanges and queues of an upstream. Nothing is
    kept in the gateway."""

    vhost: str = Field("/", min_length=1, max_length=255, description="virtual host here")
    upstream: str = Field(pattern=NAME, description="name of the upstream")
    successor: str = Field(
        "", pattern=rf"^$|{NAME}", description="name of the upstream that takes over from it"
    )
    addresses_file: Path | None = Field(
        None,
        description="TOML file of address rules that lead from names here to those of the "
        "successor",
    )
    topology: Literal["auto", "assume"] = Field(
        "auto",
        description="`auto`: the upstream is asked for queues and exchanges where its version can "
        "tell; `assume`: every name is taken to exist there, and declarations are not passed on",
    )
    patience_seconds: float = Field(
        30,
        gt=0,
        description="time for which requests wait for an upstream that cannot be reached",
    )

    @model_validator(mode="after")
    def _succeeding(self) -> "FacadeSettings":
        if self.successor == self.upstream:
            raise ValueError("the successor is the upstream itself")
        if self.addresses_file is not None and not self.successor:
            raise ValueError("address rules without a successor")
        return self


def facade_of(url: str) -> dict[str, list[dict[str, Any]]]:
    """The settings of ``serve --upstream amqp://user:password@host:port/vhost``: one upstream,
    shown by the virtual host ``/``. Raises ``ConfigError``."""
    parts = urlsplit(url)
    try:
        port = parts.port or PORTS.get(parts.scheme, 0)
    except ValueError as error:
        raise ConfigError(f"--upstream: {error}") from None
    if not port or not parts.hostname or parts.query or parts.fragment:
        raise ConfigError("--upstream should be amqp://user:password@host:port/vhost, or amqps://")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    upstream: dict[str, Any] = {
        "name": "upstream",
        "addresses": [f"{parts.scheme}://{host}:{port}"],
        "vhost": unquote(parts.path[1:]) or "/",
    }
    if parts.username is not None:
        upstream["user"] = unquote(parts.username)
    if parts.password is not None:
        upstream["password"] = unquote(parts.password)
    return {"upstreams": [upstream], "facades": [{"upstream": "upstream"}]}

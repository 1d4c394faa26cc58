"""Other brokers, and the shovels that move messages between them and the gateway."""

from pathlib import Path
from typing import Literal, NamedTuple
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, field_validator, model_validator

from gateway.adapters.registry import PREFERRED
from gateway.config.addresses import AddressRuleSettings
from gateway.config.section import Section
from gateway.config.shovel_steps import DuplicateSettings, PropertyRuleSettings, RateSettings
from gateway.errors import ConfigError
from gateway.selector import Selector

NAME = r"^[A-Za-z0-9._~-]{1,128}$"
PORTS = {"amqp": 5672, "amqps": 5671}


class Address(NamedTuple):
    """Where a broker listens."""

    host: str
    port: int
    tls: bool

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'amqps' if self.tls else 'amqp'}://{host}:{self.port}"


def read_address(text: str) -> Address:
    """An address such as ``amqps://host:5671``. Raises ``ValueError``."""
    parts = urlsplit(text)
    if parts.scheme not in PORTS or not parts.hostname:
        raise ValueError(f"{text!r} should be amqp://host:port or amqps://host:port")
    if parts.username or parts.password or parts.path.strip("/") or parts.query:
        raise ValueError(f"{parts.hostname}: user, password and vhost are settings of their own")
    port = PORTS[parts.scheme] if parts.port is None else parts.port
    return Address(parts.hostname, port, parts.scheme == "amqps")


class UpstreamSettings(Section):
    """A broker that the gateway connects to."""

    name: str = Field(pattern=NAME, description="name in shovels and in the administration")
    addresses: list[str] = Field(
        min_length=1,
        max_length=64,
        description="`amqp://host:port` or `amqps://host:port`, tried in turn",
    )
    version: str = Field("auto", description="AMQP version; `auto`: found by asking the broker")
    vhost: str = Field("/", description="virtual host there")
    user: str = Field("guest", description="user there")
    password: SecretStr = Field(SecretStr("guest"), description="password there")
    password_file: Path | None = Field(
        None, description="file with the password, instead of it; read again at each connect"
    )
    ca: Path | None = Field(
        None, description="PEM file of the authorities of its certificate; unset: the system's"
    )
    connect_seconds: float = Field(10, gt=0, description="time limit for connecting and logging in")

    @field_validator("addresses")
    @classmethod
    def _addresses(cls, given: list[str]) -> list[str]:
        for one in given:
            read_address(one)
        return given

    @field_validator("version")
    @classmethod
    def _version(cls, given: str) -> str:
        if given != "auto" and given not in PREFERRED:
            raise ValueError(f"should be auto, {', '.join(PREFERRED)}")
        return given

    def secret(self) -> str:
        """The password. Raises ``ConfigError`` if its file cannot be read."""
        if self.password_file is None:
            return self.password.get_secret_value()
        try:
            return self.password_file.read_text("utf-8").rstrip("\r\n")
        except (OSError, ValueError) as error:
            raise ConfigError(f"upstreams.{self.name}.password_file: {error}") from None


class ShovelSource(Section):
    """The queue that a shovel empties."""

    upstream: str = Field("", description="name of an upstream; empty: this gateway")
    vhost: str = Field("/", description="virtual host of the queue, if it is in this gateway")
    queue: str = Field("", max_length=255, description="the queue; it must exist; or")
    queues: str = Field("", max_length=255, description="a pattern of queues, as in address rules")
    known: list[str] = Field(
        [], max_length=10_000, description="queues of the upstream that may match"
    )
    management: str = Field(
        "", description="`http://host:15672`: the management API that lists them instead"
    )
    most_queues: int = Field(
        100, ge=1, le=10_000, description="queues at a time that are moved for a pattern"
    )
    follow_seconds: float = Field(5, gt=0, description="time between two looks at the queues")

    @model_validator(mode="after")
    def _one(self) -> "ShovelSource":
        if bool(self.queue) is bool(self.queues):
            raise ValueError("a source has a queue, or a pattern in queues")
        listed = bool(self.known) + bool(self.management)
        if listed and not (self.queues and self.upstream):
            raise ValueError("known and management belong to a pattern of queues of an upstream")
        if self.queues and self.upstream and listed != 1:
            raise ValueError("AMQP cannot list queues: known or management says which there are")
        return self

    @property
    def described(self) -> str:
        """As the administration shows it."""
        return f"{self.upstream or self.vhost}: {self.queue or self.queues}"


class ShovelDestination(Section):
    """Where a shovel publishes."""

    upstream: str = Field("", description="name of an upstream; empty: this gateway")
    vhost: str = Field("/", description="virtual host, if it is in this gateway")
    queue: str = Field("", max_length=255, description="a queue, or")
    exchange: str | None = Field(
        None, max_length=255, description="an exchange; neither: as the message was published"
    )
    key: str | None = Field(
        None, max_length=255, description="routing key there; unset: that of the message"
    )
    addresses: AddressRuleSettings | None = Field(
        None, description="address rules that lead from the place of the message, or"
    )
    addresses_file: Path | None = Field(None, description="TOML file of such rules")
    inverse: bool = Field(False, description="the rules are used on the way back")

    @model_validator(mode="after")
    def _one(self) -> "ShovelDestination":
        if self.queue and (self.exchange is not None or self.key is not None):
            raise ValueError("a destination has a queue, or an exchange and a key")
        rules = (self.addresses is not None) + (self.addresses_file is not None)
        if rules and (self.queue or self.exchange is not None or self.key is not None):
            raise ValueError("address rules take the place of queue, exchange and key")
        if rules > 1:
            raise ValueError("address rules stand in the settings or in a file")
        if self.inverse and not rules:
            raise ValueError("inverse without address rules")
        return self

    @property
    def is_fixed(self) -> bool:
        """Whether all messages go to one exchange or queue."""
        return bool(self.queue) or self.exchange is not None

    @property
    def has_rules(self) -> bool:
        return self.addresses is not None or self.addresses_file is not None

    @property
    def described(self) -> str:
        """As the administration shows it."""
        if self.has_rules and not self.is_fixed:
            return f"{self.upstream or self.vhost}: by address rules"
        place = self.queue or f"{self.exchange or '*'}/{'*' if self.key is None else self.key}"
        return f"{self.upstream or self.vhost}: {place}"

    def place(self, exchange: str, key: str) -> tuple[str, str]:
        """Exchange and key to publish to, of a message that came with these."""
        if self.queue:
            return "", self.queue
        return (
            exchange if self.exchange is None else self.exchange,
            key if self.key is None else self.key,
        )


class ShovelSettings(Section):
    """A shovel: moves the messages of a queue to another place, as long as the gateway runs."""

    name: str = Field(pattern=NAME, description="name in the administration")
    user: str = Field("guest", description="user of this gateway whose permissions it has")
    source: ShovelSource = Field(description="where messages come from")
    destination: ShovelDestination = Field(description="where they go to")
    window: int = Field(
        1000, ge=1, le=65535, description="messages that are under way without a confirm"
    )
    retries: int = Field(
        3, ge=0, description="further attempts with a message that the destination does not take"
    )
    retry_seconds: float = Field(1, gt=0, description="delay between two attempts")
    refused: Literal["park", "reject"] = Field(
        "park",
        description="`park`: such a message goes to the queue `shovel.NAME.parked` of this "
        "gateway; `reject`: it is rejected at its source, which may dead-letter it",
    )
    max_hops: int = Field(
        4, ge=1, description="shovels that a message may have passed; the next one refuses it"
    )
    filter: str = Field(
        "", description="selector (JMS 2.0 §3.8.1) of the messages that are moved; empty: all"
    )
    unmatched: Literal["leave", "drop", "park"] = Field(
        "leave",
        description="other messages: `leave` them in the queue, which only a source in this "
        "gateway can; `drop`: settle and count them; `park` them as those that are refused",
    )
    order_by: str = Field(
        "",
        description="`key` (the routing key), `group_id`, `headers.NAME` or another property: "
        "messages that have the same are kept in order, also behind one that is tried again",
    )
    connections: int = Field(
        1, ge=1, le=64, description="connections to an upstream that is the destination"
    )
    duplicates: DuplicateSettings | None = Field(
        None, description="messages that have come before are not moved again; unset: they are"
    )
    rate: RateSettings | None = Field(None, description="limits per second")
    properties: list[PropertyRuleSettings] = Field(
        [], max_length=100, description="changes of properties, in order"
    )

    @field_validator("filter")
    @classmethod
    def _filter(cls, given: str) -> str:
        if given:
            Selector(given)
        return given

    @model_validator(mode="after")
    def _leaving(self) -> "ShovelSettings":
        if self.filter and self.unmatched == "leave" and self.source.upstream:
            raise ValueError(
                f"shovel {self.name}: an upstream delivers all messages of a queue: say with "
                "unmatched whether those that the filter does not match are dropped or parked"
            )
        return self

    @model_validator(mode="after")
    def _elsewhere(self) -> "ShovelSettings":
        source, destination = self.source, self.destination
        same = source.upstream == destination.upstream and source.vhost == destination.vhost
        placed = destination.has_rules or destination.is_fixed or destination.key is not None
        if source.queues and same and not placed:
            raise ValueError(f"shovel {self.name}: the queues would be moved to themselves")
        return self

    @property
    def filters_at_source(self) -> bool:
        """Whether the queue delivers only messages that the filter matches."""
        return bool(self.filter) and self.unmatched == "leave"

    @property
    def parks(self) -> bool:
        """Whether messages may be parked."""
        return self.refused == "park" or bool(self.filter) and self.unmatched == "park"

    @property
    def parking_vhost(self) -> str:
        """The virtual host of this gateway where messages are parked."""
        return self.destination.vhost if not self.destination.upstream else self.source.vhost

    @property
    def parking(self) -> str:
        """The queue of messages that the destination did not take."""
        return f"shovel.{self.name}.parked"

"""The form of RabbitMQ's definitions, as files, commands and HTTP give them."""

import json
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from gateway.broker.policies import ALL
from gateway.errors import ConfigError
from gateway.importing import Document, ImportFailed, Result, read_topology


class Part(BaseModel):
    """An entry. Unknown members are ignored: they belong to other versions of RabbitMQ."""

    model_config = ConfigDict(extra="ignore", strict=True, frozen=True, defer_build=True)


class VhostPart(Part):
    name: str = Field(min_length=1)


def whole(value: Any) -> Any:
    """In JSON, 4096.0 is an integer."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def no_truth_value(value: Any) -> Any:
    """A ``Literal`` compares by equality, and ``False`` equals 0."""
    if isinstance(value, bool):
        raise ValueError("a truth value is no number")
    return whole(value)


class Verifier(Part):
    """SCRAM-SHA-256 verifier of the gateway's own export; octets in base64."""

    salt: str
    stored_key: str
    server_key: str
    iterations: Annotated[int, BeforeValidator(whole)] = Field(ge=1, le=10_000_000)


class UserPart(Part):
    name: str = Field(min_length=1)
    password: str | None = None
    password_hash: str | None = None
    hashing_algorithm: str | None = None
    tags: list[str] | str = []
    loopback_only: bool = False
    scram_sha_256: Verifier | None = None


class PermissionPart(Part):
    user: str
    vhost: str
    configure: str
    write: str
    read: str


class TopicPermissionPart(Part):
    user: str
    vhost: str
    exchange: str
    write: str
    read: str


class ExchangePart(Part):
    vhost: str | None = None
    name: str
    type: str
    durable: bool = True
    auto_delete: bool = False
    internal: bool = False
    arguments: dict[str, Any] = {}


class QueuePart(Part):
    vhost: str | None = None
    name: str = Field(min_length=1)
    durable: bool = True
    auto_delete: bool = False
    arguments: dict[str, Any] = {}
    priority_levels: Annotated[Literal[0, 2, 10], BeforeValidator(no_truth_value)] = 0
    """Ours: of a queue that was made by a version with levels of priority of its own."""


class BindingPart(Part):
    vhost: str | None = None
    source: str
    destination: str
    destination_type: str = "queue"
    routing_key: str = ""
    arguments: dict[str, Any] = {}


class PolicyValue(Part):
    """A policy without its name."""

    pattern: str = ""
    definition: dict[str, Any] = {}
    priority: int = 0
    apply_to: str = Field(default=ALL, alias="apply-to")


class PolicyPart(PolicyValue):
    """A policy in definitions."""

    vhost: str | None = None
    name: str = Field(min_length=1)


class Definitions(Part):
    """RabbitMQ's definitions. Parameters other than operator policies are not applied, and reported
    so."""

    rabbit_version: str | None = None
    rabbitmq_version: str | None = None
    product_name: str | None = None
    product_version: str | None = None
    users: list[UserPart] = []
    vhosts: list[VhostPart] = []
    permissions: list[PermissionPart] = []
    exchanges: list[ExchangePart] = []
    queues: list[QueuePart] = []
    bindings: list[BindingPart] = []
    topic_permissions: list[TopicPermissionPart] = []
    parameters: list[dict[str, Any]] = []
    global_parameters: list[dict[str, Any]] = []
    policies: list[PolicyPart] = []


def read_definitions(file: Path, source: str = "auto") -> tuple[Definitions, Result]:
    """A file of any format that can be imported, checked and as it was read. Raises
    ``ConfigError``."""
    try:
        read = read_topology([Document(file.name, file.read_bytes())], source)
        return Definitions.model_validate_json(json.dumps(read.definitions)), read
    except OSError as error:
        raise ConfigError(f"definitions: {file}: {error.strerror}") from None
    except ImportFailed as error:
        raise ConfigError(f"definitions: {file}: {error}") from None
    except ValidationError as error:
        first, *_ = error.errors()
        where = ".".join(str(part) for part in first["loc"])
        raise ConfigError(f"definitions: {file}: {where}: {first['msg']}") from None

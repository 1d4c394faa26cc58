"""Address rules: from the addresses of one broker to those of another."""

from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError

from gateway.config.section import Section
from gateway.errors import ConfigError


class PlaceSettings(Section):
    """An exchange and a routing key, as patterns."""

    exchange: str = Field("", description="an exchange; empty: the default one, of all queues")
    key: str = Field("{key*}", description="routing key, or name of the queue")


class AddressRule(Section):
    """One address rule."""

    match: str | PlaceSettings = Field(
        description="pattern of the addresses that are translated: an address, or exchange and key"
    )
    to: str | PlaceSettings = Field(description="the target, with the parts of the pattern")
    encoded: bool = Field(
        True, description="whether the addresses of this rule are percent-encoded"
    )


class AddressRuleSettings(Section):
    """Address rules, the first that matches first."""

    default: Literal["deny", "keep"] = Field(
        "deny",
        description="an address that no rule matches has no target (`deny`), or stays as it is "
        "(`keep`)",
    )
    rules: list[AddressRule] = Field([], max_length=1000, description="the rules, in order")


def read_address_rules(path: Path) -> AddressRuleSettings:
    """Rules in a TOML file. Raises ``ConfigError``."""
    import tomllib

    try:
        given: dict[str, Any] = tomllib.loads(path.read_text("utf-8"))
        return AddressRuleSettings(**given)
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: {told(error)}") from None


def told(error: Exception) -> str:
    """An error in one line, without the rejected value."""
    if not isinstance(error, ValidationError):
        return str(error)
    return "; ".join(
        f"{'.'.join(map(str, one['loc']))}: {one['msg']}"
        for one in error.errors(include_url=False, include_input=False)
    )

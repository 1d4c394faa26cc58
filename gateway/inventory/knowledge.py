"""Needs of each feature on 1.0, from the table ``knowledge.toml``."""

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Literal, NamedTuple

Need = Literal["nothing", "gateway", "topology", "client"]
"""Where a change is needed: nowhere; in the gateway alone, while the client stays as it is; in the
nodes of the target; in the client."""
Severity = Literal["none", "minor", "major", "blocking"]
"""How bad it is if nothing is done: nothing; a difference that few notice; something fails or is
lost; the client cannot move before it is changed."""
SEVERITIES: tuple[Severity, ...] = ("none", "minor", "major", "blocking")
TARGETS = {
    "rabbitmq-4": "RabbitMQ 4 over AMQP 1.0",
    "artemis": "ActiveMQ Artemis over AMQP 1.0",
    "generic-1.0": "any broker with AMQP 1.0",
}


class Advice(NamedTuple):
    """Needs of a feature on one target."""

    need: Need
    severity: Severity
    text: str


class Row(NamedTuple):
    """A feature: its title, its needs on 1.0 in general, and where a target differs."""

    title: str
    advice: Advice
    targets: Mapping[str, Advice]

    def on(self, target: str) -> Advice:
        """Its needs on this target."""
        return self.targets.get(target, self.advice)


UNKNOWN = Row(
    "unknown feature",
    Advice("client", "minor", "The table of this release does not have it; another wrote it."),
    {},
)


@cache
def knowledge() -> Mapping[str, Row]:
    """The rows by feature."""
    table = tomllib.loads((files("gateway.inventory") / "knowledge.toml").read_text("utf-8"))
    return {name: _row(found) for name, found in table.items()}


def _row(found: Mapping[str, Any]) -> Row:
    targets = {name: _advice(found[name]) for name in TARGETS if name in found}
    return Row(found["title"], _advice(found), targets)


def _advice(found: Mapping[str, Any]) -> Advice:
    return Advice(found["need"], found["severity"], found["text"])

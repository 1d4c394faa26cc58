"""``amqp-gateway bridge plan``: a topology as another broker would have it."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from gateway.administration import fail, out

if TYPE_CHECKING:
    from gateway.bridge.planning.plan import Plan

COLOURS = {"none": "", "low": "", "medium": "yellow", "high": "red"}

Source = Annotated[
    Path, typer.Option("--from", help="Definitions of RabbitMQ, or a file that can be imported.")
]
TargetName = Annotated[str, typer.Option("--target", help="rabbitmq, artemis or broker-j.")]
Rules = Annotated[
    Path | None, typer.Option("--rules", help="TOML file of address rules; names stay without it.")
]
Output = Annotated[
    Path | None,
    typer.Option("--output", "-o", help="Write what the target understands to this file."),
]
OneVhost = Annotated[str | None, typer.Option("--vhost", help="Only this virtual host.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


def plan(
    source: Source,
    target: TargetName,
    rules: Rules = None,
    output: Output = None,
    vhost: OneVhost = None,
    as_json: AsJson = False,
) -> None:
    """Show what each queue, exchange and binding becomes on another broker, and what it loses.

    Changes nothing. Exits with 1 if a node has no target, or queues have the same."""
    from gateway.bridge.address_inventory import compiled
    from gateway.bridge.planning.plan import make_plan
    from gateway.bridge.planning.targets import TARGETS
    from gateway.config.addresses import read_address_rules

    if target not in TARGETS:
        fail(f"no target '{target}', there are: {', '.join(TARGETS)}")
    checked = None if rules is None else compiled(read_address_rules(rules))
    made = make_plan(read(source), target, checked, vhost)
    if output is not None:
        try:
            output.touch(0o600)
            output.write_text(made.document, "utf-8")
        except OSError as error:
            fail(f"{output}: {error.strerror}")
    if as_json:
        json.dump(as_document(made), sys.stdout, indent=2)
        sys.stdout.write("\n")
    else:
        show(made)
    if not made.good:
        raise typer.Exit(1)


def read(source: Path) -> dict[str, Any]:
    """The definitions of a file, checked as an import checks them."""
    from gateway.definitions import read_definitions
    from gateway.errors import ConfigError

    try:
        _, found = read_definitions(source)
    except ConfigError as error:
        fail(str(error))
    return found.definitions


def as_document(made: "Plan") -> dict[str, Any]:
    return {
        "nodes": [
            {
                "kind": one.node.kind,
                "vhost": one.node.vhost,
                "name": one.node.name,
                "target": one.target,
                "risk": one.risk,
                "losses": [loss._asdict() for loss in one.losses],
            }
            for one in made.planned
        ],
        "unmatched": len(made.unmatched),
        "collisions": made.collisions,
    }


def show(made: "Plan") -> None:
    table = Table("kind", "vhost", "name", "target", "risk", "not there", "shim")
    for one in made.planned:
        losses = "\n".join(f"{loss.argument}: {loss.text}".strip(": ") for loss in one.losses)
        shims = "\n".join(loss.shim for loss in one.losses if loss.shim)
        table.add_row(
            one.node.kind,
            Text(one.node.vhost),
            Text(one.node.name),
            Text(one.target or "none"),
            Text(one.risk, COLOURS[one.risk]),
            Text(losses),
            Text(shims),
        )
    out.print(table)
    for address, names in made.collisions.items():
        out.print(Text(f"several queues have the address {address}: {', '.join(names)}"))
    out.print(f"{len(made.planned)} nodes, {len(made.unmatched)} without a target", highlight=False)


def add_plan_command(bridge: typer.Typer) -> None:
    bridge.command("plan")(plan)

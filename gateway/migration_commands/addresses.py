"""``amqp-gateway bridge addresses``: address rules and what they do with an inventory."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from gateway.administration import err, out

if TYPE_CHECKING:
    from gateway.bridge.address_rules import AddressRules, DryRun

RulesFile = Annotated[Path, typer.Option("--rules", help="TOML file of address rules.")]
Inventory = Annotated[
    Path | None,
    typer.Option("--against", help="JSON list of addresses, or definitions of RabbitMQ."),
]
OneVhost = Annotated[str | None, typer.Option("--vhost", help="Only this virtual host of them.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


def addresses(
    rules: RulesFile,
    against: Inventory = None,
    vhost: OneVhost = None,
    as_json: AsJson = False,
) -> None:
    """Check address rules, and show the target of each address of an inventory.

    Exits with 1 if an address has no target, or several have the same. Changes nothing."""
    from gateway.bridge.address_inventory import compiled, read_inventory
    from gateway.config.addresses import read_address_rules

    checked = compiled(read_address_rules(rules))
    run = checked.dry_run([] if against is None else read_inventory(against, vhost))
    if as_json:
        json.dump(as_document(checked, run), sys.stdout, indent=2, ensure_ascii=False)
        sys.stdout.write("\n")
    else:
        show(checked, run)
    if not run.good:
        raise typer.Exit(1)


def as_document(rules: "AddressRules", run: "DryRun") -> dict[str, object]:
    return {
        "findings": [one._asdict() for one in rules.check()],
        "addresses": [
            {
                "address": str(place),
                "target": str(found.target),
                "rule": found.rule,
                "returns": place not in run.one_way,
            }
            for place, found in run.targets.items()
        ],
        "unmatched": [str(place) for place in run.unmatched],
        "collisions": {
            str(target): [str(place) for place in places]
            for target, places in run.collisions.items()
        },
    }


def show(rules: "AddressRules", run: "DryRun") -> None:
    for one in rules.check():
        out.print(f"{one.kind}: {' and '.join(f'rule {n}' for n in one.rules)}: {one.text}",
                  highlight=False, markup=False, soft_wrap=True)  # fmt: skip
    if run.targets:
        table = Table("address", "target", "rule", "leads back")
        one_way = set(run.one_way)
        for place, found in run.targets.items():
            back = "no" if place in one_way else "yes"
            table.add_row(str(place), str(found.target), str(found.rule or "default"), back)
        out.print(table, markup=False)
    for place in run.unmatched:
        err.print(f"no target: {place}", markup=False, soft_wrap=True)
    for target, places in run.collisions.items():
        sources = ", ".join(map(str, places))
        err.print(f"same target: {target}: {sources}", markup=False, soft_wrap=True)


def add_address_commands(group: typer.Typer) -> None:
    group.command("addresses")(addresses)

"""Commands about topologies: import from another broker, definitions and policies."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

import typer
from rich.progress import Progress
from rich.table import Table
from rich.text import Text

from gateway.administration import (
    WHERE,
    AsJson,
    Login,
    Password,
    Url,
    ask_gateway,
    err,
    fail,
    out,
    password_of,
    printable,
    show_json,
)

if TYPE_CHECKING:
    from gateway.importing import Finding, Result

LARGE_OCTETS = 1 << 20
"""A file of so many octets has a progress bar."""
ENTRIES = 1000
"""Definitions that are sent at once."""
COLOURS = {"info": "dim", "warning": "yellow", "error": "red"}

Files = Annotated[
    list[Path],
    typer.Argument(
        help="The file of the broker, and those that belong to it: virtual hosts and access rules "
        "of Broker-J, users and roles of Artemis."
    ),
]
Source = Annotated[
    str, typer.Option("--from", help="rabbitmq, broker-j, artemis, qpid-cpp or auto.")
]
Vhost = Annotated[
    str | None, typer.Option(help="Where the topology of a broker without virtual hosts goes.")
]
Output = Annotated[
    Path | None, typer.Option("--output", "-o", help="Write RabbitMQ's definitions to this file.")
]
Apply = Annotated[
    str | None, typer.Option("--apply", help="Send them to the administration at this address.")
]
Parts = Iterator[tuple[int, dict[str, Any]]]


def import_topology(
    files: Files,
    source: Source = "auto",
    vhost: Vhost = None,
    output: Output = None,
    apply: Apply = None,
    user: Login = "guest",
    password: Password = None,
    as_json: AsJson = False,
) -> None:
    """Read the topology of another broker: what it becomes here, and what has no equal.

    Changes nothing without --output or --apply. Exits with 1 if something is left out."""
    from gateway.importing import Document, ImportFailed, read_topology

    try:
        documents = [Document(one.name, one.read_bytes()) for one in files]
    except OSError as error:
        fail(f"{error.filename}: {error.strerror}")
    large = sum(len(one.octets) for one in documents) >= LARGE_OCTETS
    try:
        with Progress(console=err, transient=True, disable=not large) as progress:
            progress.add_task("reading", total=None)
            result = read_topology(documents, source, vhost)
    except ImportFailed as error:
        fail(f"{files[0]}: {error}")
    if output is not None:
        write(output, result.definitions)
    refused: list[str] = []
    if apply is not None:
        refused = send(apply, user, password_of(user, password), result.definitions)
    if as_json:
        document = {
            "format": result.format,
            "findings": [one._asdict() for one in result.findings],
            "not_applied": refused,
            "counts": counts(result.definitions),
        }
        show_json(document)
    else:
        show(result, refused)
    if refused or any(one.severity == "error" for one in result.findings):
        raise typer.Exit(1)


def write(path: Path, definitions: Any) -> None:
    """A file that only its owner may read: it may have passwords."""
    text = json.dumps(definitions, indent=1) + "\n"
    try:
        path.touch(0o600)
        path.write_text(text, "utf-8")
    except OSError as error:
        fail(f"{path}: {error.strerror}")


def counts(definitions: dict[str, Any]) -> dict[str, int]:
    return {name: len(each) for name, each in definitions.items() if isinstance(each, list)}


def show(result: "Result", refused: list[str]) -> None:
    found = ", ".join(f"{count} {name}" for name, count in counts(result.definitions).items())
    out.print(f"{result.format}: {found or 'nothing'}", highlight=False)
    if result.findings:
        out.print(findings_table(result.findings))
    for reason in refused:
        out.print(f"[red]not applied:[/red] {reason}", highlight=False, soft_wrap=True)


def findings_table(findings: "list[Finding]") -> Table:
    table = Table("severity", "place", "finding")
    for one in findings:
        table.add_row(Text(one.severity, COLOURS[one.severity]), Text(one.place), Text(one.text))
    return table


def pieces(definitions: dict[str, Any]) -> Parts:
    """Documents of at most so many entries, in the order in which they depend on each other, each
    with the number of its entries."""
    lists = {name: each for name, each in definitions.items() if isinstance(each, list)}
    first = ("vhosts", "users", "permissions", "policies", "parameters", "exchanges", "queues")
    order = [name for name in first if name in lists]
    order += [name for name in lists if name not in order]
    for name in order:
        for start in range(0, len(lists[name]), ENTRIES):
            part = lists[name][start : start + ENTRIES]
            yield len(part), {name: part}


def send(url: str, user: str, password: str, definitions: dict[str, Any]) -> list[str]:
    """Definitions that were not applied."""
    refused: list[str] = []
    total = sum(counts(definitions).values())
    with Progress(console=err, transient=True, disable=total <= ENTRIES) as progress:
        task = progress.add_task("sending", total=total)
        for count, part in pieces(definitions):
            told = ask_gateway("POST", url, "/v1/admin/definitions", user, password, part)
            refused += told["not_applied"]
            refused += [
                f"user '{one['name']}' cannot log in: {one['note']}"
                for one in told["users"]
                if one["login"] == "locked"
            ]
            progress.advance(task, count)
    return refused


# --- definitions ----------------------------------------------------------------------------------

definitions = typer.Typer(
    help="Definitions of a running gateway: virtual hosts, users, queues, exchanges, bindings, "
    "policies, in RabbitMQ's format."
)
DEFINITIONS = "/v1/admin/definitions"
DefinitionFile = Annotated[
    Path, typer.Argument(help="Definitions of a gateway or RabbitMQ, or another broker's file.")
]


@definitions.command("export")
def definitions_export(
    output: Output = None,
    url: Url = WHERE,
    user: Login = "guest",
    password: Password = None,
    users: Annotated[
        bool, typer.Option(help="With users (and the verifiers of their passwords).")
    ] = True,
) -> None:
    """Write the definitions to standard output or a file, in a stable order."""
    found = ask_gateway("GET", url, DEFINITIONS, user, password)
    for each in found.values():
        if isinstance(each, list):
            each.sort(key=lambda one: json.dumps(one, sort_keys=True))
    if not users:
        found = {name: each for name, each in found.items() if name not in PEOPLE}
    if output is not None:
        write(output, found)
    else:
        show_json(found)


PEOPLE = ("users", "permissions", "topic_permissions")


@definitions.command("import")
def definitions_import(
    file: DefinitionFile,
    source: Source = "auto",
    url: Url = WHERE,
    user: Login = "guest",
    password: Password = None,
    as_json: AsJson = False,
) -> None:
    """Add the definitions of a file; nothing is deleted.

    Exits with 1 if something is not applied, such as a queue that exists with other properties."""
    import_topology([file], source, None, None, url, user, password, as_json)


@definitions.command("diff")
def definitions_diff(
    file: DefinitionFile,
    other: Annotated[
        Path | None, typer.Argument(help="Compare with this file, and not with a gateway.")
    ] = None,
    url: Url = WHERE,
    user: Login = "guest",
    password: Password = None,
    as_json: AsJson = False,
) -> None:
    """Compare a file with the running gateway, or with another file.

    + is only in the file, - only in the gateway, ~ is unlike. Exits with 1 if there is a
    difference."""
    from gateway.definition_differences import differences
    from gateway.definitions import Definitions, read_definitions

    wanted, _ = read_definitions(file)
    if other is not None:
        present, _ = read_definitions(other)
    else:
        found = ask_gateway("GET", url, DEFINITIONS, user, password)
        present = Definitions.model_validate_json(json.dumps(found))
    unlike = list(differences(wanted, present))
    if as_json:
        show_json([one._asdict() for one in unlike])
    else:
        for one in unlike:
            sys.stdout.write(f"{one.sign} {one.kind}: {printable(one.name)}\n")
            if one.sign == "~":
                for sign, values in (("+", one.first), ("-", one.second)):
                    sys.stdout.write(f"    {sign} {json.dumps(values, sort_keys=True)}\n")
        if not unlike:
            out.print("no difference", highlight=False)
    if unlike:
        raise typer.Exit(1)


# --- policies -------------------------------------------------------------------------------------

policies = typer.Typer(help="Policies of a running gateway, over HTTP.")
PolicyName = Annotated[str, typer.Argument(help="Name of the policy.")]
PolicyVhost = Annotated[str, typer.Option(help="Virtual host.")]
Operator = Annotated[bool, typer.Option("--operator", help="Operator policies.")]


def path_of(operator: bool, *names: str) -> str:
    kind = "operator-policies" if operator else "policies"
    return "/".join((f"/api/{kind}", *(quote(name, safe="") for name in names)))


@policies.command("list")
def policy_list(
    operator: Operator = False,
    url: Url = WHERE,
    user: Login = "guest",
    password: Password = None,
    as_json: AsJson = False,
) -> None:
    """List policies."""
    found: Any = ask_gateway("GET", url, path_of(operator), user, password)
    if as_json:
        return show_json(found)
    table = Table("vhost", "name", "pattern", "apply to", "definition", "priority")
    for one in found:
        definition = json.dumps(one["definition"])
        row = (one["vhost"], one["name"], one["pattern"], one["apply-to"], definition)
        table.add_row(*map(Text, row), str(one["priority"]))
    out.print(table)


@policies.command("set")
def policy_set(
    name: PolicyName,
    pattern: Annotated[str, typer.Argument(help="Regular expression, found anywhere in a name.")],
    definition: Annotated[str, typer.Argument(help="JSON, such as '{\"max-length\": 1000}'.")],
    priority: Annotated[int, typer.Option(help="The highest is in force.")] = 0,
    apply_to: Annotated[str, typer.Option(help="all, queues, exchanges, …")] = "all",
    vhost: PolicyVhost = "/",
    operator: Operator = False,
    url: Url = WHERE,
    user: Login = "guest",
    password: Password = None,
) -> None:
    """Set a policy."""
    try:
        wanted = json.loads(definition)
    except ValueError as error:
        fail(f"the definition is not JSON: {error}")
    body = {
        "pattern": pattern,
        "definition": wanted,
        "priority": priority,
        "apply-to": apply_to,
    }
    told = ask_gateway("PUT", url, path_of(operator, vhost, name), user, password, body)
    out.print(f"policy {name} is set", highlight=False, markup=False)
    for warning in told.get("warnings", ()):
        err.print(f"[yellow]warning:[/yellow] {warning}", soft_wrap=True)


@policies.command("delete")
def policy_delete(
    name: PolicyName,
    vhost: PolicyVhost = "/",
    operator: Operator = False,
    url: Url = WHERE,
    user: Login = "guest",
    password: Password = None,
) -> None:
    """Delete a policy."""
    ask_gateway("DELETE", url, path_of(operator, vhost, name), user, password)
    out.print(f"policy {name} is deleted", highlight=False, markup=False)


def add_topology_commands(cli: typer.Typer) -> None:
    cli.command("import")(import_topology)
    cli.add_typer(definitions, name="definitions", no_args_is_help=True)
    cli.add_typer(policies, name="policy", no_args_is_help=True)

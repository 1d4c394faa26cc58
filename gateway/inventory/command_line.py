"""The commands ``observe``, ``inventory report`` and ``inventory diff``."""

import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console

Target = Literal["rabbitmq-4", "artemis", "generic-1.0"]
Form = Literal["text", "json", "csv", "html"]

inventories = typer.Typer(help="Read inventories that observe mode has made.")

InventoryFile = Annotated[Path, typer.Argument(help="File that observe has written.")]
ForTarget = Annotated[Target, typer.Option(help="Broker that the queues move to.")]


def add_commands(cli: typer.Typer) -> None:
    """Add the commands to the program."""
    cli.command()(observe)
    cli.add_typer(inventories, name="inventory", no_args_is_help=True)


def fail(text: str) -> None:
    Console(stderr=True).print(text, style="red", highlight=False, markup=False)
    raise typer.Exit(2)


def endpoint(text: str) -> tuple[str, int]:
    """Host and port. Raises ``ValueError``."""
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdecimal() or int(port) > 65535:
        raise ValueError(f"{text!r} should be host:port")
    return host.removeprefix("[").removesuffix("]"), int(port)


def observe(
    upstream: Annotated[str, typer.Option(help="Old broker: amqp://host:port or amqps://...")],
    inventory: Annotated[Path, typer.Option(help="File of the inventory; gone on with.")],
    listen: Annotated[str, typer.Option(help="host:port for the clients.")] = "127.0.0.1:5672",
    tls_cert: Annotated[Path | None, typer.Option(help="Certificate chain, PEM.")] = None,
    tls_key: Annotated[Path | None, typer.Option(help="Private key, PEM.")] = None,
    upstream_ca: Annotated[
        Path | None, typer.Option(help="Authorities of the old broker's certificate, PEM.")
    ] = None,
    seconds: Annotated[float, typer.Option(help="Between two times that the file is written.")] = 5,
    log_level: Annotated[str, typer.Option(help="Lowest level logged.")] = "info",
) -> None:
    """Stand before an old broker, forward every octet, and record what its clients use."""
    import logging

    from gateway.config.bridge import read_address
    from gateway.inventory.observing import Plan

    try:
        host, port = endpoint(listen)
        address = read_address(upstream)
    except ValueError as error:
        fail(str(error))
    if (tls_cert is None) != (tls_key is None):
        fail("--tls-cert and --tls-key belong together")
    logging.basicConfig(level=log_level.upper(), format="%(asctime)s %(levelname)s %(message)s")
    plan = Plan(host, port, address, inventory, tls_cert, tls_key, upstream_ca, seconds)
    _run(plan)


def _run(plan: Any) -> None:
    import asyncio
    import signal

    from gateway.event_loop import freeze, run
    from gateway.inventory.observing import Observing

    async def work() -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for sign in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(sign, stop.set)
        async with Observing(plan) as observing:
            where = f"{plan.host}:{observing.port}"
            text = f"observing {plan.upstream} on {where}, inventory in {plan.file}"
            Console(soft_wrap=True).print(text, highlight=False, markup=False)
            # A full collection of a large inventory would stop the loop for 50 ms and more; what
            # ended connections leave is freed without it.
            freeze()
            await stop.wait()

    run(work())


@inventories.command()
def report(
    file: InventoryFile,
    target: ForTarget = "generic-1.0",
    form: Annotated[Form, typer.Option("--format", help="Form of the report.")] = "text",
) -> None:
    """Features that each client and node uses, and their needs on 1.0. Exit status 1 if something
    is blocking, 2 for a file that cannot be read."""
    from gateway.inventory import report as reports
    from gateway.inventory.document import load
    from gateway.inventory.inventory import InventoryError

    try:
        inventory = load(file)
    except InventoryError as error:
        fail(str(error))
    if form == "text":
        reports.show(inventory, target, Console())
    else:
        forms = {"json": reports.as_json, "csv": reports.as_csv, "html": reports.as_html}
        sys.stdout.write(forms[form](inventory, target))
    if reports.worst(reports.findings(inventory, target)) == "blocking":
        raise typer.Exit(1)


@inventories.command()
def diff(
    before: InventoryFile,
    after: InventoryFile,
    target: ForTarget = "generic-1.0",
    form: Annotated[Literal["text", "json"], typer.Option("--format", help="Form.")] = "text",
) -> None:
    """Entries that are new in the second inventory, or gone. Exit status 1 if something new is
    blocking."""
    import json

    from gateway.inventory.document import load
    from gateway.inventory.inventory import InventoryError
    from gateway.inventory.report import compare

    try:
        found = compare(load(before), load(after), target)
    except InventoryError as error:
        fail(str(error))
    if form == "json":
        sys.stdout.write(json.dumps([one._asdict() for one in found], indent=2) + "\n")
    else:
        out = Console()
        for one in found:
            mark = "+" if one.change == "new" else "-"
            note = f" [{one.severity}]" if one.scope == "feature" else ""
            out.print(f"{mark} {one.scope} {one.label}{note}", highlight=False, markup=False)
        if not found:
            out.print("no difference")
    if any(one.change == "new" and one.severity == "blocking" for one in found):
        raise typer.Exit(1)

"""The command ``bench``: the rate of one publisher and one consumer at a broker, in any version.

It says what this machine and this broker do with plain messages, and compares no brokers; that is
what ``benchmarks/`` of the sources is for.
"""

import sys
from typing import Annotated

import typer
from rich.table import Table

from gateway.administration import AsJson, fail, out, show_json

STAMP = 8
"""Octets of the smallest body."""


def bench(
    address: Annotated[str, typer.Argument(help="amqp://host:port.")] = "amqp://127.0.0.1:5672",
    version: Annotated[
        str, typer.Option(help="AMQP version, such as 0-9-1, 0-10 or 1.0.")
    ] = "0-9-1",
    count: Annotated[int, typer.Option("--count", "-n", min=1, help="Messages.")] = 20_000,
    size: Annotated[int, typer.Option(min=STAMP, help="Octets of a body.")] = 1000,
    window: Annotated[int, typer.Option(min=1, help="Unconfirmed messages at most.")] = 1000,
    transient: Annotated[bool, typer.Option("--transient", help="Not on disk.")] = False,
    vhost: Annotated[str, typer.Option("--vhost", "-V", help="Virtual host.")] = "/",
    user: Annotated[str, typer.Option(help="User.")] = "guest",
    password: Annotated[str, typer.Option(help="Password.")] = "guest",
    as_json: AsJson = False,
) -> None:
    """Publish messages with confirms, consume them at the same time, and show rates and latencies.

    Makes a queue of its own and deletes it. Exits with 1 if not all messages were confirmed and
    consumed."""
    from gateway.adapters import Credentials
    from gateway.adapters.registry import VERSIONS
    from gateway.bench import Load
    from gateway.config.bridge import read_address
    from gateway.errors import Refusal
    from gateway.event_loop import run
    from gateway.similar_names import did_you_mean

    if version not in VERSIONS:
        fail(f"no version '{version}'{did_you_mean(version, VERSIONS)}; amqp-gateway versions")
    try:
        where = read_address(address)
    except ValueError as error:
        fail(str(error))
    load = Load((where.host, where.port), version, vhost, Credentials(user, password))
    load.count, load.size, load.window, load.durable = count, size, window, not transient
    try:
        run(load.run())
    except (OSError, Refusal) as error:
        fail(f"{where}: {error}")
    found = load.result.document()
    if as_json:
        show_json({"version": version, "size": size, "durable": not transient, **found})
    else:
        table = Table("", "messages", "per second", "median ms", "p95", "p99", "longest")
        for what in ("confirmed", "consumed"):
            times = found["confirm_ms" if what == "confirmed" else "delivery_ms"]
            cells = [str(one) for one in times.values()] or ["-"] * 4
            table.add_row(what, str(found[what]), str(found[f"{what}_per_second"]), *cells)
        out.print(table)
    if not load.result.confirmed == load.result.consumed == count:
        sys.stderr.write(f"only {load.result.confirmed} of {count} messages were confirmed\n")
        raise typer.Exit(1)

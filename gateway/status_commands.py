"""Commands that show a running gateway: ``status``, once, and ``top``, again and again."""

import json
import sys
import time
from typing import Annotated, Any

import typer
from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from gateway.administration import WHERE, Password, out, printable
from gateway.gateway_client import (
    GatewayClient,
    ServerUrl,
    ServerUser,
    open_client,
    segment,
)

NOT_READY = 1
"""Exit code."""
Most = Annotated[int, typer.Option("--queues", "-q", min=0, help="Queues that are shown.")]
COUNTS = ("connections", "channels", "queues", "consumers", "ready", "unacknowledged")


def status(
    queues: Most = 20,
    url: ServerUrl = WHERE,
    user: ServerUser = "guest",
    password: Password = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Show whether the gateway is ready, its figures, and its fullest queues.

    Needs a user with the tag monitoring or administrator. Exits with 1 if the gateway is not
    ready."""
    with open_client(url, user, password) as client:
        found = look(client)
    if as_json:
        json.dump(found, sys.stdout)
        sys.stdout.write("\n")
    else:
        out.print(view(found, queues))
    if found["health"].get("status") != "ready":
        raise typer.Exit(NOT_READY)


def top(
    interval: Annotated[float, typer.Option("--interval", "-i", min=0.2, help="Seconds.")] = 2,
    rounds: Annotated[
        int | None, typer.Option("--rounds", "-n", min=1, help="End after so many looks.")
    ] = None,
    queues: Most = 20,
    url: ServerUrl = WHERE,
    user: ServerUser = "guest",
    password: Password = None,
) -> None:
    """Show the same as status, again every few seconds, until interrupted."""
    with (
        open_client(url, user, password) as client,
        Live(console=out, auto_refresh=False) as live,
    ):
        done = 0
        try:
            while True:
                live.update(view(look(client), queues), refresh=True)
                done += 1
                if done == rounds:
                    return
                time.sleep(interval)
        except KeyboardInterrupt:
            return


def look(client: GatewayClient) -> dict[str, Any]:
    """What is shown."""
    ready = client.send("GET", "/readyz")
    health = {} if "json" not in ready.headers.get("content-type", "") else ready.json()
    overview = client.ask("GET", "/v1/admin/overview")
    hosts = client.ask("GET", "/v1/admin/vhosts")["vhosts"]
    paths = (f"/v1/admin/vhosts/{segment(one['name'])}/queues" for one in hosts)
    queues = [one for path in paths for one in client.ask("GET", path)["queues"]]
    return {"health": health, "overview": overview, "queues": queues}


def view(found: dict[str, Any], most: int) -> Group:
    overview, health = found["overview"], found["health"]
    ready = health.get("status", "unknown")
    head = Text(f"amqp-gateway {overview['version']}: ")
    head.append(ready, "green" if ready == "ready" else "red")
    failed = [name for name, good in health.get("checks", {}).items() if not good]
    if failed:
        head.append(f" ({', '.join(failed)} failed)")
    if overview.get("blocked"):
        head.append(f"; publishers are paused: {printable(str(overview['blocked']))}", "red")
    counts = Text(", ".join(f"{overview[name]} {name}" for name in COUNTS))
    shown = sorted(
        found["queues"],
        key=lambda one: (-one["messages"], one["vhost"], one["name"]),
    )[:most]
    table = Table("vhost", "queue", "ready", "unacknowledged", "consumers", "in /s", "out /s")
    for one in shown:
        table.add_row(
            Text(printable(one["vhost"])),
            Text(printable(one["name"])),
            *(str(one[name]) for name in ("ready", "unacknowledged", "consumers")),
            f"{one['publish_rate']:.1f}",
            f"{one['deliver_rate']:.1f}",
        )
    left = len(found["queues"]) - len(shown)
    more = [Text(f"and {left} more queues")] if left else []
    return Group(head, counts, *([table] if shown else []), *more)

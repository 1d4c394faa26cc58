"""``amqp-gateway bridge modes``, ``mode``, ``cutover`` and ``cutback``."""

import time
from typing import Annotated, Any
from urllib.parse import quote

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from gateway.administration import Login, Password, ask_gateway, err, fail, out
from gateway.migration_commands.options import Json
from gateway.migration_commands.screen import print_json

LOOK_SECONDS = 0.2
WHERE = "http://127.0.0.1:8080"

Running = Annotated[str, typer.Option("--gateway", help="Address of the running gateway.")]
Vhost = Annotated[str, typer.Option(help="Virtual host of the facade.")]
Queues = Annotated[list[str] | None, typer.Option("--queue", "-q", help="Queue; repeatable.")]
Exchanges = Annotated[
    list[str] | None, typer.Option("--exchange", "-e", help="Exchange; repeatable.")
]
All = Annotated[
    bool, typer.Option("--all", help="All queues and exchanges that have a mode, queues first.")
]
ModeName = Annotated[
    str, typer.Argument(help="old-only, shadow, mirror, new-primary or new-only.", metavar="MODE")
]


def path_of(vhost: str) -> str:
    return f"/v1/admin/facades/{quote(vhost, safe='')}/modes"


def some_first(one: dict[str, Any]) -> str:
    """The clients and keys that are at the broker that is not the primary one already."""
    found = [f"producer {name}" for name in one["users"]]
    found += [f"{one['percent']} % of producers' keys"] if one["percent"] else []
    found += [f"consumer {name}" for name in one["consumers"]]
    found += [f"{one['keys']} % of keys"] if one["keys"] else []
    return ", ".join(found)


def show(modes: list[dict[str, Any]], as_json: bool) -> None:
    if as_json:
        print_json({"modes": modes})
        return
    table = Table(
        "address",
        "mode",
        "other broker first",
        "moved",
        "brought",
        "copied",
        "lost",
        "differences",
        "error",
    )
    for one in modes:
        differing = ", ".join(f"{name} {count}" for name, count in one["differences"].items())
        table.add_row(
            one["name"] if one["kind"] == "queue" else f"exchange {one['name']}",
            f"{one['mode']} -> {one['target']}" if one["target"] else one["mode"],
            some_first(one),
            str(one["moved"]),
            str(one["brought"]),
            str(one["copied"]),
            str(one["copies_lost"]),
            differing or ("none" if one["compared"] else ""),
            one["error"],
        )
    out.print(table)


def modes(
    gateway: Running = WHERE,
    vhost: Vhost = "/",
    user: Login = "guest",
    password: Password = None,
    as_json: Json = False,
) -> None:
    """Show the modes of addresses. Those that are not shown are old-only."""
    found = ask_gateway("GET", gateway, path_of(vhost), user, password)
    show(found["modes"], as_json)


def mode(
    mode: ModeName,
    queue: Queues = None,
    exchange: Exchanges = None,
    all: All = False,
    percent: Annotated[
        int, typer.Option(help="Keys whose publishes go to the other broker already.")
    ] = 0,
    producer: Annotated[
        list[str] | None, typer.Option(help="User whose publishes do; repeatable.")
    ] = None,
    consumer: Annotated[
        list[str] | None,
        typer.Option(help="User or client id whose consumers are at the other broker; repeatable."),
    ] = None,
    keys: Annotated[
        int, typer.Option(help="Keys, in percent, whose messages are consumed at the other broker.")
    ] = 0,
    gateway: Running = WHERE,
    vhost: Vhost = "/",
    user: Login = "guest",
    password: Password = None,
    as_json: Json = False,
) -> None:
    """Change the mode of addresses, one after the other, and wait for the end."""
    login = (user, password)
    before = ask_gateway("GET", gateway, path_of(vhost), *login)["modes"]
    wanted = {"queue": list(queue or ()), "exchange": list(exchange or ())}
    if all:
        for one in before:
            if one["name"] not in wanted[one["kind"]]:
                wanted[one["kind"]].append(one["name"])
    if not any(wanted.values()):
        fail("no address is given: --queue, --exchange or --all")
    body: dict[str, Any] = {"mode": mode, "percent": percent, "users": list(producer or ())}
    body |= {"consumers": list(consumer or ()), "keys": keys}
    body |= {"queues": wanted["queue"], "exchanges": wanted["exchange"]}
    ask_gateway("POST", gateway, path_of(vhost), *login, body)
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    names = {(kind, name) for kind, given in wanted.items() for name in given}
    with Progress(*columns, console=err, disable=as_json or not err.is_terminal) as progress:
        bar = progress.add_task(mode, total=len(names))
        while True:
            told = ask_gateway("GET", gateway, path_of(vhost), *login)["modes"]
            changed = [one for one in told if (one["kind"], one["name"]) in names]
            done = [one for one in changed if not one["target"]]
            progress.update(bar, completed=len(done))
            if len(done) == len(changed):
                break
            time.sleep(LOOK_SECONDS)
    show(changed, as_json)
    if any(one["error"] or one["mode"] != mode for one in changed):
        raise typer.Exit(1)


def cutover(
    queue: Queues = None,
    exchange: Exchanges = None,
    all: All = False,
    gateway: Running = WHERE,
    vhost: Vhost = "/",
    user: Login = "guest",
    password: Password = None,
    as_json: Json = False,
) -> None:
    """Let the new broker take over: mode new-primary. Clients stay connected."""
    mode(
        "new-primary",
        queue,
        exchange,
        all,
        gateway=gateway,
        vhost=vhost,
        user=user,
        password=password,
        as_json=as_json,
    )


def cutback(
    queue: Queues = None,
    exchange: Exchanges = None,
    all: All = False,
    to: Annotated[str, typer.Option(help="old-only, shadow or mirror.")] = "old-only",
    gateway: Running = WHERE,
    vhost: Vhost = "/",
    user: Login = "guest",
    password: Password = None,
    as_json: Json = False,
) -> None:
    """Back to the old broker, with all messages. Clients stay connected."""
    mode(
        to,
        queue,
        exchange,
        all,
        gateway=gateway,
        vhost=vhost,
        user=user,
        password=password,
        as_json=as_json,
    )


def add_mode_commands(bridge: typer.Typer) -> None:
    """Put the commands into the group ``bridge``."""
    for command in (modes, mode, cutover, cutback):
        bridge.command()(command)

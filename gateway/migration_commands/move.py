"""``amqp-gateway bridge move``, ``status``, ``pause``, ``resume``, ``forget`` and ``rollback``."""

import signal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

import typer

from gateway.administration import Login, Password, ask_gateway, fail, out
from gateway.migration_commands.options import (
    JOURNAL,
    From,
    FromPassword,
    FromVersion,
    Gateway,
    JournalFile,
    Json,
    QueueFile,
    Queues,
    To,
    ToPassword,
    ToVersion,
    pairs_of,
    password_of_side,
    plain,
    side_in_gateway,
)
from gateway.migration_commands.screen import bars, print_json, print_move, print_return
from gateway.migration_commands.workshop import Passwords, moving

if TYPE_CHECKING:
    from gateway.bridge.migration.move import Move
    from gateway.bridge.migration.settings import MoveSettings

MOVES = "/v1/admin/moves"
COUNTS = "/v1/admin/move-counts"
Name = Annotated[str, typer.Argument(help="Name of the move.")]


def move(
    source: From,
    destination: To,
    queue: Queues = None,
    queue_file: QueueFile = None,
    from_version: FromVersion = "auto",
    to_version: ToVersion = "auto",
    from_password_file: FromPassword = None,
    to_password_file: ToPassword = None,
    journal: JournalFile = JOURNAL,
    name: Annotated[str, typer.Option(help="Name of the move.")] = "",
    batch: Annotated[int, typer.Option(help="Messages under way without a confirm.")] = 500,
    rate: Annotated[float, typer.Option(help="Most messages per second; 0: no limit.")] = 0.0,
    grace: Annotated[
        float, typer.Option(help="Seconds without a message before a queue counts as empty.")
    ] = 1.0,
    wait: Annotated[
        float,
        typer.Option(
            help="Most seconds to wait, after an interruption, for what was under way to come back."
        ),
    ] = 10.0,
    retries: Annotated[int, typer.Option(help="Further attempts with a refused message.")] = 3,
    refused: Annotated[
        str, typer.Option(help="stop: end at a refused message; reject: reject it at its source.")
    ] = "stop",
    notes: Annotated[
        bool, typer.Option(help="Whether messages carry the header x-gateway-move afterwards.")
    ] = True,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Count, and move nothing.")] = False,
    gateway: Gateway = None,
    user: Login = "guest",
    password: Password = None,
    as_json: Json = False,
) -> None:
    """Empty queues of one broker into another. Given again after an interruption, it goes on."""
    given: dict[str, Any] = {
        "queues": pairs_of(queue, queue_file),
        "batch": batch,
        "rate": rate,
        "grace_seconds": grace,
        "wait_seconds": wait,
        "retries": retries,
        "refused": refused,
        "notes": notes,
    }
    if gateway is not None:
        given["source"], given["source_vhost"] = side_in_gateway(source)
        given["destination"], given["destination_vhost"] = side_in_gateway(destination)
        path = COUNTS if dry_run else MOVES
        told = ask_gateway("POST", gateway, path, user, password, given | {"name": name})
        show(told, as_json) if not dry_run else show_counts(told["queues"], as_json)
        return
    given |= {
        "source": source,
        "destination": destination,
        "versions": (from_version, to_version),
    }
    settings = read(given)
    passwords = Passwords(
        password_of_side(from_password_file, "FROM"), password_of_side(to_password_file, "TO")
    )
    passwords.learn(source, destination)
    # Before there is a journal: a wrong address should leave none behind.
    sides = passwords.sides(settings, "dry run")
    if dry_run:
        from gateway.bridge.migration.moves import count_queues

        counted = guarded(count_queues(settings, *sides))
        show_counts(plain(counted), as_json)
        return
    with moving(journal, passwords, (source, destination)) as moves:
        found = moves.all.get(name) if name else moves.like(settings)
        if found is None:
            found = moves.add(settings, name)
        run(found, as_json)
        show(plain(found.info()), as_json)
    end(found)


def read(given: dict[str, Any]) -> "MoveSettings":
    from pydantic import ValidationError

    from gateway.bridge.migration.settings import MoveSettings

    try:
        return MoveSettings.model_validate(given)
    except ValidationError as error:
        told = (f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors())
        fail("; ".join(told))


def guarded(work: Any) -> Any:
    """Run it; an end that is not there is an error of one line."""
    import asyncio

    try:
        return asyncio.run(work)
    except OSError as error:
        fail(str(error) or type(error).__name__)


def run(found: "Move", quiet: bool) -> None:
    """Run a move; a first Ctrl-C pauses it after the batch under way."""
    import asyncio

    from gateway.event_loop import run as run_loop

    async def work() -> None:
        loop = asyncio.get_running_loop()
        found.start()
        stops: list[asyncio.Task[None]] = []
        for sign in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(sign, lambda: stops.append(loop.create_task(found.pause())))
        await found.ended()
        await asyncio.gather(*stops)

    with bars(found, quiet):
        run_loop(work())


def end(found: "Move") -> None:
    """Status 0 if everything was moved, otherwise 1."""
    if found.state.value != "done":
        raise typer.Exit(1)


def show(told: dict[str, Any], as_json: bool) -> None:
    print_json(told) if as_json else print_move(told)


def show_counts(counted: list[dict[str, Any]], as_json: bool) -> None:
    if as_json:
        print_json({"queues": counted})
        return
    for one in counted:
        messages = "unknown" if one["messages"] is None else one["messages"]
        there = "unknown" if one["there"] is None else one["there"]
        text = f"{one['source']}: {messages} -> {one['destination']}: {there}"
        out.print(text, highlight=False, markup=False)


def status(
    journal: JournalFile = JOURNAL,
    gateway: Gateway = None,
    user: Login = "guest",
    password: Password = None,
    as_json: Json = False,
) -> None:
    """Show the moves of a journal, or of a running gateway."""
    if gateway is not None:
        told = ask_gateway("GET", gateway, MOVES, user, password)["moves"]
    else:
        from gateway.bridge.migration.journal import Journal
        from gateway.bridge.migration.move import info_of

        book = Journal(journal, reading=True)
        try:
            told = [
                plain(
                    info_of(
                        one,
                        book.queues(one.name),
                        one.settings["source"],
                        one.settings["destination"],
                    )
                )
                for one in book.moves()
            ]
        finally:
            book.close()
    if as_json:
        print_json({"moves": told})
        return
    for one in told:
        print_move(one)


def rollback(
    name: Annotated[str, typer.Argument(help="Name of the move; the last one, if empty.")] = "",
    force: Annotated[
        bool, typer.Option("--force", help="Also if messages stand before those that come back.")
    ] = False,
    from_password_file: FromPassword = None,
    to_password_file: ToPassword = None,
    journal: JournalFile = JOURNAL,
    gateway: Gateway = None,
    user: Login = "guest",
    password: Password = None,
    as_json: Json = False,
) -> None:
    """Move back what a move brought and nobody has taken. Passwords are those of the move."""
    if gateway is not None:
        path = f"{MOVES}/{quote(name, safe='')}/rollback"
        show(ask_gateway("POST", gateway, path, user, password, {"force": force}), as_json)
        return
    passwords = Passwords(
        password_of_side(from_password_file, "FROM"), password_of_side(to_password_file, "TO")
    )
    with moving(journal, passwords) as moves:
        forwards = [one for one, move in moves.all.items() if not move.reverses]
        if (name or (forwards or [""])[-1]) not in moves.all:
            fail(f"{journal} has no move {name!r}")
        name = name or forwards[-1]
        back = guarded(moves.roll_back(name, force=force))
        run(back, as_json)
        told = plain(back.info()) | moves.came_back(back)
        show(told, as_json)
        if not as_json:
            print_return(told)
    end(back)


def act(what: str, method: str, name: str, gateway: str, user: str, password: str | None) -> None:
    path = f"{MOVES}/{quote(name, safe='')}" + (f"/{what}" if method == "POST" else "")
    ask_gateway(method, gateway, path, user, password)
    out.print(f"move {name}: {what}", highlight=False, markup=False)


Running = Annotated[str, typer.Option("--gateway", help="Address of the running gateway.")]
WHERE = "http://127.0.0.1:8080"


def pause(
    name: Name, gateway: Running = WHERE, user: Login = "guest", password: Password = None
) -> None:
    """Pause a move of a running gateway."""
    act("pause", "POST", name, gateway, user, password)


def resume(
    name: Name, gateway: Running = WHERE, user: Login = "guest", password: Password = None
) -> None:
    """Let a move of a running gateway go on."""
    act("resume", "POST", name, gateway, user, password)


def forget(
    name: Name,
    journal: Annotated[
        Path | None, typer.Option(help="The journal; otherwise a running gateway is asked.")
    ] = None,
    gateway: Running = WHERE,
    user: Login = "guest",
    password: Password = None,
) -> None:
    """Remove a move that does not run from its journal."""
    if journal is None:
        act("forget", "DELETE", name, gateway, user, password)
        return
    with moving(journal, Passwords("", "")) as moves:
        if name not in moves.all:
            fail(f"{journal} has no move {name!r}")
        moves.all[name].state = type(moves.all[name].state)("paused")
        moves.forget(name)
    out.print(f"move {name}: forget", highlight=False, markup=False)


def add_move_commands(bridge: typer.Typer) -> None:
    """Put the commands into the group ``bridge``."""
    for command in (move, status, rollback, pause, resume, forget):
        bridge.command()(command)

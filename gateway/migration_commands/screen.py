"""How a move is shown: bars while it runs, a table, or JSON."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Table

from gateway.administration import err, out

if TYPE_CHECKING:
    from gateway.bridge.migration.move import Move

SHOWN = 12
"""Queues that have a bar of their own."""


def print_json(value: Any) -> None:
    out.print_json(json.dumps(value))


@contextmanager
def bars(move: "Move", hidden: bool) -> Iterator[None]:
    """Bars on the terminal, as long as the move runs."""
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]} messages/s"),
        TimeElapsedColumn(),
    )
    hidden = hidden or not err.is_terminal
    with Progress(*columns, console=err, disable=hidden, transient=False) as progress:
        tasks: dict[int, TaskID] = {}

        def show() -> None:
            rate = f"{move.info().rate:.0f}"
            for number, one in move.queues.items():
                begun = one.moved or one.expected is not None
                if number not in tasks and begun and len(tasks) < SHOWN:
                    name = f"{one.source} -> {one.destination}"
                    tasks[number] = progress.add_task(name, total=one.expected, rate=rate)
                if number in tasks:
                    total = None if one.expected is None else max(one.expected, one.moved)
                    progress.update(tasks[number], completed=one.moved, total=total, rate=rate)

        move.progress = show
        yield
        show()


def print_move(told: dict[str, Any]) -> None:
    """A move with its queues."""
    what = f"rollback of {told['reverses']}" if told["reverses"] else "move"
    out.print(f"{told['name']}: {what}, {told['state']}", highlight=False, markup=False)
    out.print(f"  {told['source']} -> {told['destination']}", highlight=False, markup=False)
    table = Table(
        "source", "destination", "state", "moved", "expected", "flagged", "suppressed", "rejected"
    )
    for one in told["queues"]:
        expected = "?" if one["expected"] is None else str(one["expected"])
        counts = (str(one[name]) for name in ("flagged", "suppressed", "rejected"))
        state = "empty" if one["done"] else "open"
        table.add_row(
            one["source"], one["destination"], state, str(one["moved"]), expected, *counts
        )
    out.print(table)
    if told["error"]:
        err.print(f"[red]error:[/red] {told['error']}", soft_wrap=True)


def print_return(told: dict[str, Any]) -> None:
    """Counts of a rollback: messages that came back, and those that did not."""
    if not told["notes"]:
        out.print(f"{told['moved']} messages came back; they have no notes of the move")
        return
    out.print(
        f"{told['moved']} messages came back: {told['returned']} of the move, "
        f"{told['strangers']} that others had published there",
        highlight=False,
    )
    if told["taken"]:
        text = f"{told['taken']} messages did not come back: consumers have taken them"
        err.print(f"[yellow]warning:[/yellow] {text}", soft_wrap=True)

"""``amqp-gateway bridge verify``: compare two sides, or record one of them."""

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from gateway.administration import err, fail, out
from gateway.errors import GatewayError
from gateway.migration_commands.options import (
    JOURNAL,
    ByGroup,
    FromPassword,
    FromVersion,
    Ignore,
    JournalFile,
    Json,
    Key,
    QueueFile,
    Queues,
    ToPassword,
    ToVersion,
    Unordered,
    pairs_of,
    password_of_side,
)
from gateway.migration_commands.screen import print_json

if TYPE_CHECKING:
    from gateway.bridge.comparison.comparing import Compared, Rules
    from gateway.bridge.comparison.recording import Recording
    from gateway.bridge.migration.sides import RemoteSide

Pair = dict[str, str]
LOOK_SECONDS = 1.0
"""Pause between two looks for messages that come late."""


def verify(
    left: Annotated[
        str, typer.Option("--from", help="amqp://user@host/vhost, or a file made by --record.")
    ],
    right: Annotated[
        str | None, typer.Option("--to", help="The other side, as --from. Not with --record.")
    ] = None,
    queue: Queues = None,
    queue_file: QueueFile = None,
    record: Annotated[
        Path | None, typer.Option(help="Record the queues of --from in this file, for later.")
    ] = None,
    from_version: FromVersion = "auto",
    to_version: ToVersion = "auto",
    from_password_file: FromPassword = None,
    to_password_file: ToPassword = None,
    ignore: Ignore = None,
    key: Key = "",
    unordered: Unordered = False,
    by_group: ByGroup = False,
    late: Annotated[
        float, typer.Option(help="Seconds to wait for messages that are missing at --to.")
    ] = 0.0,
    taking: Annotated[
        bool,
        typer.Option(
            help="Where a version cannot browse: take all messages of a queue and give them back, "
            "which marks them as redelivered."
        ),
    ] = False,
    form: Annotated[
        str, typer.Option(help="Version in which they are compared: 0-9-1, 1.0, or own.")
    ] = "0-9-1",
    journal: JournalFile = JOURNAL,
    as_json: Json = False,
) -> None:
    """Compare queues of two sides without taking their messages. Status 0: equal; 1: not."""
    if (right is None) == (record is None):
        fail("give --to, or --record")
    if form not in ("0-9-1", "1.0", "own"):
        fail("--form is 0-9-1, 1.0 or own")
    if unordered and by_group:
        fail("--by-group is not for --unordered")
    from gateway.bridge.comparison.comparing import Rules

    order = "none" if unordered else "group" if by_group else "all"
    rules = Rules(tuple(ignore or ()), key, order)
    use_key_of(journal)
    pairs = pairs_of(queue, queue_file)
    with tempfile.TemporaryDirectory(prefix="amqp-gateway-") as folder:
        reader = Reader(Path(folder), "" if form == "own" else form, taking)
        password = password_of_side(from_password_file, "FROM")
        sources = [one["source"] for one in pairs]
        mine = reader.read(left, sources, from_version, password, record)
        if right is None:
            counts = {name: sum(1 for _ in mine.rows(name)) for name in sources}
            if as_json:
                print_json({"queues": counts})
            else:
                for name, count in counts.items():
                    out.print(f"{name}: {count} messages", highlight=False, markup=False)
            return
        password = password_of_side(to_password_file, "TO")
        again = Again(reader, right, to_version, password)
        told = compare(mine, again, pairs, rules, late)
    if as_json:
        print_json({"equal": all(one["equal"] for one in told), "queues": told})
    else:
        for one in told:
            print_comparison(one)
    if not all(one["equal"] for one in told):
        raise typer.Exit(1)


def use_key_of(journal: Path) -> None:
    """Read the sealed first form in messages with the key of the journal that sealed it."""
    from gateway.bridge.migration.journal import Journal
    from gateway.crossing.crossing import Crossing
    from gateway.message import cross_with

    key = bytes(32)
    if journal.exists():
        book = Journal(journal, reading=True)
        key = book.key
        book.close()
    cross_with(Crossing(key))


class Reader:
    """Reads sides into recordings in a folder."""

    def __init__(self, folder: Path, form: str, taking: bool) -> None:
        self.folder = folder
        self.form = form
        self.taking = taking
        self._count = 0

    def read(
        self, side: str, queues: list[str], version: str, password: str, into: Path | None = None
    ) -> "Recording":
        """A recording of these queues: a file, or made now of a broker."""
        import asyncio

        from gateway.bridge.comparison.recording import Recording

        if "://" not in side:
            found = Recording(Path(side))
            if found.form != self.form:
                fail(f"{side} is recorded in the form {found.form or 'own'}")
            for name in queues:
                if not found.has(name):
                    fail(f"{side} has no queue {name!r}, but {', '.join(found.queues())}")
            return found
        from gateway.bridge.migration.brokers import read_url, shown, upstream_of
        from gateway.bridge.migration.sides import RemoteSide

        settings = read_url(side, "broker", version, password)
        broker = RemoteSide(upstream_of(settings), "verify", shown(settings))
        self._count += 1
        made = Recording(into or self.folder / f"{self._count}.db", self.form)
        try:
            for name in queues:
                with counting(f"{broker.described}: {name}") as progress:
                    asyncio.run(self._record(made, broker, name, progress))
        except OSError as error:
            fail(f"{broker.described}: {error or type(error).__name__}")
        except GatewayError as error:
            fail(f"{error}; see --taking" if "by taking" in str(error) else str(error))
        return made

    async def _record(
        self,
        made: "Recording",
        broker: "RemoteSide",
        queue: str,
        progress: Callable[[int], None],
    ) -> None:
        await made.record(queue, broker.browse(queue, self.taking), progress)


class Again:
    """A side that can be read more than once."""

    def __init__(self, reader: Reader, side: str, version: str, password: str) -> None:
        self.live = "://" in side
        self._reader = reader
        self._place = side, version, password

    def look(self, queues: list[str]) -> "Recording":
        side, version, password = self._place
        return self._reader.read(side, queues, version, password)


def compare(
    mine: "Recording", other: Again, pairs: list[Pair], rules: "Rules", late: float
) -> list[dict[str, Any]]:
    """Each pair of queues; those with missing messages again, until the time is over."""
    from gateway.bridge.comparison.comparing import Comparison

    deadline = time.monotonic() + late
    yours = other.look([target(one) for one in pairs])
    told = []
    for pair in pairs:
        compared = Comparison(mine, pair["source"], yours, target(pair), rules).run()
        first = compared.lost
        while compared.lost and other.live and time.monotonic() < deadline:
            time.sleep(LOOK_SECONDS)
            again = other.look([target(pair)])
            compared = Comparison(mine, pair["source"], again, target(pair), rules).run()
            again.close()
        came = sorted(first - compared.lost)
        told.append(document(pair, compared, came))
    return told


def target(pair: Pair) -> str:
    return pair["destination"] or pair["source"]


def document(pair: Pair, compared: "Compared", late: list[int]) -> dict[str, Any]:
    """The result as JSON."""
    names = ("left", "right", "id", "what")
    classes = {
        name: {
            "count": found.number,
            "examples": [dict(zip(names, one, strict=True)) for one in found.examples],
        }
        for name, found in compared.classes.items()
        if found.number
    }
    if late:
        examples = [{"left": number, "right": 0, "id": "", "what": ""} for number in late[:10]]
        classes["late"] = {"count": len(late), "examples": examples}
    return {
        "source": pair["source"],
        "destination": target(pair),
        "equal": compared.equal,
        "left": compared.left._asdict(),
        "right": compared.right._asdict(),
        "classes": classes,
    }


def print_comparison(told: dict[str, Any]) -> None:
    verdict = "[green]equal[/green]" if told["equal"] else "[red]not equal[/red]"
    counts = f"{told['left']['messages']} and {told['right']['messages']} messages"
    out.print(f"{told['source']} -> {told['destination']}: {verdict}, {counts}", highlight=False)
    if not told["classes"]:
        return
    table = Table("class", "messages", "left", "right", "id", "what")
    for name, found in told["classes"].items():
        for n, one in enumerate(found["examples"]):
            first = (name, str(found["count"])) if not n else ("", "")
            places = (str(one[side] or "-") for side in ("left", "right"))
            table.add_row(*first, *places, one["id"], one["what"])
    out.print(table)


@contextmanager
def counting(what: str) -> Iterator[Callable[[int], None]]:
    """Show how many messages were read, on a terminal."""
    if not err.is_terminal:
        yield lambda count: None
        return
    with err.status(what) as shown:
        yield lambda count: shown.update(f"{what}: {count}")

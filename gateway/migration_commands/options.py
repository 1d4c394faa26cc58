"""Options that the commands of ``bridge`` share."""

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from gateway.administration import fail

From = Annotated[
    str,
    typer.Option("--from", help="amqp://user@host/vhost; with --gateway: an upstream, core:VHOST."),
]
To = Annotated[str, typer.Option("--to", help="Where to, as --from.")]
FromVersion = Annotated[str, typer.Option(help="AMQP version there.")]
ToVersion = Annotated[str, typer.Option(help="AMQP version there.")]
FromPassword = Annotated[
    Path | None,
    typer.Option(help="File with the password; otherwise AMQP_GATEWAY_FROM_PASSWORD, or guest."),
]
ToPassword = Annotated[
    Path | None,
    typer.Option(help="File with the password; otherwise AMQP_GATEWAY_TO_PASSWORD, or guest."),
]
Queues = Annotated[
    list[str] | None,
    typer.Option("--queue", "-q", help="Queue, or QUEUE=QUEUE_THERE; repeatable."),
]
QueueFile = Annotated[Path | None, typer.Option(help="File with a queue per line, as --queue.")]
JournalFile = Annotated[Path, typer.Option("--journal", help="The journal of moves.")]
Gateway = Annotated[
    str | None,
    typer.Option("--gateway", help="Address of a running gateway that does it, over HTTP."),
]
Ignore = Annotated[
    list[str] | None,
    typer.Option(help="Property that may differ: priority, header.x, header.x-*; repeatable."),
]
Key = Annotated[
    str, typer.Option(help="Property that tells messages apart, instead of message-id.")
]
Unordered = Annotated[bool, typer.Option(help="The order may differ.")]
ByGroup = Annotated[bool, typer.Option(help="The order counts within a group-id.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
JOURNAL = Path("bridge-journal.db")


def password_of_side(file: Path | None, which: str) -> str:
    """The password of a side, which is never shown."""
    if file is None:
        return os.environ.get(f"AMQP_GATEWAY_{which}_PASSWORD", "guest")
    try:
        return file.read_text("utf-8").rstrip("\r\n")
    except (OSError, ValueError) as error:
        fail(f"{file}: {error}")


def pairs_of(given: list[str] | None, file: Path | None) -> list[dict[str, str]]:
    """The queues and where they go. An equals sign in a name is doubled."""
    lines = list(given or ())
    if file is not None:
        try:
            lines += [line.strip() for line in file.read_text("utf-8").splitlines()]
        except (OSError, ValueError) as error:
            fail(f"{file}: {error}")
    pairs = []
    for line in filter(None, lines):
        source, _, destination = line.replace("==", "\0").partition("=")
        names = (one.replace("\0", "=") for one in (source, destination))
        pairs.append(dict(zip(("source", "destination"), names, strict=True)))
    if not pairs:
        fail("no queue is given: --queue or --queue-file")
    return pairs


def side_in_gateway(given: str) -> tuple[str, str]:
    """The name of an upstream, and the virtual host if it is the gateway itself."""
    kind, mark, vhost = given.partition(":")
    return ("", vhost or "/") if mark and kind == "core" else (given, "/")


def plain(value: Any) -> Any:
    """Named tuples as dictionaries, recursively, for JSON."""
    if hasattr(value, "_asdict"):
        return {name: plain(each) for name, each in value._asdict().items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return value

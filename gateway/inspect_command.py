"""The command ``inspect``: octets of a recording, or of connections while they pass, as frames."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gateway.administration import err, fail, out

if TYPE_CHECKING:
    from gateway.inspect.show import Shown

STYLES = {
    "0.8a2": "magenta",
    "0-9a0": "bright_magenta",
    "0-9a0-7": "bright_magenta",
    "0-9a6": "bright_red",
    "0-8": "yellow",
    "0-9": "bright_yellow",
    "0-9-1": "green",
    "0-10-07-24": "bright_blue",
    "0-10-07-27": "bright_blue",
    "0-10": "blue",
    "1.0": "cyan",
}
"""Colours of lines on a terminal, by version."""


def inspect(
    file: Annotated[Path | None, typer.Argument(help="Hex dump, capture JSON, or pcap.")] = None,
    as_version: Annotated[
        str | None, typer.Option("--as", help="AMQP version, if the octets do not show it.")
    ] = None,
    listen: Annotated[
        str | None, typer.Option(help="Instead of a file: host:port for clients of --upstream.")
    ] = None,
    upstream: Annotated[
        str | None, typer.Option(help="Broker: amqp://host:port or amqps://host:port.")
    ] = None,
    most: Annotated[
        int | None, typer.Option("--count", min=1, help="With --listen: end after so many frames.")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="With --listen: a JSON object for each line.")
    ] = False,
) -> None:
    """Decode octets into readable frames: of a recording, or of connections that pass through a
    port here to a broker, while they pass. The version is detected.

    Exits with 2 if a frame could not be decoded."""
    from gateway.inspect import InspectError, inspect_file
    from gateway.inspect.versions import FAMILIES

    if as_version is not None and as_version not in FAMILIES:
        fail(f"no such version: {as_version} (there are {', '.join(FAMILIES)})")
    live = listen is not None and upstream is not None
    if live == (file is not None) or (not live and (listen or upstream or most or as_json)):
        fail("give either a file, or --listen and --upstream")
    if file is None:
        failed = follow_port(str(listen), str(upstream), as_version, most, as_json)
        return finish(failed)
    try:
        finish(inspect_file(file, as_version, out, err), f"{file}: ")
    except InspectError as error:
        fail(f"{file}: {error}")


def finish(failed: int, where: str = "") -> None:
    if failed:
        fail(f"{where}{failed} of the frames could not be decoded")


def follow_port(
    listen: str, upstream: str, as_version: str | None, most: int | None, as_json: bool
) -> int:
    """Show the frames that pass, until interrupted; how many could not be decoded."""
    from gateway.config.bridge import read_address
    from gateway.event_loop import run
    from gateway.inventory.command_line import endpoint
    from gateway.inventory.live import Live, follow

    try:
        (host, port), broker = endpoint(listen), read_address(upstream)
    except ValueError as error:
        fail(str(error))
    live = Live(show_record if as_json else show_line, as_version, most)

    def tell(found: int) -> None:
        err.print(f"{host}:{found} leads to {broker}; Ctrl-C ends", soft_wrap=True)

    run(follow(live, host, port, broker, tell))
    return live.undecoded


def show_line(flow: str, version: str, shown: "Shown") -> None:
    text = f"{flow:>3} {version or '-':<7} {shown}"
    try:
        out.print(text, style=STYLES.get(version), markup=False, highlight=False, soft_wrap=True)
    except SystemExit:  # what rich makes of it when nobody reads
        raise BrokenPipeError from None


def show_record(flow: str, version: str, shown: "Shown") -> None:
    sys.stdout.write(json.dumps(shown.record(flow, version)) + "\n")
    sys.stdout.flush()

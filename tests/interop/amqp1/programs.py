"""How the senders and receivers are started, and what they said."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.interop.peers import python_module
from tests.interop.servers import INSTALL, PEERS, Server, end_group, environment

CLIENTS = Path(__file__).parent / "clients"
Json = dict[str, Any]


def rhea_missing() -> str | None:
    if shutil.which("node") is None or not (PEERS / "npm/node_modules/rhea").is_dir():
        return f"Node or its package rhea is not installed; {INSTALL} (npm install rhea)"
    return None


proton_missing = python_module("proton")


@dataclass(frozen=True)
class Program:
    """A sender and receiver in one language and style."""

    name: str
    source: str

    def missing(self) -> str | None:
        return rhea_missing() if self.source.endswith(".js") else proton_missing()

    def command(self) -> list[str]:
        interpreter = "node" if self.source.endswith(".js") else sys.executable
        return [interpreter, str(CLIENTS / self.source)]


PROGRAMS = {
    one.name: one
    for one in (
        Program("proton-blocking", "proton_blocking.py"),
        Program("proton-events", "proton_events.py"),
        Program("rhea", "rhea_messages.js"),
    )
}


MODULES = str(PEERS / "npm" / "node_modules")


def url(server: Server) -> str:
    return f"amqp://guest:guest@{server.host}:{server.port}"


def run(
    command: Sequence[str], *, said: str = "", seconds: float = 100.0
) -> tuple[int | None, str, str]:
    """Exit status (None: stopped), standard output and standard error."""
    with subprocess.Popen(
        command,
        env=environment(PYTHONWARNINGS="ignore", NODE_PATH=MODULES),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        text=True,
    ) as process:
        try:
            out, err = process.communicate(said, seconds)
            return process.returncode, out, err
        except subprocess.TimeoutExpired:
            end_group(process)
            out, err = process.communicate()
            return None, out, err
        finally:
            end_group(process)


class Failed(AssertionError):
    """A program ended badly; `lines` is what it said before."""

    def __init__(self, why: str, lines: list[Json]) -> None:
        super().__init__(why)
        self.lines = lines


def lines(program: Program, server: Server, words: Sequence[str], said: str = "") -> list[Json]:
    """Run it and read its lines."""
    command = [*program.command(), words[0], words[1], "--url", url(server), *words[2:]]
    status, out, err = run(command, said=said)
    found = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    if status != 0:
        raise Failed(f"{program.name} {words[0]}: exit status {status}: {err[-2000:]}", found)
    return found


def send(
    program: Program, server: Server, address: str, messages: Sequence[Json], *words: str
) -> list[Json]:
    """Send them; the outcome of each."""
    said = "".join(json.dumps(one) + "\n" for one in messages)
    return lines(program, server, ["send", address, *words], said)


def receive(program: Program, server: Server, address: str, count: int, *words: str) -> list[Json]:
    return lines(program, server, ["receive", address, "--count", str(count), *words])


# --- programs that make checks of their own, one JSON line each ---------------------------------


Seen = dict[str, Json]


def checks(command: Sequence[str], seconds: float = 100.0) -> Seen:
    """What each check saw; under "" how the program ended, for those that said nothing."""
    status, out, err = run(command, seconds=seconds)
    found: Seen = {}
    for line in out.splitlines():
        if line.startswith("{"):
            told = json.loads(line)
            found[told["check"]] = told
    ending = "was stopped" if status is None else f"ended with {status}"
    found[""] = {"error": f"the program said nothing about it and {ending}: {err[-2000:]}"}
    return found

"""Run a program that makes checks, one JSON line each; restart its server when it asks for that.

The program prints `{"ask": "restart"}`; the server is killed as by a power cut and started again on
the same port with the same data; the program then reads `restarted` from its standard input. So it
is the client that recovers, in the process it was in all the time.
"""

from __future__ import annotations

import json
import queue
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.interop import brokers
from tests.interop.compiled import compiled
from tests.interop.servers import INSTALL, PEERS, Server, end_group

LINES = Path(__file__).parent / "amqp1/clients/jms/Lines.java"
"""How a Java program prints its checks."""
Seen = dict[str, dict[str, Any]]


def built(name: str, toolchain: str) -> str:
    """The path of a program that install-peers has compiled."""
    path = PEERS / "bin" / name
    if not path.exists():
        pytest.skip(f"{name} is not built; {INSTALL} (it needs {toolchain})")
    return str(path)


def java(artefacts: str, wanted: str, sources: Sequence[Path]) -> list[str]:
    """Compile against `.peers/java/<artefacts>`; the command, without its arguments."""
    if reason := brokers.java_missing(artefacts, wanted):
        pytest.skip(reason)
    jars = brokers.classpath(artefacts)
    classes = compiled(sources, jars)
    quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"
    flags = ["-Xmx384m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", quiet]
    return ["java", *flags, "-cp", f"{jars}:{classes}", sources[0].stem]


def compare(seen: Seen, check: str, wanted: Any) -> None:
    """Fail with what the program told if this check did not see what it should have seen."""
    saw = seen.get(check, seen[""])
    if "got" not in saw:
        pytest.fail(f"{check}: {saw['error']}\n{saw.get('where', '')}", pytrace=False)
    if saw["got"] != wanted:
        pytest.fail(f"{check}:\n   saw {saw['got']}\nwanted {wanted}", pytrace=False)


# --- a server that dies when it is asked to ------------------------------------------------------


@dataclass
class Restartable:
    """A server, and how the next one is started on the port and with the data of the last."""

    server: Server
    start_again: Callable[[Server], Server]

    def restart(self) -> None:
        self.server.kill()
        self.server = self.start_again(self.server)


@contextmanager
def running(start: Callable[[Server | None], Server]) -> Iterator[Restartable]:
    """`start` is called with None at first, then with the server to replace."""
    found = Restartable(start(None), start)
    try:
        yield found
        assert found.server.alive, f"the server died while being tested:\n{found.server.tail()}"
    finally:
        found.server.stop()


def checks(
    command: Sequence[str],
    target: Restartable,
    scratch: Path,
    *,
    environment: Mapping[str, str] | None = None,
    seconds: float = 200.0,
) -> Seen:
    """What each check saw; under "" how the program ended, for those that said nothing."""
    errors = scratch / "stderr"
    seen: Seen = {}
    with errors.open("wb") as sink:
        process = subprocess.Popen(
            command,
            cwd=scratch,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=sink,
            start_new_session=True,
        )
        lines: queue.Queue[bytes | None] = queue.Queue()
        reader = threading.Thread(target=_read, args=(process, lines), daemon=True)
        reader.start()
        try:
            ending = _converse(process, lines, target, seen, time.monotonic() + seconds)
        finally:
            end_group(process)
            reader.join(10)
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()
    tail = errors.read_text(errors="replace")[-3000:]
    seen[""] = {"error": f"the program said nothing about it and {ending}: {tail}"}
    return seen


def java_checks(
    artefacts: tuple[str, str],
    sources: Sequence[Path],
    target: Restartable,
    scratch: Path,
    *words: str,
) -> Seen:
    """`checks` of a Java program: it gets the server's host and port, and these words."""
    command = java(*artefacts, sources)
    server = target.server
    return checks([*command, server.host, str(server.port), *words], target, scratch)


def _read(process: subprocess.Popen[bytes], lines: queue.Queue[bytes | None]) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        lines.put(line)
    lines.put(None)


def _converse(
    process: subprocess.Popen[bytes],
    lines: queue.Queue[bytes | None],
    target: Restartable,
    seen: Seen,
    deadline: float,
) -> str:
    """Take its lines until there are no more; how it ended."""
    assert process.stdin is not None
    while True:
        try:
            line = lines.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            return "was stopped"
        if line is None:
            try:
                return f"ended with {process.wait(10)}"
            except subprocess.TimeoutExpired:
                return "closed its output without ending"
        if not line.startswith(b"{"):
            continue
        said = json.loads(line)
        if said.get("ask") == "restart":
            target.restart()
            process.stdin.write(b"restarted\n")
            process.stdin.flush()
        else:
            seen[said["check"]] = said

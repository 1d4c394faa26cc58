"""The gateway as a child process on free loopback ports, its log and its memory."""

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import httpx
import psutil

from tests.net.preloaded import ROOT, start
from tests.net.wire import Wire
from tests.net.wire_1_0 import Wire10

PATIENCE = 60.0
"""Seconds that anything here may take on a busy machine."""


def until(condition: Callable[[], Any], what: str, seconds: float = PATIENCE) -> Any:
    """Wait for a condition; its value. One that takes long, such as a request, is looked at less
    often: it takes processor time of what it waits for."""
    asked = time.monotonic()
    deadline = asked + seconds
    while not (value := condition()):
        now = time.monotonic()
        assert now < deadline, f"not in {seconds:.0f} s: {what}"
        time.sleep(min(0.05, max(0.01, now - asked)))
        asked = time.monotonic()
    return value


def environment(**settings: object) -> dict[str, str]:
    """This process's environment, with settings as ``limits__memory_page=0.1``."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith("AMQP_GATEWAY_")}
    given = {f"AMQP_GATEWAY_{name.upper()}": str(value) for name, value in settings.items()}
    return {**clean, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1", "COLUMNS": "200", **given}


class Running:
    """A gateway process. Use as a context manager: at the end it is stopped and its log must hold
    no traceback."""

    module = "gateway"

    def __init__(self, folder: Path, *arguments: object, **settings: object) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.data = folder / "data"
        self.log_file = folder / "gateway.log"
        self._arguments = [str(argument) for argument in arguments]
        # Whoever fails to log in is not kept waiting, unless the test is about that.
        self._settings = {"amqp__failure_pause_seconds": 0, **settings}
        self._from = 0
        self._wires: list[Wire] = []
        self.start()

    def start(self) -> None:
        """Start (again) on the same data; returns when it listens."""
        self._from = self.log_file.stat().st_size if self.log_file.exists() else 0
        arguments = ["serve", "--amqp-port", "0", "--http-port", "0"]
        arguments += ["--data-dir", str(self.data), *self._arguments]
        given = environment(**self._settings)
        with self.log_file.open("ab") as sink:
            self.process = start(
                self.module, arguments, given, stdin=subprocess.DEVNULL, stdout=sink, stderr=sink
            )
        until(lambda: "data in " in self.log() or self.process.poll() is not None, "start")
        assert self.process.poll() is None, self.log()
        self.port = self._port(r"AMQP on \S+:(\d+)")
        self.http_port = self._port(r"HTTP on http://\S+:(\d+)/")
        self.tls_port = self._port(r"AMQP over TLS on \S+:(\d+)")

    def _port(self, pattern: str) -> int:
        found = re.search(pattern, self.log())
        return int(found[1]) if found else 0

    def log(self) -> str:
        """What this start of the process has said."""
        with self.log_file.open("rb") as file:
            file.seek(self._from)
            return file.read().decode(errors="replace")

    def wire(self, *channels: int, **options: Any) -> Wire:
        """A client, logged in."""
        wire = Wire(self.port, **options)
        self._wires.append(wire)
        return wire.opened(*channels)

    def wire_1_0(self, *channels: int, **options: Any) -> Wire10:
        """A client of AMQP 1.0, logged in, with session 0 and these."""
        wire = Wire10(self.port, **options)
        self._wires.append(wire)
        return wire.opened(*channels)

    def bare(self) -> Wire10:
        """A client of AMQP 1.0 that has said nothing yet."""
        wire = Wire10(self.port)
        self._wires.append(wire)
        return wire

    def asked(self, path: str) -> Any:
        """What the administration answers."""
        url = f"http://127.0.0.1:{self.http_port}{path}"
        answer = httpx.get(url, auth=("guest", "guest"), timeout=PATIENCE)
        return answer.raise_for_status().json()

    def connections(self) -> list[Any]:
        return list(self.asked("/api/connections"))

    def queues(self) -> set[str]:
        return {queue["name"] for queue in self.asked("/api/queues")}

    @property
    def memory(self) -> int:
        """Resident octets."""
        return int(psutil.Process(self.process.pid).memory_info().rss)

    def sockets(self) -> list[Any]:
        """What it holds besides the ports it listens on."""
        held = psutil.Process(self.process.pid).net_connections("tcp")
        return [one for one in held if one.status != psutil.CONN_LISTEN]

    def kill(self) -> None:
        """As a power cut would."""
        self.process.kill()
        self.process.wait()

    def stop(self) -> int:
        """Ask it to end; its exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        for wire in self._wires:
            wire.close()
        if self.process.poll() is None:
            try:
                self.stop()
            except subprocess.TimeoutExpired:
                self.kill()
                raise
        if kind is None:
            log = self.log_file.read_text(errors="replace")
            bug = re.search(r"Traceback|internal error", log)
            assert bug is None, log[max(0, bug.start() - 500) : bug.start() + 3000]

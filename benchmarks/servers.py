"""Start and stop the measured servers, each an ordinary child process bound to loopback.

A server lives in its own process group and temporary directory; leaving the context ends both.
"""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.net.preloaded import Process

HOST = "127.0.0.1"
RABBITMQ = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
STATISTICS = Path("/proc/stat")
TICK = os.sysconf("SC_CLK_TCK")


class Missing(Exception):
    """Something this row needs is not on this machine; the text names it."""


class Failed(Exception):
    """The row ran and did not come to an end as it should."""


@dataclass
class Server:
    """A running server: its address and its resources."""

    name: str
    process: Process
    directory: Path
    amqp_port: int = 0
    http_port: int = 0
    started_in: float = 0.0

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.http_port}"

    def family(self) -> list[int]:
        """The process and everything below it."""
        pids, at = [self.process.pid], 0
        while at < len(pids):
            with contextlib.suppress(OSError):  # it has ended meanwhile
                for children in Path(f"/proc/{pids[at]}/task").glob("*/children"):
                    with contextlib.suppress(OSError):
                        pids += [int(pid) for pid in children.read_text().split()]
            at += 1
        return pids

    def rss(self) -> int:
        """Resident octets of the whole family."""
        total = 0
        for pid in self.family():
            with contextlib.suppress(OSError):
                for line in Path(f"/proc/{pid}/status").read_text().splitlines():
                    if line.startswith("VmRSS:"):
                        total += int(line.split()[1]) * 1024
        return total

    def cpu(self) -> float:
        """Processor seconds used so far by the whole family."""
        total = 0
        for pid in self.family():
            with contextlib.suppress(OSError):
                fields = Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1].split()
                total += int(fields[11]) + int(fields[12])
        return total / TICK

    def written(self) -> int:
        """Octets that the whole family has had written to the disk so far."""
        total = 0
        for pid in self.family():
            with contextlib.suppress(OSError):
                for line in Path(f"/proc/{pid}/io").read_text().splitlines():
                    if line.startswith("write_bytes:"):
                        total += int(line.split()[1])
        return total

    def log(self) -> str:
        """The last words of the server, for a message of failure."""
        text = (self.directory / "log").read_text(errors="replace").strip()
        return text[-2000:] or "it said nothing"

    def last_line(self) -> str:
        return self.log().splitlines()[-1].strip()[:160]


def machine_busy() -> float:
    """Processor seconds that all processes of this machine have used so far, and those that its
    host has given to other machines while some wanted to run."""
    fields = STATISTICS.read_text().split("\n", 1)[0].split()[1:9]
    user, nice, system, _idle, _wait, interrupts, soft, stolen = map(int, fields)
    return (user + nice + system + interrupts + soft + stolen) / TICK


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def answers_amqp(port: int) -> bool:
    """Does a connection.start come back?"""
    try:
        with socket.create_connection((HOST, port), 1) as peer:
            peer.sendall(b"AMQP\x00\x00\x09\x01")
            peer.settimeout(2)
            return peer.recv(64)[:1] == b"\x01"
    except OSError:
        return False


def answers_http(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:
            return int(answer.status) == 200
    except urllib.error.HTTPError:
        return False
    except OSError:
        return False


@contextlib.contextmanager
def running(
    name: str,
    command: list[str],
    ready: Callable[[Server], bool],
    *,
    amqp_port: int = 0,
    http_port: int = 0,
    environment: dict[str, str] | None = None,
    directory: Path | None = None,
    patience: float = 60.0,
) -> Iterator[Server]:
    """Run `command` until the block ends; raise `Failed` if it never becomes ready."""
    home = directory or Path(tempfile.mkdtemp(prefix=f"bench-{name}-"))
    begun = time.monotonic()
    with (home / "log").open("wb") as log:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(environment or {})},
            start_new_session=True,
        )
    server = Server(name, process, home, amqp_port, http_port)
    try:
        while not ready(server):
            if process.poll() is not None:
                raise Failed(f"{name} ended at start ({process.returncode}): {server.last_line()}")
            if time.monotonic() - begun > patience:
                raise Failed(f"{name} not ready after {patience:.0f} s: {server.last_line()}")
            time.sleep(0.01)
        server.started_in = time.monotonic() - begun
        yield server
    finally:
        end(process)
        shutil.rmtree(home, ignore_errors=True)


def end(process: Process, patience: float = 15.0) -> None:
    """Ask the process to stop, then end its whole group."""
    if process.poll() is None:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(patience)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(patience)


@contextlib.contextmanager
def gateway(*more: str) -> Iterator[Server]:
    """Ours, as `python -m gateway serve` starts it, with more arguments."""
    home = Path(tempfile.mkdtemp(prefix="bench-gateway-"))
    amqp, http = free_port(), free_port()
    command = [sys.executable, "-m", "gateway", "serve"]
    command += ["--amqp-port", str(amqp), "--http-port", str(http)]
    command += ["--data-dir", str(home / "data"), *more]

    def ready(server: Server) -> bool:
        return answers_amqp(amqp) and answers_http(server.url + "/readyz")

    if not (Path(__file__).parent.parent / "gateway" / "__main__.py").exists():
        raise Missing("the gateway has no __main__ yet")
    with running(
        "gateway", command, ready, amqp_port=amqp, http_port=http, directory=home
    ) as server:
        yield server


@contextlib.contextmanager
def rabbitmq(management: bool = False) -> Iterator[Server]:
    """RabbitMQ with Debian's defaults, its own node name, ports and directory; no plugins, or the
    management plugin."""
    epmd = shutil.which("epmd")
    if not RABBITMQ.exists() or epmd is None:
        raise Missing("RabbitMQ is not installed (apt install rabbitmq-server)")
    home = Path(tempfile.mkdtemp(prefix="bench-rabbitmq-"))
    amqp, names, http = free_port(), free_port(), free_port() if management else 0
    lines = ["log.file = false", "log.console = true"]
    if management:
        lines += [f"management.tcp.ip = {HOST}", f"management.tcp.port = {http}"]
    (home / "plugins").write_text("[rabbitmq_management].\n" if management else "[].\n")
    (home / "rabbitmq.conf").write_text("\n".join(lines) + "\n")
    environment = {
        "HOME": str(home),
        "ERL_EPMD_ADDRESS": HOST,
        "ERL_EPMD_PORT": str(names),
        "RABBITMQ_CONFIG_FILE": str(home / "rabbitmq.conf"),
        "RABBITMQ_CONF_ENV_FILE": "/dev/null",
        "RABBITMQ_DIST_PORT": str(free_port()),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(home / "plugins"),
        "RABBITMQ_MNESIA_BASE": str(home / "mnesia"),
        "RABBITMQ_NODENAME": f"bench{os.getpid()}@localhost",
        "RABBITMQ_NODE_IP_ADDRESS": HOST,
        "RABBITMQ_NODE_PORT": str(amqp),
        "RABBITMQ_PID_FILE": str(home / "pid"),
        "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-start_epmd false -kernel inet_dist_use_interface"
        " {127,0,0,1}",
        "RUNNING_UNDER_SYSTEMD": "1",
    }
    with (
        running("epmd", [epmd, "-address", HOST, "-port", str(names)], lambda server: True),
        running(
            "rabbitmq",
            [str(RABBITMQ)],
            lambda server: answers_amqp(amqp) and (not http or answers_http(server.url + "/")),
            amqp_port=amqp,
            http_port=http,
            environment=environment,
            directory=home,
            patience=90,
        ) as server,
    ):
        yield server

"""Gateways that start at once: each is a fork of a process that has imported all of it.

Imports take most of a gateway's start, and the tests start hundreds. So each process of tests has
one process that has done the imports and does nothing else. A gateway is its fork, which runs
``python -m MODULE ARGUMENTS`` with an environment, a folder and files of its own, and ends like a
process that was started in the usual way. ``THOROUGH=1``, other systems than Linux, and benchmarks
start each gateway as its users do.
"""

import atexit
import gc
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import IO, Any, NoReturn, Protocol

from tests.drawing import SHARE

ROOT = Path(__file__).parents[2]
FORKS = sys.platform == "linux" and SHARE < 1 and "PYTEST_VERSION" in os.environ


class Process(Protocol):
    """What tests need of ``subprocess.Popen``."""

    pid: int
    returncode: Any

    def poll(self) -> int | None: ...

    def wait(self, timeout: float | None = None) -> int: ...

    def send_signal(self, sig: int) -> None: ...

    def terminate(self) -> None: ...

    def kill(self) -> None: ...


def start(
    module: str,
    arguments: Sequence[str],
    environment: Mapping[str, str],
    *,
    stdin: int | IO[Any],
    stdout: IO[Any],
    stderr: IO[Any],
    folder: Path = ROOT,
) -> Process:
    """Start ``python -m MODULE ARGUMENTS`` in a folder, as the first of a group of processes.
    ``stdin`` may be ``subprocess.DEVNULL``."""
    if FORKS:
        with open(os.devnull, "rb") as nothing:
            given = nothing if isinstance(stdin, int) else stdin
            return Fork(module, arguments, environment, folder, (given, stdout, stderr))
    command = [sys.executable, "-m", module, *arguments]
    return subprocess.Popen(
        command,
        cwd=folder,
        env=dict(environment),
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        process_group=0,
    )


class Fork:
    """A process forked from the one with the imports, which is our child's child: somebody there
    waits for its end and says so over a socket."""

    def __init__(
        self,
        module: str,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        folder: Path,
        files: tuple[IO[Any], IO[Any], IO[Any]],
    ) -> None:
        self.returncode: int | None = None
        self._keeper, theirs = socket.socketpair()
        with theirs:
            fds = [theirs.fileno(), *(file.fileno() for file in files)]
            socket.send_fds(imported(), [b"."], fds)
        asked = json.dumps([module, list(arguments), dict(environment), str(folder)]).encode()
        self._keeper.sendall(len(asked).to_bytes(4) + asked)
        self.pid = int.from_bytes(take(self._keeper, 4))

    def poll(self) -> int | None:
        try:
            return self.wait(0)
        except subprocess.TimeoutExpired:
            return None

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            ready, _, _ = select.select([self._keeper], [], [], timeout)
            if not ready:
                raise subprocess.TimeoutExpired("gateway", timeout or 0)
            status = int.from_bytes(take(self._keeper, 4))
            self.returncode = os.waitstatus_to_exitcode(status)
            self._keeper.close()
        return self.returncode

    def send_signal(self, sig: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, sig)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def take(there: socket.socket, count: int) -> bytes:
    """Exactly so many octets."""
    octets = b""
    while len(octets) < count:
        more = there.recv(count - len(octets))
        if not more:
            raise ConnectionError("the process with the imports is gone")
        octets += more
    return octets


@cache
def imported() -> socket.socket:
    """Where the process with the imports takes requests. It ends with this process."""
    ours, theirs = socket.socketpair()
    # Read when modules are imported.
    early = {"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1", "COLUMNS": "200"}
    with theirs:
        subprocess.run(
            [sys.executable, "-m", "tests.net.preloaded"],
            check=True,
            cwd=ROOT,
            env={**os.environ, **early},
            stdin=theirs.fileno(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
    return ours


# --- in the process with the imports --------------------------------------------------------------


def import_all() -> None:
    """What ``python -m gateway serve`` has imported when it listens."""
    import uvicorn.protocols.http.httptools_impl
    import uvicorn.protocols.websockets.websockets_sansio_impl  # noqa: F401
    import uvloop  # noqa: F401

    import gateway.__main__
    import gateway.app
    import gateway.http.api
    import gateway.http.observe.logs
    import gateway.net.tls  # noqa: F401

    del sys.modules["gateway.__main__"]  # or the forks are warned that it is there already
    # What is there already is not looked at by the collectors of all that are forked.
    gc.collect()
    gc.freeze()


def serve() -> tuple[str, list[str]]:
    """Fork for each request, until the requester is gone; returns in the forks only."""
    with socket.socket(fileno=os.dup(0)) as requests:
        # Nobody waits here for the processes that wait for the others.
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        while True:
            octets, fds, _, _ = socket.recv_fds(requests, 1, 4)
            if not octets:
                sys.exit()
            if os.fork() == 0:
                break
            for fd in fds:
                os.close(fd)
    return keep(*fds)


def keep(asked: int, *files: int) -> tuple[str, list[str]]:
    """Fork once more, wait for the end of that process, and say how it ended; returns in it."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    with socket.socket(fileno=asked) as there:
        request = take(there, int.from_bytes(take(there, 4)))
        pid = os.fork()
        # Both say it, since either may be first: who hears of the process may signal its group.
        os.setpgid(pid, pid)
        if pid:
            for fd in files:
                os.close(fd)
            wait_for(pid, there)
    module, arguments, environment, folder = json.loads(request)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    for standard, fd in enumerate(files):
        os.dup2(fd, standard)
        os.close(fd)
    return module, arguments


def wait_for(pid: int, there: socket.socket) -> NoReturn:
    there.sendall(pid.to_bytes(4))
    _, status = os.waitpid(pid, 0)
    there.sendall(status.to_bytes(4))
    os._exit(0)


def main() -> None:
    if os.fork():  # go on in the background, so that nobody has to wait for this process
        os._exit(0)
    atexit.register(leave)  # the first to be registered is the last to be called
    import_all()
    module, arguments = serve()
    sys.argv = [module, *arguments]
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as end:
        if end.code:
            raise
    succeeded.append(module)


succeeded: list[str] = []
"""The module that this process has run, when that has ended well."""


def leave() -> None:
    """Threads have ended and callbacks have run. All modules are not taken apart: that copies their
    memory, and takes longer than a start. What was forgotten (tasks, sockets) is told here."""
    if succeeded:
        gc.collect()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


if __name__ == "__main__":
    main()

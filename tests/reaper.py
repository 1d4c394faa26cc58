"""Ends the processes that a test run has started, however the run itself ends.

Each process that a test starts inherits a mark in its environment. ``watch`` starts one process
that waits at a pipe; when the test run is over, or was killed, the pipe closes, and every process
with the mark is killed: gateways, brokers, browsers, and the processes that those have started.
"""

import os
import subprocess
import sys
import uuid
from contextlib import suppress
from pathlib import Path

import psutil

MARK = "TEST_RUN_OF_AMQP_GATEWAY"
"""Not with the prefix of the gateway's settings, which tests take out of the environment."""


def watch() -> None:
    """Watch over this process. Processes started below a watched one are watched with it."""
    if MARK in os.environ:
        return
    os.environ[MARK] = uuid.uuid4().hex
    # The writing end is closed in processes that are started later, and stays open here until this
    # process ends, in any way.
    reading, _ = os.pipe()
    subprocess.run(
        [sys.executable, __file__],
        stdin=reading,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=Path(__file__).parent,
        start_new_session=True,
        check=True,
    )
    os.close(reading)


def inherited() -> dict[str, str]:
    """The mark, for a process that gets an environment of its own. What that starts has it too."""
    return {MARK: os.environ[MARK]} if MARK in os.environ else {}


def marked(mark: str) -> list[psutil.Process]:
    """The other processes with this mark."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            if process.pid != os.getpid() and process.environ().get(MARK) == mark:
                found.append(process)
    return found


def main() -> None:
    """Continue in the background, so that the caller need not wait for this process."""
    if os.fork():
        os._exit(0)
    sys.stdin.buffer.read()
    while left := marked(os.environ[MARK]):
        for process in left:
            with suppress(psutil.Error):
                process.kill()
        psutil.wait_procs(left, timeout=5)


if __name__ == "__main__":
    main()

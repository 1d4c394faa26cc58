"""A test run that is cut off leaves nothing behind."""

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests import reaper
from tests.net.running import until

RUN = """
import subprocess, sys
from tests import reaper
reaper.watch()
sleep = [sys.executable, "-c", "import time; time.sleep(600)"]
child = subprocess.Popen(sleep, start_new_session=True)
print(child.pid, flush=True)
child.wait()
"""

BROKER = """
import pathlib, sys, time
from tests import reaper
from tests.interop import servers
reaper.watch()
folder = pathlib.Path(sys.argv[1])
words = ["sh", "-c", "setsid sleep 600 & echo $!; wait"]
servers._spawn(words, {"PATH": "/usr/bin:/bin"}, folder, folder / "log")
while not (folder / "log").read_text().endswith("\\n"):
    time.sleep(0.01)
print((folder / "log").read_text(), end="", flush=True)
time.sleep(600)
"""
"""A broker gets an environment of its own, and a wrapper starts it."""


@pytest.mark.parametrize("program", [RUN, BROKER])
def test_a_killed_run_takes_its_processes_along(program: str, tmp_path: Path) -> None:
    clean = {name: value for name, value in os.environ.items() if name != reaper.MARK}
    root = Path(__file__).parents[1]
    with subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)],
        cwd=root,
        env={**clean, "PYTHONPATH": str(root)},
        stdout=subprocess.PIPE,
    ) as run:
        assert run.stdout is not None
        child = psutil.Process(int(run.stdout.readline()))
        assert child.is_running()
        run.kill()
    until(lambda: has_ended(child), "the end of what the run had started")


def has_ended(process: psutil.Process) -> bool:
    """Also if its new parent has not taken notice yet."""
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_this_run_is_watched() -> None:
    assert reaper.MARK in os.environ

"""``kill -9`` at any moment: what was acknowledged is there; what was not, as a whole or not."""

import ast
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import tests.store.samples  # noqa: F401  (registers its dialect)
from gateway.store import SqliteStore
from tests import in_memory

KILLS = 24
ROOT = Path(__file__).parents[2]

Places = set[tuple[int, int]]


def run_and_kill(directory: Path, seed: int, batches: int, after: float) -> list[str]:
    """Complete lines of the process's report: so many batches, and what it did in the time after
    them."""
    command = [sys.executable, "-m", "tests.store.killed", str(directory), str(seed)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        first = process.stdout.readline()
        assert first.startswith("start"), first
        begun = [process.stdout.readline() for _ in range(2 * batches)]
        time.sleep(after)
        process.send_signal(signal.SIGKILL)
        report = "".join(begun) + process.stdout.read()
    assert process.returncode == -signal.SIGKILL
    return report[: report.rfind("\n") + 1].splitlines()


def follow(held: Places, report: list[str]) -> tuple[Places, Places]:
    """What must be there if the last batch was lost, and if it was not."""
    before = after = held
    for line in report:
        if line == "done":
            before = after
        else:
            added, removed = line.removeprefix("try ").split("; ")
            after = (before | set(ast.literal_eval(added))) - set(ast.literal_eval(removed))
    return before, after


def test_kill(tmp_path: Path) -> None:
    held: Places = set()
    batches = 0
    for kill in range(KILLS):
        report = run_and_kill(tmp_path, kill, kill % 4, random.Random(kill).uniform(0, 0.06))
        batches += report.count("done")
        before, after = follow(held, report)
        store = SqliteStore(tmp_path)
        held = set()
        for queue in (1, 2):
            for kept in store.read(queue, 0, 10**6):
                assert in_memory.octets(kept.message).startswith(b"%d " % kept.position)
                held.add((queue, kept.position))
        assert held in (before, after)
        store.abandon()
    assert batches > KILLS

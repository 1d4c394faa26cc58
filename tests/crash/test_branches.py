"""``kill -9`` around preparation, commit and rollback of branches: what was answered is there after
a restart, nothing is lost and nothing is there twice."""

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.crash.branching import COUNT, Moving

ROOT = Path(__file__).parents[2]
KILLS = 20


def run_and_kill(directory: Path, seed: int, steps: int, after: float) -> list[str]:
    """Complete lines of the report of a process: so many, and those of the time after them."""
    command = [sys.executable, "-m", "tests.crash.branching", str(directory), str(seed)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            lines = [process.stdout.readline() for _ in range(1 + steps)]
            assert lines[0] == "start\n"
            time.sleep(after)
        finally:
            process.send_signal(signal.SIGKILL)
        report = "".join(lines) + process.stdout.read()
    return report[: report.rfind("\n") + 1].splitlines()[1:]


class Expected:
    """Branches by the text of their xid, and what is known of them."""

    def __init__(self) -> None:
        self.moved: dict[str, list[int]] = {}
        self.prepared: set[str] = set()
        self.decided: set[str] = set()
        """By hand."""
        self.there: set[int] = set()
        """Numbers whose move was committed."""

    def follow(self, report: list[str]) -> tuple[str, str] | None:
        """The last request and its branch if it was not answered."""
        doubtful: tuple[str, str] | None = None
        for line in report:
            word, what, xid, *rest = line.split(" ", 3)
            if word == "try":
                doubtful = what, xid
                if what == "prepare":
                    self.moved[xid] = [int(n) for n in rest[0].strip("[]").split(",") if n]
                continue
            doubtful = None
            self.done(what, xid)
        return doubtful

    def done(self, what: str, xid: str) -> None:
        if what == "prepare":
            self.prepared.add(xid)
            return
        if what == "forget":
            self.decided.discard(xid)
            return
        self.prepared.discard(xid)
        if what.endswith("by-hand"):
            self.decided.add(xid)
        if what.startswith("commit"):
            self.there.update(self.moved[xid])


def check(directory: Path, expected: Expected, doubtful: tuple[str, str] | None) -> None:
    moving = Moving(directory)
    try:
        in_doubt = moving.branches.in_doubt
        found = {str(branch.xid) for branch in in_doubt if not branch.decided}
        decided = {str(branch.xid) for branch in in_doubt if branch.decided}
        old, new = moving.numbers("from"), moving.numbers("to")
    finally:
        moving.store.abandon()
    if doubtful is not None:
        what, xid = doubtful
        if what == "forget":
            if xid not in decided:
                expected.done(what, xid)
        elif (xid in found) is (what == "prepare"):
            expected.done(what, xid)
            if what != "prepare":
                moved, committed = set(expected.moved[xid]), what.startswith("commit")
                assert moved <= set(new) if committed else moved.isdisjoint(new)
    assert found == expected.prepared
    assert decided == expected.decided
    held = {number for xid in found for number in expected.moved[xid]}
    assert len(set(new)) == len(new), "delivered twice"
    assert set(new) == expected.there
    assert len(old) == len(set(old)) == COUNT - len(new) - len(held)
    assert set(old) == set(range(COUNT)) - expected.there - held


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_kill(tmp_path: Path) -> None:
    expected = Expected()
    answered = 0
    for kill in range(KILLS):
        chance = random.Random(kill)
        report = run_and_kill(tmp_path, kill, chance.randrange(2, 8), chance.uniform(0, 0.05))
        answered += sum(line.startswith("done") for line in report)
        check(tmp_path, expected, expected.follow(report))
    assert answered > KILLS

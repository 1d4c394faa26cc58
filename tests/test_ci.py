"""What `.ci/run` does at its end, whatever became of the jobs that it began in the background."""

import subprocess
import time
from pathlib import Path

import pytest

RUN = Path(__file__).parents[1] / ".ci" / "run"
TRAP = next(line for line in RUN.read_text().splitlines() if line.startswith("trap "))


def ended(jobs: str, status: int) -> tuple[int, str]:
    """Exit code and output of a script with the trap of `.ci/run` that runs `jobs`, then exits."""
    script = f"set -euo pipefail\nwork=$(mktemp -d)\n{TRAP}\n{jobs}\nexit {status}\n"
    # `bash -c` would read the whole script at once, and keep another list of jobs than a file does.
    done = subprocess.run(["bash"], input=script, capture_output=True, text=True, timeout=20)
    return done.returncode, done.stdout


# A job that ended before a bare `wait` stays in bash's list of jobs.
ENDED = "sleep 0.1 &>/dev/null &\nsleep 0.4 | cat\nwait"


@pytest.mark.parametrize("status", [0, 1])
@pytest.mark.parametrize("jobs", ["true", ENDED], ids=["none", "ended"])
def test_the_status_is_that_of_the_tests(jobs: str, status: int) -> None:
    assert ended(jobs, status) == (status, "")


def test_jobs_that_still_run_are_ended() -> None:
    code, printed = ended("sleep 60 &>/dev/null &\necho $!", 0)
    assert code == 0
    command_line = Path(f"/proc/{int(printed)}/cmdline")
    until = time.monotonic() + 5
    while command_line.exists() and command_line.read_bytes() and time.monotonic() < until:
        time.sleep(0.01)
    assert not command_line.exists() or not command_line.read_bytes()

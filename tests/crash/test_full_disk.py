"""A gateway starts on a full disk and serves reading, so that queues can be drained."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.net.preloaded import ROOT
from tests.net.running import environment

OWN_DISKS = ["unshare", "--user", "--map-root-user", "--mount", "--kill-child", "--fork"]


def own_disks() -> bool:
    """Whether a process here may mount a disk that only it sees."""
    if shutil.which("unshare") is None or shutil.which("mount") is None:
        return False
    command = [*OWN_DISKS, "mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", "/mnt"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["killed", "stopped"])
def test_queues_can_be_drained_on_a_full_disk(tmp_path: Path, ending: str) -> None:
    if not own_disks():
        pytest.skip("no small disk can be mounted here (unshare --user --mount)")
    command = [*OWN_DISKS, sys.executable, "-m", "tests.crash.full", str(tmp_path), ending]
    done = subprocess.run(
        command, cwd=ROOT, env=environment(), capture_output=True, text=True, check=False,
        timeout=100,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr

"""What a start loads, and in which state it leaves the garbage collector."""

import subprocess
import sys
from pathlib import Path

from tests.net.preloaded import ROOT

STARTED = """
import asyncio, gc, sys
from gateway import app

async def at_once(self):
    print(gc.isenabled(), gc.get_freeze_count() > 10_000, *sys.modules, file=sys.stderr)

app.Gateway.stopped = at_once
from gateway.__main__ import cli
cli(sys.argv[1:], standalone_mode=False)
"""


def test_a_start_leaves_for_later_what_is_needed_later(tmp_path: Path) -> None:
    words = ["serve", "--amqp-port", "0", "--http-port", "0", "--data-dir", str(tmp_path / "data")]
    done = subprocess.run(
        [sys.executable, "-c", STARTED, *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    (line,) = (one for one in done.stderr.splitlines() if one.startswith(("True ", "False ")))
    collecting, frozen, *loaded = line.split()
    assert (collecting, frozen) == ("True", "True")
    assert "gateway.journal.segments" in loaded
    assert not {"pyarrow", "numpy", "opentelemetry.sdk"} & set(loaded)

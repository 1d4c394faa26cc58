"""examples/spark_tour.py is run as it stands there."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.interop.servers import ROOT
from tests.net.running import Running
from tests.pipeline.conftest import QUICK, needs_spark

pytestmark = [pytest.mark.extras, pytest.mark.slow, pytest.mark.timeout(300)]


def test_the_tour(tmp_path: Path) -> None:
    """On a gateway that records: it reads, reports and replays."""
    needs_spark()
    with Running(tmp_path, journal__recording="[{}]") as gateway:
        done = subprocess.run(
            [sys.executable, ROOT / "examples" / "spark_tour.py",
             f"http://127.0.0.1:{gateway.http_port}"],
            cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT), "JDK_JAVA_OPTIONS": QUICK},
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=250,
        )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    for name, count in (("bills", 10), ("orders", 20)):
        found = re.findall(rf"tour-\w+-{name}\s*\|http\s*\|(?:guest\|)?(\d+) ", done.stdout)
        assert found == [str(count)] * 2, done.stdout
    assert '{"number":29}' in done.stdout.replace(" ", "")
    assert "replayed: 20\n" in done.stdout

"""The three commands at the head of docs/pipeline.md are run as they stand there."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from tests.interop.servers import ROOT
from tests.net.running import PATIENCE, Running
from tests.pipeline.conftest import QUICK, needs_spark

pytestmark = [pytest.mark.extras, pytest.mark.slow, pytest.mark.timeout(300)]

GUIDE = (ROOT / "docs" / "pipeline.md").read_text()
PROGRAM = ".venv/bin/amqp-gateway"
DATA = "~/.local/share/amqp-gateway"


def shown_commands() -> list[str]:
    page = GUIDE.partition("## Three commands")[2].partition("\n## ")[0]
    (block,) = re.findall(r"^```sh\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    return str(block).splitlines()


def test_three_commands(tmp_path: Path) -> None:
    needs_spark()
    serve, *others = shown_commands()
    assert len(others) == 2
    install, started = serve.split(" && ")
    extras = re.fullmatch(r"\.venv/bin/pip install '\.\[([\w,-]+)\]'", install)
    assert extras is not None and "spark" in extras[1].split(",")
    setting, program, command = shlex.split(started)
    assert (program, command) == (PROGRAM, "serve")
    name, value = setting.removeprefix("AMQP_GATEWAY_").lower().split("=")
    with Running(tmp_path, **{name: value}) as gateway:
        base = f"http://127.0.0.1:{gateway.http_port}/v1/%2F"
        with httpx.Client(auth=("guest", "guest"), timeout=PATIENCE) as client:
            client.put(f"{base.replace('/v1/', '/v1/admin/vhosts/')}/queues/orders")
            for number in range(5):
                answer = client.post(f"{base}/queues/orders/messages", content=b"%d" % number)
                assert answer.status_code == 201, answer.text
        environment = {"PYTHONPATH": str(ROOT), "COLUMNS": "200", "JDK_JAVA_OPTIONS": QUICK}
        printed = []
        for command in others:
            assert command.startswith(f"{PROGRAM} pipeline ")
            ours = command.replace(PROGRAM, f"{sys.executable} -m gateway")
            done = subprocess.run(
                ["sh", "-c", ours.replace(DATA, str(gateway.data))],
                cwd=tmp_path, env={**os.environ, **environment},
                stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=250,
            )  # fmt: skip
            assert done.returncode == 0, done.stdout + done.stderr
            printed.append(done.stdout + done.stderr)
    assert "landed: 5 rows" in printed[0]
    page = (tmp_path / "report.html").read_text()
    assert "orders" in printed[1] and "/queues/orders" in page

"""Every file in examples/ is run; a new one without a test fails here."""

from __future__ import annotations

import json
import runpy
import shutil
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from tests.examples.commands import base, gateway_command, publishing, run
from tests.interop.servers import ROOT, Server

EXAMPLES = ROOT / "examples"


def publish_and_consume(gateway: Server) -> None:
    pytest.importorskip("pika")
    script = EXAMPLES / "publish_and_consume.py"
    done = run([sys.executable, "-W", "error", str(script), str(gateway.port)])
    assert done.returncode == 0, done.stderr
    confirmed = [f"confirmed {number}" for number in range(3)]
    received = [f'received {{"order": {number}}} application/json' for number in range(3)]
    assert done.stdout.splitlines() == confirmed + received


def publish_http(gateway: Server) -> None:
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed (apt-get install curl)")
    done = run(["sh", str(EXAMPLES / "publish_http.sh"), base(gateway)])
    assert done.returncode == 0, done.stdout + done.stderr
    queue, receipt = done.stdout.splitlines()
    assert json.loads(queue)["name"] == "orders" and json.loads(receipt)["message_id"]
    watched = watch(gateway, "queue:orders", 1)
    assert watched[0]["body"] == {"json": {"order": 42}}
    assert watched[0]["properties"] == {"attempt": 3, "source": "curl"}


def watch_events(gateway: Server) -> None:
    with publishing(gateway, "some.key"):
        watched = watch(gateway, "exchange:amq.topic?binding=some.*", 5)
    first = watched[0]["body"]["json"]["number"]
    assert [one["body"]["json"]["number"] for one in watched] == list(range(first, first + 5))


def watch(gateway: Server, source: str, count: int) -> list[dict[str, dict[str, Any]]]:
    done = run(
        [sys.executable, str(EXAMPLES / "watch_events.py"), base(gateway), source, str(count)]
    )
    assert done.returncode == 0, done.stderr
    opened, *lines = done.stdout.splitlines()
    assert opened == "resume: fresh"
    assert len(lines) == count
    return [json.loads(line) for line in lines]


def tour(gateway: Server) -> None:
    """Without ports it starts a gateway itself, whose listeners know both drafts."""
    done = run([sys.executable, str(EXAMPLES / "tour.py")])
    assert done.returncode == 0, done.stdout + done.stderr
    head, *rows, last = done.stdout.splitlines()
    guests = head.split()[1:]
    assert {"0.8a2", "0-9a0", "0-9a6", "0-8", "0-9", "0-9-1", "1.0", "http", "events"} <= {*guests}
    assert [row.split() for row in rows] == [[name, *["yes"] * len(guests)] for name in guests]
    assert last == f"{len(guests)} guests, {len(guests) ** 2} messages"
    # On a gateway that runs, and with somebody who does not come.
    ports = ["--amqp", str(gateway.port), "--http", str(gateway.http_port)]
    done = run([sys.executable, str(EXAMPLES / "tour.py"), *ports, "--only", "0.8a2,0-9-1,events"])
    assert done.returncode == 0 and "3 guests, 9 messages" in done.stdout, done.stdout + done.stderr
    done = run([sys.executable, str(EXAMPLES / "tour.py"), *ports, "--only", "0-9a6"])
    assert done.returncode == 2 and "not here: 0-9a6" in done.stderr


def test_the_tour_names_missing_libraries(capsys: pytest.CaptureFixture[str]) -> None:
    shown = runpy.run_path(str(EXAMPLES / "tour.py"))["shown"]
    assert shown({"a": SimpleNamespace(heard=["b", "a"]), "b": SimpleNamespace(heard=["a", "b"])})
    assert not shown({"a": SimpleNamespace(heard=["a"]), "b": SimpleNamespace(heard=["a", "b"])})
    assert "MISSING" in capsys.readouterr().out
    assert not shown({"a": SimpleNamespace(heard=["a", "a"])})
    assert "2x" in capsys.readouterr().out


def configuration(gateway: Server) -> None:
    file = str(EXAMPLES / "gateway.toml")
    done = gateway_command("check", file)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "5672" in done.stdout and "staging" in done.stdout
    # "The environment wins over the file"
    other = gateway_command("check", file, AMQP_GATEWAY_AMQP__PORT="5673")
    assert "5673" in other.stdout and "5672" not in other.stdout


RUN: dict[str, Callable[[Server], None]] = {
    "gateway.toml": configuration,
    "publish_and_consume.py": publish_and_consume,
    "publish_http.sh": publish_http,
    "tour.py": tour,
    "watch_events.py": watch_events,
}
ELSEWHERE = {
    "publish_and_follow.html": "interop/test_javascript_client.py",
    "spark_tour.py": "pipeline/test_tour.py",
}
"""Examples that need more than others, and their tests."""


@pytest.mark.parametrize("name", sorted(path.name for path in EXAMPLES.iterdir() if path.is_file()))
def test_example(name: str, gateway: Server) -> None:
    if name in ELSEWHERE:
        assert f"examples/{name}" in (ROOT / "tests" / ELSEWHERE[name]).read_text()
        return
    assert name in RUN, f"nothing runs examples/{name}"
    RUN[name](gateway)

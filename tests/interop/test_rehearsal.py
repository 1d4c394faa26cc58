"""A virtual host of RabbitMQ 3.10 with twenty queues moves to Artemis, while producers and
consumers of many versions go on: by the commands of the command line alone."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.interop import brokers, servers
from tests.interop.rehearsal import guide, topology
from tests.interop.rehearsal.topology import Reader, plain
from tests.interop.rehearsal.traffic import Traffic
from tests.interop.servers import Server
from tests.net.running import PATIENCE, until

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

CONFIGURATION = """\
[[upstreams]]
name = "old"
addresses = ["amqp://127.0.0.1:{old}"]
version = "0-9-1"

[[facades]]
upstream = "old"
"""
BEFORE = (plain("pika", "orders"), plain("pika", "bills"), plain("0-9-1", "shared"))
READING = (Reader("orders", "pika"), Reader("bills", "0-8"), Reader("shared", "0-9-1"))
"""Clients of RabbitMQ, before there is a gateway."""


def command(folder: Path, *words: object, status: int = 0) -> Any:
    """What a command prints, as JSON."""
    done = subprocess.run(
        [sys.executable, "-m", "gateway", *map(str, words)],
        cwd=folder,
        env=servers.environment(),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == status, (words, done.stdout, done.stderr)
    return json.loads(done.stdout)


@contextlib.contextmanager
def observing(folder: Path, port: int) -> Iterator[int]:
    """The proxy before a broker; its port."""
    (listening,) = servers.free_ports(1)
    words = ["observe", "--listen", f"127.0.0.1:{listening}", "--seconds", "0.2"]
    words += ["--upstream", f"amqp://127.0.0.1:{port}", "--inventory", str(folder / "old.json")]
    process = subprocess.Popen(
        [sys.executable, "-m", "gateway", *words],
        env=servers.environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        until(lambda: servers.answers(listening), "proxy")
        yield listening
        process.send_signal(signal.SIGINT)
        process.wait(PATIENCE)
    finally:
        process.kill()
        process.wait()


def observe(folder: Path, old: Server) -> None:
    """The old clients work by way of the proxy, and the inventory knows what they use."""
    with observing(folder, old.port) as port:
        topology.declare(port)
        with Traffic(port, None, BEFORE, READING) as traffic:
            traffic.goes_on(10)
            traffic.drain()
        assert not traffic.faults()
    told = command(
        folder, "inventory", "report", "old.json", "--target", "artemis", "--format", "json",
    )  # fmt: skip
    queues = {one["name"] for one in told["nodes"] if one["kind"] == "queue"}
    assert queues == set(topology.QUEUES)


def plan(folder: Path, old: Server) -> Path:
    """What Artemis needs to know, from RabbitMQ's definitions and the rules."""
    url = f"http://127.0.0.1:{old.http_port}/api/definitions"
    answer = httpx.get(url, auth=("guest", "guest"), timeout=PATIENCE)
    (folder / "definitions.json").write_bytes(answer.raise_for_status().content)
    (folder / "rules.toml").write_text(guide.file("rules.toml"))
    for seen in ("definitions.json", "old.json"):
        command(
            folder, "bridge", "addresses", "--rules", "rules.toml", "--against", seen,
            "--vhost", "/", "--json",
        )  # fmt: skip
    command(
        folder, "bridge", "plan", "--from", "definitions.json", "--target", "artemis",
        "--rules", "rules.toml", "--output", "broker.xml", "--json",
    )  # fmt: skip
    return folder / "broker.xml"


@pytest.fixture
def parts(tmp_path: Path) -> Iterator[tuple[Server, Path]]:
    """RabbitMQ with what it needs for a rehearsal, and a folder."""
    pytest.importorskip("pika")
    pytest.importorskip("proton")
    for reason in (servers.rabbitmq_missing(), brokers.artemis_missing()):
        if reason:
            pytest.skip(reason)
    old = servers.start_rabbitmq(tmp_path / "rabbitmq", plugins=["rabbitmq_management"])
    try:
        yield old, tmp_path
    finally:
        old.stop()


def test_rehearsal(parts: tuple[Server, Path]) -> None:
    old, folder = parts
    with contextlib.ExitStack() as stack:
        observe(folder, old)
        file = plan(folder, old)
        new = brokers.start_artemis(folder / "artemis", file)
        stack.callback(new.stop)
        settings = folder / "gateway.toml"
        settings.write_text(CONFIGURATION.format(old=old.port))
        front = servers.start_gateway(folder / "gateway", extra=["--config", str(settings)])
        stack.callback(front.stop)
        with Traffic(front.port, front.http_port) as traffic:
            traffic.goes_on(20)
            traffic.drain()
        assert not traffic.faults()
        assert traffic.book.repeated() == 0
        assert "Traceback" not in front.log.read_text()

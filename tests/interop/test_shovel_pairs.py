"""Shovels between pairs of brokers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bridge import moving
from tests.interop import brokers
from tests.net.running import Running, until

pytestmark = pytest.mark.interop

COUNT = 400
CONFIGURATION = """
[[upstreams]]
name = "{name}"
addresses = ["amqp://127.0.0.1:{port}"]
version = "1.0"

[[shovels]]
name = "over"
source = {{ queue = "leaving" }}
destination = {{ upstream = "{name}", queue = "queue.over" }}
connections = 3

[[shovels]]
name = "back"
source = {{ upstream = "{name}", queues = "queue.#", known = ["queue.over", "queue.other"] }}
destination = {{ queue = "returned" }}
"""


@pytest.mark.parametrize("name", ["artemis", "broker_j"])
def test_connections_of_one_shovel(name: str, tmp_path: Path) -> None:
    """Their links have the same names, and none takes that of another."""
    kind = brokers.KINDS[name]
    if reason := kind.missing():
        pytest.skip(reason)
    other = kind.start(tmp_path / "other")
    try:
        file = tmp_path / "gateway.toml"
        file.write_text(CONFIGURATION.format(name=name, port=other.port))
        with Running(tmp_path / "gateway", "--config", file) as gateway:
            moving.declare(gateway, "leaving", "returned")
            moving.publish(gateway.port, "leaving", range(COUNT))
            assert len(moving.taken(gateway.port, "returned", COUNT)) == COUNT
            until(lambda: moving.shovels(gateway)["back"]["moved"] == COUNT, "all are settled")
            assert moving.shovels(gateway)["over"]["moved"] == COUNT
    finally:
        other.stop()

"""What brokers that nobody here wrote can do, as probes of the gateway find it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.bridge.test_capabilities import UPSTREAM, upstreams
from tests.interop import brokers, servers
from tests.interop.servers import Server
from tests.net.running import Running

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

ABLE = {
    "0-9-1": "confirms transactions counting declaring priorities streams",
    "0-8": "transactions counting declaring priorities streams",
    "1.0": "confirms",
}
BROKER_J = {
    "0-9-1": "confirms transactions counting declaring priorities",
    "0-10": "confirms transactions browsing counting declaring priorities",
    "1.0": "confirms transactions browsing draining",
}


@pytest.mark.parametrize(
    ("missing", "start", "product", "wanted"),
    [
        (servers.rabbitmq_missing, brokers.start_rabbitmq_1_0, "RabbitMQ", ABLE),
        (brokers.broker_j_missing, brokers.start_broker_j, "Broker-J", BROKER_J),
    ],
    ids=["rabbitmq", "broker-j"],
)
def test_a_probe_finds_what_a_broker_can_do(
    missing: Callable[[], str | None],
    start: Callable[[Path], Server],
    product: str,
    wanted: dict[str, str],
    tmp_path: Path,
) -> None:
    if reason := missing():
        pytest.skip(reason)
    broker = start(tmp_path / "broker")
    try:
        file = tmp_path / "gateway.toml"
        file.write_text("".join(UPSTREAM.format(one, broker.port, one) for one in wanted))
        with Running(tmp_path / "front", "--config", file) as front:
            found = upstreams(front)
        for version, able in wanted.items():
            one = found[version]
            assert (one["state"], one["version"]) == ("found", version), one["error"]
            assert product in one["product"] and one["product_version"]
            assert {name for name, can in one["abilities"].items() if can} == set(able.split())
        assert broker.alive
    finally:
        broker.stop()

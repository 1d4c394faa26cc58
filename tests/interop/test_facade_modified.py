"""The modified outcome of 1.0 over a facade, before a broker nobody here wrote."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.interop import brokers, servers

pytestmark = pytest.mark.interop
PATIENCE = 60.0


def test_a_failed_delivery_is_counted(tmp_path: Path) -> None:
    """By Artemis. (Broker-J counts it after another link may have got it.)"""
    proton = pytest.importorskip("proton", reason="Proton, the client, is not installed")
    from proton.utils import BlockingConnection

    if reason := brokers.artemis_missing():
        pytest.skip(reason)
    broker = brokers.start_artemis(tmp_path / "broker")
    try:
        address = brokers.queue_address(broker, "modified")
        front = servers.start_facade(tmp_path / "front", broker, more='version = "1.0"')
        try:
            url = f"amqp://guest:guest@{front.host}:{front.port}"

            def connected() -> Any:
                return BlockingConnection(url, timeout=PATIENCE, allowed_mechs="PLAIN")

            one, two = connected(), connected()
            sender = one.create_sender(address)
            sender.send(proton.Message(body="work", durable=True))
            receiver = one.create_receiver(address, credit=1)
            assert receiver.receive(PATIENCE).delivery_count == 0
            delivery = receiver.fetcher.unsettled.popleft()
            delivery.local.failed = True
            delivery.update(proton.Delivery.MODIFIED)
            delivery.settle()
            receiver.close()
            other = two.create_receiver(address, credit=1)
            again = other.receive(PATIENCE)
            assert (again.body, again.delivery_count) == ("work", 1)
            other.accept()
            one.close()
            two.close()
        finally:
            front.stop()
    finally:
        broker.stop()

"""RabbitMQ 4's Java client of AMQP 1.0: management, outcomes, requests, its recovery of everything.

It insists on a server that calls itself RabbitMQ 4, so it is tried on the gateway only, with a
listener that does.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.interop.amqp1.conftest import NAME
from tests.interop.amqp1.test_rabbit_client import COMPAT
from tests.interop.restarts import LINES, Restartable, Seen, compare, java_checks, running
from tests.interop.servers import Server, start_gateway

pytestmark = pytest.mark.interop

SOURCE = Path(__file__).parent / "clients/rabbit/RabbitClient.java"

EXPECTED: dict[str, Any] = {
    "order": {"all": True, "in_order": True},
    "management": {
        "name": "rabbit.told",
        "type": "CLASSIC",
        "durable": True,
        "length": "100",
        "members": 1,
        "leader": "some",
        "outcomes": ["ACCEPTED", "RELEASED", "RELEASED"],
        "counts": [1, 0],
        "after": "gone",
    },
    "inequivalent": True,
    "outcomes": {"seen": [[0, "null"], [0, "null"], [0, "because"]], "buried": "again"},
    "paused": ["one", 1, "two"],
    "request_reply": ["ONE", "TWO"],
    "large": {"outcome": "ACCEPTED", "size": (8 << 20) + 17, "same": True},
    "values": {"other": [], "count": 32},
    "refused": ["security", "does not exist"],
    "recovery": ["ACCEPTED", "before", "ACCEPTED", "after", "kept"],
}


@pytest.fixture(scope="module")
def rabbit(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Restartable]:
    if NAME != "gateway":
        pytest.skip("the client refuses whatever does not call itself RabbitMQ 4")
    folder = tmp_path_factory.mktemp("rabbit-java")
    config = folder / "compat.toml"
    config.write_text(COMPAT)

    def start(before: Server | None) -> Server:
        port = before.port if before else None
        return start_gateway(folder, port=port, extra=["--config", str(config)])

    with running(start) as found:
        yield found


@pytest.fixture(scope="module")
def seen(rabbit: Restartable, tmp_path_factory: pytest.TempPathFactory) -> Seen:
    scratch = tmp_path_factory.mktemp("rabbit-java-classes")
    return java_checks(("rabbitmq-amqp", "amqp-client"), [SOURCE, LINES], rabbit, scratch)


@pytest.mark.timeout(300)  # the first waits for all of the program
@pytest.mark.parametrize("check", EXPECTED)
def test_rabbit_java(check: str, seen: Seen) -> None:
    compare(seen, check, EXPECTED[check])

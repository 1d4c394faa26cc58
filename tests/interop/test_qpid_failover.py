"""Failover of the JMS client of Qpid over 0-8, 0-9-1 and 0-10: the gateway is killed and started
again while the client exchanges messages. The first address of its list never answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.interop.restarts import LINES, Seen, checks, compare, java, running
from tests.interop.servers import Server, free_ports, start_gateway

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

SOURCE = Path(__file__).parent / "clients/qpid/QpidFailover.java"
VERSIONS = ("0-8", "0-9-1", "0-10")

EXPECTED: dict[str, Any] = {"lost": [], "taken again": [], "unmarked": []}
"""Messages whose commit was answered and which nobody has; those that came again after their
receipt was confirmed; those that came twice without being marked."""


@pytest.fixture(scope="module", params=VERSIONS)
def seen(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Seen:
    folder = tmp_path_factory.mktemp("failover")
    scratch = tmp_path_factory.mktemp("scratch")
    command = java("qpid-client", "qpid-client", [SOURCE, LINES])
    command[1:1] = [f"-Dqpid.amqp.version={request.param}", "-Dqpid.sync_op_timeout=10000"]

    def start(before: Server | None) -> Server:
        return start_gateway(folder, port=None if before is None else before.port)

    (nobody,) = free_ports(1)
    with running(start) as target:
        words = [target.server.host, str(target.server.port), str(nobody)]
        return checks([*command, *words], target, scratch)


@pytest.mark.parametrize("check", ["transacted", "client_acknowledge"])
def test_failover(check: str, seen: Seen) -> None:
    compare(seen, check, EXPECTED)

"""Qpid JMS when its server is killed and started again: what goes on, what is rolled back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.interop import brokers
from tests.interop.restarts import LINES, Restartable, Seen, compare, java_checks

pytestmark = pytest.mark.interop

SOURCE = Path(__file__).parent / "clients/failover/JmsFailover.java"

EXPECTED: dict[str, Any] = {
    "large": {"size": (8 << 20) + 17, "same": True},
    "failover": {
        "bodies": ["before", "after"],
        "temporary": "temporary",
        "durable": "waiting",
        "kept": "kept",
        "transaction": "rolled back",
        "moved": "then",
        "left": "null",
    },
}


@pytest.fixture(scope="module")
def seen(restartable_1_0: Restartable, tmp_path_factory: pytest.TempPathFactory) -> Seen:
    scratch = tmp_path_factory.mktemp("jms-failover")
    server = restartable_1_0.server
    for queue in ("large", "plain", "kept", "moved"):
        brokers.queue_address(server, f"failover.{queue}")
    kind = brokers.KINDS[server.name]
    artefacts = ("qpid-jms", "qpid-jms-client")
    nodes = (kind.queue, kind.topic)
    return java_checks(artefacts, [SOURCE, LINES], restartable_1_0, scratch, *nodes)


@pytest.mark.timeout(300)  # the first waits for all of the program
@pytest.mark.parametrize("check", EXPECTED)
def test_jms_failover(check: str, seen: Seen) -> None:
    compare(seen, check, EXPECTED[check])

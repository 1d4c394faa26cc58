"""go-amqp, an engine of AMQP 1.0 of its own: types, outcomes, filters, a server that dies."""

from __future__ import annotations

from typing import Any

import pytest

from tests.interop import brokers
from tests.interop.restarts import Restartable, Seen, built, checks, compare

pytestmark = pytest.mark.interop

EXPECTED: dict[str, Any] = {
    "order": {"count": 200, "in_order": True, "accepted": 200},
    "outcomes": {"counts": [0, 0, 1], "why": "because", "gone": True},
    "large": {"size": (8 << 20) + 17, "same": True},
    "values": {"other": []},
    "selector": ["green", "red", "blue"],
    "reply": ["answer", "1"],
    "anonymous": "to whom it concerns",
    "refused": {"conditions": ["amqp:not-found", "amqp:not-found"], "login": True, "alive": True},
    "recovery": {"told": True, "kept": "kept"},
}


@pytest.fixture(scope="module")
def seen(restartable_1_0: Restartable, tmp_path_factory: pytest.TempPathFactory) -> Seen:
    server = restartable_1_0.server
    program = built("go-amqp", "go")
    for check in EXPECTED:
        brokers.queue_address(server, f"go.{check}")
    pattern = brokers.KINDS[server.name].queue
    command = [program, server.host, str(server.port), pattern]
    return checks(command, restartable_1_0, tmp_path_factory.mktemp("go-amqp"))


@pytest.mark.timeout(300)  # the first waits for all of the program
@pytest.mark.parametrize("check", EXPECTED)
def test_go_amqp(check: str, seen: Seen) -> None:
    compare(seen, check, EXPECTED[check])

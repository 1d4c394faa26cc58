"""Qpid ProtonJ2's client: outcomes, transactions, streamed messages, its reconnection."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.interop import brokers
from tests.interop.restarts import LINES, Restartable, Seen, compare, java_checks

pytestmark = pytest.mark.interop

SOURCE = Path(__file__).parent / "clients/protonj2/ProtonJ2Client.java"

EXPECTED: dict[str, Any] = {
    "order": {"count": 200, "in_order": True, "accepted": 200},
    "pipelined": {"accepted": 5000, "in_order": True},
    "outcomes": {"counts": [0, 0, 1], "why": "because", "gone": True},
    "elsewhere": "not here",
    "transactions": [0, "committed", "committed", 0],
    "stream": {"size": (8 << 20) + 17, "same": True, "accepted": True, "kind": "stream"},
    "aborted": "whole",
    "large": {"size": (8 << 20) + 17, "same": True},
    "values": {"other": []},
    "reply": ["question answered", "1"],
    "durable": ["while away"],
    "refused": ["amqp:not-found", True],
    "recovery": ["before", "after", "kept"],
}


@pytest.fixture(scope="module")
def seen(restartable_1_0: Restartable, tmp_path_factory: pytest.TempPathFactory) -> Seen:
    scratch = tmp_path_factory.mktemp("protonj2")
    server = restartable_1_0.server
    for queue in [*EXPECTED, "kept"]:
        brokers.queue_address(server, f"protonj2.{queue}")
    kind = brokers.KINDS[server.name]
    artefacts = ("protonj2", "protonj2-client")
    nodes = (kind.queue, kind.topic)
    return java_checks(artefacts, [SOURCE, LINES], restartable_1_0, scratch, *nodes)


@pytest.mark.timeout(300)  # the first waits for all of the program
@pytest.mark.parametrize("check", EXPECTED)
def test_protonj2(check: str, seen: Seen) -> None:
    compare(seen, check, EXPECTED[check])

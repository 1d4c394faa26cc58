"""Qpid Proton as its users use it: the programs of its manual, in both of its styles."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from tests.interop import brokers
from tests.interop.amqp1.programs import CLIENTS, Seen, checks, proton_missing
from tests.interop.restarts import compare
from tests.interop.servers import Server

pytestmark = pytest.mark.interop

EXPECTED: dict[str, Any] = {
    "hello_world": ["Hello World!"],
    "simple": [[100], True],
    "request_reply": [
        ["twas brillig", "TWAS BRILLIG"],
        ["and the slithy toves", "AND THE SLITHY TOVES"],
    ],
    "transactions": {
        "sent": ["committed", "aborted", "committed", "aborted"],
        "undone": ["0.0", "0.1"],
        "taken": ["0.0", "0.1", "2.0", "2.1"],
        "left": [],
    },
    "browser": [["a", "b", "c"]] * 3,
    "selected": [["green0", "green3"], ["red1", "blue2"]],
    "outcomes": {"bodies": ["again"] * 3, "counts": [0, 0, 1]},
    "blocking": ["Hello World!", "FIRST"],
    "dynamic": [True, "found you"],
    "detached": ["amqp:not-found", "amqp:not-found", ["alive"]],
}


@pytest.fixture(scope="module")
def seen(broker: Server) -> Seen:
    if reason := proton_missing():
        pytest.skip(reason)
    for check in EXPECTED:
        brokers.queue_address(broker, f"proton.{check}")
    program = str(CLIENTS / "proton_examples.py")
    pattern = brokers.KINDS[broker.name].queue
    return checks([sys.executable, program, broker.host, str(broker.port), pattern])


@pytest.mark.parametrize("check", EXPECTED)
def test_proton(check: str, seen: Seen, broker: Server) -> None:
    if check == "detached" and not brokers.KINDS[broker.name].declares:
        pytest.skip("here a queue appears when it is first used")
    compare(seen, check, EXPECTED[check])

"""Spring AMQP without Spring Boot: templates, listener containers, transactions, its recovery."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.interop.restarts import LINES, Restartable, Seen, compare, java_checks

pytestmark = pytest.mark.interop

SOURCE = Path(__file__).parent / "clients/spring/SpringClient.java"
_PROPERTIES = ["text/plain", "UTF-8", "PERSISTENT", 3, "c-1", "somewhere", "60000", "m-1"]
_MANY = {"count": 200, "all": True, "confirmed": 200}

EXPECTED: dict[str, Any] = {
    "simple_container": _MANY,
    "direct_container": _MANY,
    "batch": {"sizes": [10, 10], "left": 0},
    "failures": {
        "redelivered": [False, True, True],
        "body": "difficult",
        "reason": "rejected",
        "queue": True,
    },
    "manual_acknowledge": {"seen": ["x false", "x true"], "left": 0},
    "returned": {"acked": True, "code": 312, "text": "NO_ROUTE", "body": "back"},
    "request_reply": {"answers": ["ONE", "TWO"], "direct": [True, True]},
    "transactions": {"counts": [1, 0, 0, 1], "body": "moved"},
    "large": {"size": (8 << 20) + 17, "same": True},
    "headers": {
        "other": [],
        "properties": [*_PROPERTIES, 1700000000000, "kind", "guest", "spring"],
    },
    "refused": [True, "null", "authentication"],
    "recovery": {"first": True, "bodies": ["before", "after"], "kept": "kept"},
}


@pytest.fixture(scope="module")
def seen(restartable: Restartable, tmp_path_factory: pytest.TempPathFactory) -> Seen:
    scratch = tmp_path_factory.mktemp("spring")
    return java_checks(("spring-rabbit", "spring-rabbit"), [SOURCE, LINES], restartable, scratch)


@pytest.mark.timeout(300)  # the first waits for all of the program
@pytest.mark.parametrize("check", EXPECTED)
def test_spring_amqp(check: str, seen: Seen) -> None:
    compare(seen, check, EXPECTED[check])

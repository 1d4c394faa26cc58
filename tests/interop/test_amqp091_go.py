"""amqp091-go, RabbitMQ's client of Go: what its users do, and its own recovery of everything."""

from __future__ import annotations

from typing import Any

import pytest

from tests.interop.restarts import Restartable, Seen, built, checks, compare

pytestmark = pytest.mark.interop

_PROPERTIES = ["text/plain", "utf-8", 2, 3, "c-1", "somewhere", "60000", "m-1", 1700000000]

EXPECTED: dict[str, Any] = {
    "order": {"count": 200, "in_order": True, "confirmed": 200},
    "requeue": {"redelivered": [False, True, True], "gone": True},
    "tx": {"counts": [0, 1, 1, 1]},
    "large": {"size": (8 << 20) + 17, "same": True},
    "headers": {"other": [], "properties": [*_PROPERTIES, "kind", "guest", "amqp091-go"]},
    "returned": {"code": 312, "text": "NO_ROUTE", "body": "back"},
    "refused": {"codes": [404, 406, 403], "alive": True},
    "recovery": {"bodies": ["before", "after"], "kept": True},
}


@pytest.fixture(scope="module")
def seen(restartable: Restartable, tmp_path_factory: pytest.TempPathFactory) -> Seen:
    server = restartable.server
    command = [built("amqp091", "go"), server.host, str(server.port)]
    return checks(command, restartable, tmp_path_factory.mktemp("amqp091"))


@pytest.mark.timeout(300)  # the first waits for all of the program
@pytest.mark.parametrize("check", EXPECTED)
def test_amqp091_go(check: str, seen: Seen) -> None:
    compare(seen, check, EXPECTED[check])

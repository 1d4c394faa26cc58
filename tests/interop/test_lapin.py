"""lapin, the AMQP client of Rust: what its users do, and its own recovery when the server dies."""

from __future__ import annotations

from typing import Any

import pytest

from tests.interop.restarts import Restartable, Seen, built, checks, compare

pytestmark = pytest.mark.interop

EXPECTED: dict[str, Any] = {
    "order": {"count": 200, "in_order": True, "confirmed": 200},
    "returned": {"code": 312, "text": "NO_ROUTE", "body": "back", "acked": True},
    "requeue": {"redelivered": [False, True, True], "gone": True},
    "tx": {"counts": [0, 1, 1, 1]},
    "large": {"size": (8 << 20) + 17, "same": True},
    "headers": {"other": [], "same": True},
    "refused": {"codes": [404, 406, 403], "alive": True},
    "closes": {"errors": []},
    "recovery": {"bodies": ["before", "after"], "kept": "kept"},
}


@pytest.fixture(scope="module")
def seen(restartable: Restartable, tmp_path_factory: pytest.TempPathFactory) -> Seen:
    program = built("lapin-client", "cargo")
    server = restartable.server
    command = [program, server.host, str(server.port)]
    return checks(command, restartable, tmp_path_factory.mktemp("lapin"))


@pytest.mark.timeout(300)  # the first waits for all of the program
@pytest.mark.parametrize("check", EXPECTED)
def test_lapin(check: str, seen: Seen) -> None:
    compare(seen, check, EXPECTED[check])

"""A Celery worker with processes of its own: ETA, revoking, rates, remote control, recovery."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from tests.interop.peers import CLIENTS, python_module
from tests.interop.restarts import Restartable, Seen, checks, compare
from tests.interop.servers import environment

pytestmark = pytest.mark.interop

EXPECTED: dict[str, Any] = {
    "eta": {"early": False},
    "revoked": {"known": True, "stopped": True, "ran": False},
    "rate": {"total": 55, "said": [["ok"], ["ok"]]},
    "other_queue": {"result": 3, "taken": True, "left": True},
    "large": {"size": 3 << 20},
    "prefetch": {"said": [["ok"], ["ok"]], "result": 2},
    "recovery": {"done": ["after", "held"], "again": "True"},
}


@pytest.fixture(scope="module")
def seen(restartable: Restartable, tmp_path_factory: pytest.TempPathFactory) -> Seen:
    if reason := python_module("celery")():
        pytest.skip(reason)
    server = restartable.server
    command = [sys.executable, str(CLIENTS / "celery_worker.py"), server.host, str(server.port)]
    scratch = tmp_path_factory.mktemp("celery")
    return checks(
        command,
        restartable,
        scratch,
        environment=environment(PYTHONWARNINGS="ignore"),
        seconds=250.0,
    )


@pytest.mark.timeout(400)  # the first waits for all of the program
@pytest.mark.parametrize("check", EXPECTED)
def test_celery_worker(check: str, seen: Seen) -> None:
    compare(seen, check, EXPECTED[check])

"""The Python client of Qpid for AMQP 0-10, converted, runs its own tests against the gateway: those
of its messaging API and of its sessions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop import qpid_python
from tests.interop.qpid_python import GROUPS, Seen
from tests.interop.servers import Server

pytestmark = [pytest.mark.interop, pytest.mark.slow]

FEW = 3


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if reason := qpid_python.missing():
        pytest.skip(reason)
    return qpid_python.convert(tmp_path_factory.mktemp("qpid-python"))


@pytest.fixture(scope="module", params=GROUPS, ids=lambda group: group.name)
def outcome(
    request: pytest.FixtureRequest, sources: Path, gateway: Server
) -> Iterator[tuple[qpid_python.Group, dict[str, Seen]]]:
    """A few that failed are run again by themselves: some stop or fork the one thread of all
    connections that the client has, which not every test behind them survives."""
    seen = qpid_python.run(gateway, sources, *request.param.patterns)
    failed = [
        name
        for name, each in seen.items()
        if each.verdict == "failed" and qpid_python.known(name) is None
    ]
    if 0 < len(failed) <= FEW:
        again = qpid_python.run(gateway, sources, *failed)
        seen |= {name: each for name, each in again.items() if name}
    yield request.param, seen


@pytest.mark.timeout(1000)
def test_the_clients_own_tests(outcome: tuple[qpid_python.Group, dict[str, Seen]]) -> None:
    group, seen = outcome
    failed = {name: each for name, each in seen.items() if each.verdict == "failed"}
    surprises = {name: each for name, each in failed.items() if qpid_python.known(name) is None}
    told = "\n\n".join(f"{name}: {each.why}" for name, each in surprises.items())
    assert not surprises, told[-6000:]
    passed = [each for each in seen.values() if each.verdict == "passed"]
    assert len(passed) >= group.passes, f"{len(passed)} passed\n{seen[''].why}"

"""Other projects' integration suites against the target; figures are those of RabbitMQ 3.10.8."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.interop import servers
from tests.interop.conftest import TARGET, missing
from tests.interop.suites import SUITES, Suite


@pytest.mark.interop
@pytest.mark.slow
@pytest.mark.timeout(1600)
@pytest.mark.parametrize("suite", SUITES, ids=lambda suite: suite.name)
def test_suite(suite: Suite, tmp_path: Path) -> None:
    """Each has a server of its own."""
    if reason := missing(TARGET) or suite.missing():
        pytest.skip(reason)
    server = servers.start(TARGET, tmp_path / "server", tls=suite.tls)
    try:
        outcome = suite.run(server, tmp_path)
        assert server.alive, f"{TARGET} died while it was being tested:\n{server.tail()}"
    finally:
        server.stop()
    surprises = sorted(outcome.failed - set(suite.known))
    assert not surprises, f"{outcome}\n{outcome.text[-6000:]}"
    assert len(outcome.passed) >= suite.passes, f"{outcome}\n{outcome.text[-6000:]}"

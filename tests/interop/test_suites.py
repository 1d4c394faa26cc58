"""Other projects' integration suites against the target; figures are those of RabbitMQ 3.10.8."""

from __future__ import annotations

from pathlib import Path

import pytest

from .servers import Server
from .suites import SUITES, Suite


@pytest.mark.interop
@pytest.mark.slow
@pytest.mark.timeout(1600)
@pytest.mark.parametrize("suite", SUITES, ids=lambda suite: suite.name)
def test_suite(suite: Suite, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    if reason := suite.missing():
        pytest.skip(reason)
    server = request.getfixturevalue("tls_target" if suite.tls else "target")
    assert isinstance(server, Server)
    outcome = suite.run(server, tmp_path)
    surprises = sorted(outcome.failed - set(suite.known))
    assert not surprises, f"{outcome}\n{outcome.text[-6000:]}"
    assert len(outcome.passed) >= suite.passes, f"{outcome}\n{outcome.text[-6000:]}"

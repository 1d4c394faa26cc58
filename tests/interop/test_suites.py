"""Other projects' integration suites against the target; figures are those of RabbitMQ 3.10.8."""

from __future__ import annotations

from concurrent.futures import Future

import pytest

from .conftest import TARGET, missing
from .suites import SUITES, Outcome, Suite


@pytest.mark.interop
@pytest.mark.slow
@pytest.mark.timeout(1600)
@pytest.mark.parametrize("suite", SUITES, ids=lambda suite: suite.name)
def test_suite(suite: Suite, suites_under_way: dict[str, Future[Outcome]]) -> None:
    if reason := missing(TARGET) or suite.missing():
        pytest.skip(reason)
    outcome = suites_under_way[suite.name].result()
    surprises = sorted(outcome.failed - set(suite.known))
    assert not surprises, f"{outcome}\n{outcome.text[-6000:]}"
    assert len(outcome.passed) >= suite.passes, f"{outcome}\n{outcome.text[-6000:]}"

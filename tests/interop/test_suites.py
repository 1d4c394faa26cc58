"""Other projects' integration suites against the target; figures are those of RabbitMQ 3.10.8.

They wait more than they work, so two run at a time, each with a server of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from . import servers
from .conftest import OLDER, TARGET
from .suites import SUITES, Outcome, Suite

AT_A_TIME = 2


@pytest.fixture(scope="module")
def running(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Future[Outcome]]]:
    """The suites that were asked for and are here, begun; the longest first."""
    asked = {f"test_suite[{suite.name}]": suite for suite in SUITES if not suite.missing()}
    wanted = [asked[item.name] for item in request.session.items if item.name in asked]
    wanted.sort(key=lambda suite: suite.name != "celery")
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        yield {
            suite.name: pool.submit(alone, suite, tmp_path_factory.mktemp(suite.name))
            for suite in wanted
        }
        pool.shutdown(cancel_futures=True)


def alone(suite: Suite, folder: Path) -> Outcome:
    server = servers.start(TARGET, folder / "server", tls=suite.tls)
    try:
        outcome = suite.run(server, folder)
        assert server.alive, f"{TARGET} died while it was being tested:\n{server.tail()}"
        return outcome
    finally:
        server.stop()


@pytest.mark.interop
@pytest.mark.slow
@pytest.mark.timeout(1600)
@pytest.mark.parametrize("suite", SUITES, ids=lambda suite: suite.name)
def test_suite(suite: Suite, request: pytest.FixtureRequest) -> None:
    reason = suite.missing()
    if TARGET not in OLDER:
        reason = f"{TARGET} is tried with AMQP 1.0 only"
    elif TARGET == "rabbitmq":
        reason = reason or servers.rabbitmq_missing()
    if reason:
        pytest.skip(reason)
    outcome = request.getfixturevalue("running")[suite.name].result()
    surprises = sorted(outcome.failed - set(suite.known))
    assert not surprises, f"{outcome}\n{outcome.text[-6000:]}"
    assert len(outcome.passed) >= suite.passes, f"{outcome}\n{outcome.text[-6000:]}"

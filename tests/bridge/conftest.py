"""A gateway that plays the broker, and facades before it."""

from collections.abc import Iterator

import pytest

from tests.bridge.test_facade import VERSIONS, facade
from tests.net.running import Running


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with Running(tmp_path_factory.mktemp("old")) as running:
        yield running


@pytest.fixture(scope="module", params=VERSIONS)
def front(
    request: pytest.FixtureRequest, old: Running, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Running]:
    """A facade that talks to the broker in each version."""
    with facade(tmp_path_factory.mktemp("front"), old.port, request.param) as running:
        yield running

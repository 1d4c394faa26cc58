"""One gateway for the tests that leave it as they found it."""

from collections.abc import Iterator

import pytest

from tests.net.running import Running


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    # An end that comes while a ``Wire`` has patience is none for want of a greeting.
    with Running(tmp_path_factory.mktemp("gateway"), amqp__handshake_seconds=120) as running:
        yield running

"""A gateway of these tests' own, started as a user starts it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.interop import servers


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[servers.Server]:
    server = servers.start_gateway(tmp_path_factory.mktemp("gateway"))
    try:
        yield server
        assert server.alive, server.tail()
    finally:
        server.stop()

"""The server these tests talk to in AMQP 1.0.

INTEROP_TARGET chooses: gateway (default), artemis, broker_j, or rabbitmq_1_0 (3.10 with its
plugin).
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator

import pytest

from tests.interop import brokers
from tests.interop.restarts import Restartable
from tests.interop.servers import Server

TARGET = os.environ.get("INTEROP_TARGET", "gateway")
NAME = {"rabbitmq": "rabbitmq_1_0"}.get(TARGET, TARGET)


def speaks_1_0(server: Server) -> bool:
    """Whether the SASL header of 1.0 is answered with itself."""
    try:
        with socket.create_connection((server.host, server.port), timeout=5.0) as wire:
            wire.sendall(brokers.HEADER_SASL)
            return wire.recv(8) == brokers.HEADER_SASL
    except OSError:
        return False


@pytest.fixture(scope="session")
def broker(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """The chosen server, ready for AMQP 1.0."""
    if NAME == "gateway":
        server: Server = request.getfixturevalue("gateway")
        assert speaks_1_0(server), server.tail()
        yield server
        return
    kind = brokers.KINDS[NAME]
    if reason := kind.missing():
        pytest.skip(reason)
    server = kind.start(tmp_path_factory.mktemp(NAME))
    try:
        yield server
        assert server.alive, f"{NAME} died while it was being tested:\n{server.tail()}"
    finally:
        server.stop()


@pytest.fixture(scope="module")
def restartable_1_0(request: pytest.FixtureRequest) -> Restartable:
    """A server for this module alone, whose programs have it killed and started again."""
    if NAME != "gateway":
        pytest.skip(f"{NAME} cannot be started again on its port here")
    found = request.getfixturevalue("restartable")
    assert isinstance(found, Restartable)
    return found

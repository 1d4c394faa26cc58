"""Fixtures: a server to talk to. INTEROP_TARGET=gateway (default), rabbitmq or facade (the gateway
before RabbitMQ) chooses which.

Those of `amqp1/` can be pointed at artemis, broker_j and rabbitmq_1_0 as well.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.interop import servers
from tests.interop.browser import chromium
from tests.interop.browser.wire import Wire
from tests.interop.restarts import Restartable, running

TARGET = os.environ.get("INTEROP_TARGET", "gateway")
OLDER = ("gateway", "rabbitmq", "facade")
"""Servers for clients of the older versions."""


def missing(name: str) -> str | None:
    """Why clients of the older versions cannot be tried with this server, or None."""
    if name not in OLDER:
        return f"{name} is tried with AMQP 1.0 only"
    return servers.rabbitmq_missing() if name != "gateway" else None


def _run(name: str, folder: Path, *, tls: bool) -> Iterator[servers.Server]:
    if reason := missing(name):
        pytest.skip(reason)
    server = servers.start(name, folder, tls=tls)
    try:
        yield server
        assert server.alive, f"{name} died while it was being tested:\n{server.tail()}"
    finally:
        server.stop()


@pytest.fixture(scope="session")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[servers.Server]:
    yield from _run("gateway", tmp_path_factory.mktemp("gateway"), tls=False)


@pytest.fixture(scope="session")
def rabbitmq(tmp_path_factory: pytest.TempPathFactory) -> Iterator[servers.Server]:
    yield from _run("rabbitmq", tmp_path_factory.mktemp("rabbitmq"), tls=False)


@pytest.fixture(scope="session")
def target(request: pytest.FixtureRequest) -> servers.Server:
    """The server the client tests are pointed at."""
    if reason := missing(TARGET):
        pytest.skip(reason)
    server = request.getfixturevalue(TARGET)
    assert isinstance(server, servers.Server)
    return server


@pytest.fixture(scope="session")
def facade(tmp_path_factory: pytest.TempPathFactory) -> Iterator[servers.Server]:
    yield from _run("facade", tmp_path_factory.mktemp("facade"), tls=False)


@pytest.fixture(scope="session")
def tls_target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[servers.Server]:
    """A second server of the chosen kind, with a TLS listener as well."""
    yield from _run(TARGET, tmp_path_factory.mktemp(f"{TARGET}-tls"), tls=True)


@pytest.fixture(scope="module")
def restartable(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Restartable]:
    """A server of the chosen kind for this module alone: its programs have it killed."""
    if reason := missing(TARGET):
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp(f"{TARGET}-restartable")

    def start(before: servers.Server | None) -> servers.Server:
        return servers.start(TARGET, folder, port=before.port if before else None)

    with running(start) as found:
        yield found


@pytest.fixture(scope="module")
def chrome(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A browser for this module alone."""
    if reason := chromium.missing():
        pytest.skip(reason)
    with chromium.browser(tmp_path_factory.mktemp("profile")) as context:
        yield context


@pytest.fixture
def wire(gateway: servers.Server) -> Iterator[Wire]:
    """A proxy before the gateway's HTTP port that can cut connections."""
    assert gateway.http_port is not None
    with Wire(gateway.http_port) as between:
        yield between


@pytest.fixture(scope="module")
def pair(restartable: Restartable, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The gateway, and a RabbitMQ with its plugins (`rabbit_plugins.Pair`)."""
    if TARGET != "gateway":
        pytest.skip("these are RabbitMQ's own")
    if reason := servers.rabbitmq_missing():
        pytest.skip(reason)
    from tests.interop import rabbit_plugins  # which needs pika

    with rabbit_plugins.plugged(restartable, tmp_path_factory.mktemp("rabbit-plugins")) as found:
        yield found

"""The same conversation with two brokers: RabbitMQ, and this gateway; in every version they share.

Tests here are coroutines. ``place`` is where to dial; ``remote`` is a logged-in connection with
channel 1 open.
"""

import asyncio
import inspect
from collections.abc import Iterator
from typing import Any

import pytest

from tests.interop import servers
from tests.net_client.places import Place, Talk

BROKERS = ("rabbitmq", "gateway")
VERSIONS = ("0-8", "0-9", "0-9-1")
SECONDS = 100.0


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run coroutine tests, each on a loop of its own."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = inspect.signature(pyfuncitem.obj).parameters
    given: dict[str, Any] = {name: pyfuncitem.funcargs[name] for name in names}

    async def run() -> None:
        async with asyncio.timeout(SECONDS):
            try:
                await pyfuncitem.obj(**given)
            finally:
                for talk in given.values():
                    if isinstance(talk, Talk) or hasattr(talk, "remotes"):
                        await talk.close()

    asyncio.run(run())
    return True


@pytest.fixture(scope="session")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, servers.Server]]:
    """Brokers that have been started, by name."""
    started: dict[str, servers.Server] = {}
    try:
        yield started
        dead = [server.tail() for server in started.values() if not server.alive]
        assert dead == [], "a broker died while it was being tested"
    finally:
        for server in started.values():
            server.stop()


@pytest.fixture(scope="session", params=BROKERS)
def server(
    request: pytest.FixtureRequest,
    running: dict[str, servers.Server],
    tmp_path_factory: pytest.TempPathFactory,
) -> servers.Server:
    name = request.param
    if name == "rabbitmq" and (reason := servers.rabbitmq_missing()):
        pytest.skip(reason)
    if name not in running:
        running[name] = servers.start(name, tmp_path_factory.mktemp(name))
    return running[name]


@pytest.fixture(params=VERSIONS)
def place(request: pytest.FixtureRequest, server: servers.Server) -> Place:
    """A broker and a version to talk to it."""
    return Place(server, request.param)


@pytest.fixture
def talk(place: Place, request: pytest.FixtureRequest) -> Any:
    """A conversation to be opened with ``await talk.open()``; closed after the test."""
    return Talk(place, request.node.name)

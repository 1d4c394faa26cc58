"""The version in which the gateway talks to a broker that comes and goes behind a balancer."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.adapters import Limits
from gateway.adapters.registry import HANGING_UP
from gateway.bridge.upstream import Upstream
from gateway.config.bridge import UpstreamSettings
from gateway.errors import Refusal
from tests.bridge.relay import Relay
from tests.net.running import Running


class Balancer(Relay):
    """Closes the next ``away`` connections without a word."""

    away = 0

    @property
    def open(self) -> bool:
        self.away -= 1
        return self.away < 0

    @open.setter
    def open(self, value: bool) -> None:
        pass


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with Running(tmp_path_factory.mktemp("broker")) as running:
        yield running


def upstream_at(port: int) -> Upstream:
    settings = UpstreamSettings(name="old", addresses=[f"amqp://127.0.0.1:{port}"])
    return Upstream(settings, Limits(), None)


async def version_of(upstream: Upstream) -> str:
    remote = await upstream.connect("test")
    version = remote.adapter.version
    await upstream.disconnect(remote)
    return version


def test_a_version_that_was_found_stays_while_the_broker_is_away(broker: Running) -> None:
    """Each number of connections that are closed, up to those of all headers there are."""

    async def talk() -> None:
        with Balancer(broker.port) as balancer:
            upstream = upstream_at(balancer.port)
            found = await version_of(upstream)
            for away in range(1, 12):
                balancer.away = away
                for _ in range(away):
                    with pytest.raises(Refusal):
                        await upstream.connect("test")
                assert await version_of(upstream) == found

    asyncio.run(talk())


def test_a_broker_that_comes_in_the_middle_of_the_search(broker: Running) -> None:
    async def talk() -> None:
        with Balancer(broker.port) as balancer:
            found = []
            for away in range(1, 12):
                balancer.away = away
                upstream = upstream_at(balancer.port)
                try:
                    found.append(await version_of(upstream))
                except Refusal:
                    break
            assert len(found) > 3
            assert not HANGING_UP & set(found), found

    asyncio.run(talk())


def test_another_broker_is_asked_anew(broker: Running, tmp_path: Path) -> None:
    """It answers that it speaks something else."""

    async def talk() -> None:
        async def server(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            header = await reader.read(8)
            asked.append(header)
            writer.write(b"AMQP\x00\x00\x09\x01")
            writer.close()

        asked: list[bytes] = []
        other = await asyncio.start_server(server, "127.0.0.1", 0)
        with Relay(broker.port) as relay:
            upstream = upstream_at(relay.port)
            found = await version_of(upstream)
            relay.target = other.sockets[0].getsockname()[1]
            with pytest.raises(Refusal):
                await upstream.connect("test")
            assert len(set(asked)) > 1
            relay.target = broker.port
            assert await version_of(upstream) == found
        other.close()

    asyncio.run(talk())

"""Random faults of RabbitMQ, of the network before it, and of the facades that clients use."""

from __future__ import annotations

import asyncio
import contextlib
import random
from pathlib import Path

import pytest

from tests.bridge import faults
from tests.bridge.relay import Relay
from tests.bridge.test_facade import facade, run
from tests.bridge.test_facade_faults import VERSIONS, busy, declared
from tests.bridge.traffic import Traffic
from tests.interop import servers
from tests.interop.test_shovel_faults import Restarted, lacks_memory, needs
from tests.net.running import PATIENCE, Running

pytestmark = [pytest.mark.interop, pytest.mark.timeout(1500)]

KILLED = "RabbitMQ is killed"
UNSETTLED = 500
"""Messages, of those taken last, whose acknowledgements a killed RabbitMQ may not know any more."""


class Comes:
    """A facade that comes back on another port, of which its clients are told."""

    def __init__(self, gateway: Running, ports: list[int], place: int) -> None:
        self._gateway, self._ports, self._place = gateway, ports, place

    @property
    def port(self) -> int:
        return self._gateway.port

    def kill(self) -> None:
        self._gateway.kill()

    def start(self) -> None:
        self._gateway.start()
        self._ports[self._place] = self.port


class Doubt:
    """Messages that may come twice without a mark: those that had no confirm at a fault are
    published again."""

    def __init__(self, traffic: Traffic) -> None:
        self._traffic = traffic
        self.numbers: set[int] = set()

    async def during(self, name: str, fault: faults.Fault, dice: random.Random) -> None:
        traffic = self._traffic
        self.numbers |= traffic.unconfirmed
        first = traffic.published
        taken = list(traffic.taken)[-UNSETTLED:] if name == KILLED else []
        await asyncio.to_thread(fault, dice)
        self.numbers.update(taken, traffic.unconfirmed, range(first, traffic.published + 1))


def survive(folder: Path, facades: int, killed: bool, count: int, seed: int) -> None:
    """So many faults of each kind in turn; nothing confirmed is lost."""
    needs(servers.rabbitmq_missing())
    with contextlib.ExitStack() as stack:
        rabbitmq = Restarted(lambda port: servers.start_rabbitmq(folder / "rabbitmq", port=port))
        stack.callback(rabbitmq.kill)
        relay = stack.enter_context(Relay(rabbitmq.port))
        gateways = [
            stack.enter_context(facade(folder / f"facade {n}", relay.port, "0-9-1"))
            for n in range(facades)
        ]
        ports = [one.port for one in gateways]
        traffic = Traffic("work", ports, VERSIONS)
        known = {
            KILLED: faults.kills(rabbitmq, relay),
            "RabbitMQ is cut off": faults.cuts(relay),
            "RabbitMQ is far away": faults.delays(relay),
            "RabbitMQ has no memory": lacks_memory(rabbitmq),
        }
        if killed:
            for n, gateway in enumerate(gateways):
                known[f"facade {n} is killed"] = faults.kills(Comes(gateway, ports, n))
        dice = random.Random(seed)
        names: list[str] = []
        while len(names) < count:
            names += dice.sample(list(known), k=len(known))
        doubt = Doubt(traffic)
        happened: list[str] = []

        async def suffer() -> None:
            await busy(traffic)
            for name in names[:count]:
                happened.append(name)
                await doubt.during(name, known[name], dice)
                if dice.random() < 0.5:  # or the next one comes before they are over this one
                    await busy(traffic)
            await busy(traffic)

        async def all_of_it() -> None:
            suffering = asyncio.create_task(suffer())
            async with asyncio.timeout(PATIENCE + 60 * count):
                await traffic.run(suffering)

        run(declared(ports[0], "work"))
        try:
            asyncio.run(all_of_it())
        except (AssertionError, TimeoutError) as error:
            lost = sorted(traffic.confirmed - set(traffic.taken))[:20]
            raise AssertionError(f"{happened[-5:]}: {lost} lost, {error}") from error
        assert traffic.repeated <= doubt.numbers, happened
        assert killed or traffic.reconnects == 0


def test_clients_stay_connected(tmp_path: Path) -> None:
    survive(tmp_path, 1, False, 5, 3)


def test_facades_are_killed_too(tmp_path: Path) -> None:
    survive(tmp_path, 2, True, 5, 3)


@pytest.mark.long
@pytest.mark.parametrize("facades", [1, 2])
def test_nothing_is_lost_by_a_hundred_faults(facades: int, tmp_path: Path) -> None:
    survive(tmp_path, facades, True, 100, 12)

"""Random faults of RabbitMQ, of Artemis and of the gateway whose shovel joins them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.bridge import faults, moving
from tests.bridge.relay import Relay
from tests.interop import brokers, servers
from tests.interop.servers import Server
from tests.net.running import Running

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600)]

QUEUE = "queue.arrived"


class Restarted:
    """A broker that comes back with its data after it was killed."""

    def __init__(self, begin: Callable[[int | None], Server]) -> None:
        self._begin = begin
        self.server = begin(None)

    @property
    def port(self) -> int:
        return self.server.port

    def kill(self) -> None:
        self.server.kill()

    def start(self) -> None:
        self.server = self._begin(self.server.port)


def survive(folder: Path, count: int) -> None:
    for reason in (servers.rabbitmq_missing(), brokers.artemis_missing()):
        if reason:
            pytest.skip(reason)
    with contextlib.ExitStack() as stack:
        source = Restarted(lambda port: servers.start_rabbitmq(folder / "rabbitmq", port=port))
        stack.callback(source.kill)
        target = Restarted(lambda _: brokers.start_artemis(folder / "artemis"))
        stack.callback(target.kill)
        moving.declare(source, faults.SOURCE)
        near, far = (stack.enter_context(Relay(one.port)) for one in (source, target))
        file = faults.configured(folder / "bridge", near, far, ("0-9-1", "1.0"), "guest", QUEUE)
        text = file.read_text().replace('"right"', '"guest"')
        file.write_text(text)
        bridge = stack.enter_context(Running(folder / "bridge", "--config", file))
        traffic = faults.Traffic(source, faults.taking(target, QUEUE, "1.0"))
        stack.enter_context(traffic)
        known = {
            "the gateway is killed": faults.kills(bridge),
            "RabbitMQ is killed": faults.kills(source, near),
            "Artemis is killed": faults.kills(target, far),
            "RabbitMQ is cut off": faults.cuts(near),
            "Artemis is cut off": faults.cuts(far),
            "RabbitMQ is far away": faults.delays(near),
            "Artemis is far away": faults.delays(far),
            "nobody takes from Artemis": faults.slows(traffic, 0.5),
        }
        faults.survive(known, traffic, bridge, count, 5)


def test_nothing_is_lost_between_two_brokers(tmp_path: Path) -> None:
    survive(tmp_path, 8)


@pytest.mark.long
def test_nothing_is_lost_by_a_hundred_faults_between_two_brokers(tmp_path: Path) -> None:
    survive(tmp_path, 104)

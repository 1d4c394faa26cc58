"""Random faults of RabbitMQ, as the source and as the target, of Artemis, and of the gateway whose
shovel joins them."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.bridge import faults, moving
from tests.bridge.relay import Relay
from tests.interop import brokers, servers
from tests.interop.servers import Server
from tests.net.running import Running, until

pytestmark = [pytest.mark.interop, pytest.mark.timeout(1200)]

QUEUE = "queue.arrived"
USER = "mover"


class Restarted:
    """A broker that comes back with its data after it was killed."""

    def __init__(self, begin: Callable[[int | None], Server]) -> None:
        self._begin = begin
        self.server = begin(None)

    @property
    def port(self) -> int:
        return self.server.port

    def kill(self) -> None:
        """Until its port is free: the next one would seem to listen already."""
        self.server.kill()
        until(lambda: not servers.answers(self.port), "it has gone")

    def start(self) -> None:
        self.server = self._begin(self.server.port)


def needs(*reasons: str | None) -> None:
    for reason in reasons:
        if reason:
            pytest.skip(reason)


def survive(folder: Path, count: int) -> None:
    needs(servers.rabbitmq_missing(), brokers.artemis_missing())
    with contextlib.ExitStack() as stack:
        source = Restarted(lambda port: servers.start_rabbitmq(folder / "rabbitmq", port=port))
        stack.callback(source.kill)
        target = Restarted(lambda _: brokers.start_artemis(folder / "artemis"))
        stack.callback(target.kill)
        moving.declare(source, faults.SOURCE)
        near, far = (stack.enter_context(Relay(one.port)) for one in (source, target))
        file = faults.configured(folder / "bridge", near, far, ("0-9-1", "1.0"), "guest", QUEUE)
        file.write_text(file.read_text().replace('"right"', '"guest"'))
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
            "RabbitMQ has no memory": lacks_memory(source),
        }
        faults.survive(known, traffic, bridge, count, 5)


TARGETS = [("0-9-1", "limited"), ("0-9-1", "killed"), ("1.0", "killed")]
"""Two faults of RabbitMQ 3.10 itself keep the two apart, and 1.0 from the first: when it starts
again, it drops messages that it has confirmed from a queue whose limit counts no unacknowledged
ones; and the session of its 1.0 crashes when a full queue refuses a message."""


def survive_at_target(folder: Path, target_of: tuple[str, str], count: int) -> None:
    """RabbitMQ is the target; a gateway is the source."""
    version, kind = target_of
    needs(servers.rabbitmq_missing())
    with contextlib.ExitStack() as stack:
        source = stack.enter_context(Running(folder / "source"))

        def begin(port: int | None) -> Server:
            return servers.start_rabbitmq(
                folder / "rabbitmq", port=port, plugins=["rabbitmq_amqp1_0"]
            )

        target = Restarted(begin)
        stack.callback(target.kill)
        servers.rabbitmqctl(target.server, "add_user", USER, "right")
        servers.rabbitmqctl(target.server, "set_permissions", USER, ".*", ".*", ".*")
        faults.permit(source)
        moving.declare(source, faults.SOURCE)
        if kind == "limited":
            faults.limited(target.port)
        else:
            moving.declare(target, faults.TARGET)
        near, far = (stack.enter_context(Relay(one.port)) for one in (source, target))
        file = faults.configured(
            folder / "bridge", near, far, ("0-9-1", version), USER, faults.TARGET
        )
        bridge = stack.enter_context(Running(folder / "bridge", "--config", file))
        traffic = stack.enter_context(faults.Traffic(source, faults.taking(target)))
        known = {
            "the gateway is killed": faults.kills(bridge),
            "RabbitMQ is killed": faults.kills(target, far),
            "RabbitMQ is cut off": faults.cuts(far),
            "RabbitMQ is far away": faults.delays(far),
            "nobody takes from it": faults.slows(traffic, 0.5),
            "its consumer is slow": faults.slows(traffic, 0.01),
            "it has no memory": lacks_memory(target),
            "it has another password": forgets(target, far),
        }
        if kind == "limited":
            del known["RabbitMQ is killed"]
        faults.survive(known, traffic, bridge, count, 7)


THERE_AND_BACK = """
[[upstreams]]
name = "middle"
addresses = ["amqp://127.0.0.1:{port}"]
version = "{version}"
connect_seconds = 5

[[shovels]]
name = "over"
source = {{ queue = "leaving" }}
destination = {{ upstream = "middle", queue = "queue.middle" }}
window = 100

[[shovels]]
name = "back"
source = {{ upstream = "middle", queue = "queue.middle" }}
destination = {{ queue = "arrived" }}
window = 100
"""


def start_broker_j(folder: Path) -> Server:
    server = brokers.start_broker_j(folder)
    moving.declare(server, "queue.middle")
    return server


class Between(NamedTuple):
    """The broker between two shovels, the version of these, and that of the clients."""

    missing: Callable[[], str | None]
    begin: Callable[[Path], Server]
    version: str
    clients: str


BETWEEN = {
    "Artemis": Between(brokers.artemis_missing, brokers.start_artemis, "1.0", "0.8a2"),
    "Broker-J": Between(brokers.broker_j_missing, start_broker_j, "0-10", "0-9-1"),
}


def survive_there_and_back(folder: Path, name: str, count: int) -> None:
    """Clients talk to the gateway, which sends their messages over another broker."""
    between = BETWEEN[name]
    needs(between.missing())
    with contextlib.ExitStack() as stack:
        middle = Restarted(lambda _: between.begin(folder / "middle"))
        stack.callback(middle.kill)
        relay = stack.enter_context(Relay(middle.port))
        (folder / "gateway").mkdir()
        file = folder / "gateway" / "gateway.toml"
        file.write_text(THERE_AND_BACK.format(port=relay.port, version=between.version))
        gateway = stack.enter_context(Running(folder / "gateway", "--config", file))
        moving.declare(gateway, faults.SOURCE, faults.TARGET)
        taking = faults.taking(gateway, version=between.clients)
        traffic = stack.enter_context(faults.Traffic(gateway, taking, between.clients))
        known = {
            "the gateway is killed": faults.kills(gateway),
            f"{name} is killed": faults.kills(middle, relay),
            f"{name} is cut off": faults.cuts(relay),
            f"{name} is far away": faults.delays(relay),
            "nobody takes from the gateway": faults.slows(traffic, 0.5),
        }
        faults.survive(known, traffic, gateway, count, 9)


def lacks_memory(broker: Restarted) -> faults.Fault:
    def fault(dice: random.Random) -> None:
        with servers.rabbitmq_memory_alarm(broker.server):
            faults.rest(dice)

    return fault


def forgets(broker: Restarted, relay: Relay) -> faults.Fault:
    """The password of the shovel's user is another one, for a while."""

    def fault(dice: random.Random) -> None:
        servers.rabbitmqctl(broker.server, "change_password", USER, "other")
        relay.cut()
        faults.rest(dice)
        servers.rabbitmqctl(broker.server, "change_password", USER, "right")

    return fault


def test_nothing_is_lost_between_two_brokers(tmp_path: Path) -> None:
    survive(tmp_path, 9)


def test_nothing_is_lost_at_rabbitmq(tmp_path: Path) -> None:
    survive_at_target(tmp_path, ("0-9-1", "killed"), 8)


@pytest.mark.parametrize("name", BETWEEN)
def test_nothing_is_lost_there_and_back(name: str, tmp_path: Path) -> None:
    survive_there_and_back(tmp_path, name, 5)


@pytest.mark.long
@pytest.mark.parametrize("name", BETWEEN)
def test_nothing_is_lost_by_a_hundred_faults_there_and_back(name: str, tmp_path: Path) -> None:
    survive_there_and_back(tmp_path, name, 105)


@pytest.mark.long
def test_nothing_is_lost_by_a_hundred_faults_between_two_brokers(tmp_path: Path) -> None:
    survive(tmp_path, 104)


@pytest.mark.long
@pytest.mark.parametrize("target", TARGETS, ids=" ".join)
def test_nothing_is_lost_by_a_hundred_faults_at_rabbitmq(
    target: tuple[str, str], tmp_path: Path
) -> None:
    survive_at_target(tmp_path, target, 104)

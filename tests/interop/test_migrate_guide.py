"""The files and commands of docs/migrate.md, in their order, with brokers and clients at work."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.interop import brokers, servers
from tests.interop.rehearsal import guide, topology
from tests.interop.rehearsal.topology import Flow, plain
from tests.interop.rehearsal.traffic import Traffic
from tests.needs import package
from tests.net.running import until

pytestmark = [pytest.mark.interop, pytest.mark.timeout(400)]

MOVED = ("orders", "bills", "jobs.dead", "jobs", "shop.new", "shop.paid")
FLOWS = (
    plain("pika", "orders"),
    plain("0-9-1", "bills"),
    plain("0-9", "jobs"),
    Flow("shop", "pika", (("shop", "new", ("shop.new",)), ("shop", "paid", ("shop.paid",)))),
)
"""The first two are at RabbitMQ itself before."""
READERS = tuple(one for one in topology.READERS if one.queue in MOVED)


class Scene:
    """The brokers and clients of the guide's reader, in ``folder``."""

    def __init__(self, folder: Path, stack: contextlib.ExitStack) -> None:
        self.stack = stack
        self.old = servers.start_rabbitmq(folder / "old", plugins=["rabbitmq_management"])
        stack.callback(self.old.stop)
        proxy, artemis, self.amqp, self.http = servers.free_ports(4)
        self.proxy, self.artemis = proxy, artemis
        self.reader = guide.Reader(
            folder,
            {
                "old.example:5672": f"127.0.0.1:{self.old.port}",
                "old.example:15672": f"127.0.0.1:{self.old.http_port}",
                "new.example:5672": f"127.0.0.1:{artemis}",
                "gateway.example:8080": f"127.0.0.1:{self.http}",
                "/var/lib/amqp-gateway": str(folder / "data"),
                "0.0.0.0:5673": f"127.0.0.1:{proxy}",
                "0.0.0.0": "127.0.0.1",
                "port = 5672": f"port = {self.amqp}",
                "port = 8080": f"port = {self.http}",
            },
        )
        stack.callback(self.reader.close)
        for name in ("old", "new"):
            (folder / f"{name}.password").write_text("guest")
        self.folder = folder
        self.traffic: Traffic | None = None
        self._after: dict[str, Callable[[str], None]] = {
            "amqp-gateway observe": self.observed,
            "amqp-gateway bridge plan": self.planned,
            "amqp-gateway serve": self.served,
        }

    def follow(self, step: guide.File | str) -> None:
        if isinstance(step, guide.File):
            self.reader.write(step)
            return
        known = next((name for name in self._after if step.startswith(name)), "")
        if known in ("amqp-gateway observe", "amqp-gateway serve"):
            log = self.reader.begin(step)
            port = self.proxy if known.endswith("observe") else self.amqp
            until(lambda: servers.answers(port) or log.read_text().count("rror"), step)
            assert servers.answers(port), log.read_text()
        else:
            self.reader.run(step)
        if known:
            self._after[known](step)
        if self.traffic is not None:
            self.traffic.goes_on(3)

    def observed(self, command: str) -> None:
        """The clients are used by way of the proxy; the inventory is written when it ends."""
        topology.declare(self.proxy)
        with Traffic(self.proxy, None, FLOWS[:2], READERS[:2]) as traffic:
            traffic.goes_on(10)
            traffic.drain()
        assert not traffic.faults()
        self.reader.end(command)

    def planned(self, command: str) -> None:
        """The operator starts the new broker."""
        server = brokers.start_artemis(
            self.folder / "new", self.folder / "addresses.xml", self.artemis
        )
        self.stack.callback(server.stop)

    def served(self, command: str) -> None:
        """The clients connect to the gateway, and stay connected."""
        self.traffic = self.stack.enter_context(Traffic(self.amqp, self.http, FLOWS, READERS))


@pytest.mark.long  # `test_rehearsal` has most of them
def test_the_commands_of_the_guide(tmp_path: Path) -> None:
    package("pika", "pika")
    package("python-qpid-proton", "proton")
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed, and the guide uses it")
    for reason in (servers.rabbitmq_missing(), brokers.artemis_missing()):
        if reason:
            pytest.skip(reason)
    steps = guide.steps()
    assert len(steps) >= 10
    with contextlib.ExitStack() as stack:
        scene = Scene(tmp_path, stack)
        for step in steps:
            scene.follow(step)
        assert scene.traffic is not None
        scene.traffic.drain()
        assert not scene.traffic.faults()
    said = scene.reader.said
    assert "pika" in said["amqp-gateway inventory report old.json --target artemis"].lower()
    (last,) = (text for command, text in said.items() if " new-only " in command)
    assert last.count("new-only") == len(MOVED) + 1

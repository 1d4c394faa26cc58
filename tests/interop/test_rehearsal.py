"""A virtual host of RabbitMQ 3.10 with twenty queues moves to Artemis, while producers and
consumers of many versions go on: by the commands of the command line alone."""

from __future__ import annotations

import concurrent.futures
import contextlib
import json
import signal
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.interop import brokers, servers
from tests.interop.rehearsal import guide, topology
from tests.interop.rehearsal.topology import Reader, plain
from tests.interop.rehearsal.traffic import Traffic
from tests.interop.servers import Server
from tests.needs import package
from tests.net.commands import completed, running
from tests.net.running import PATIENCE, until

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

CONFIGURATION = """\
[[upstreams]]
name = "old"
addresses = ["amqp://127.0.0.1:{old}"]
version = "0-9-1"

[[upstreams]]
name = "new"
addresses = ["amqp://127.0.0.1:{new}"]
version = "1.0"

[[facades]]
upstream = "old"
successor = "new"
addresses_file = "{rules}"
"""
QUEUES = [word for queue in topology.QUEUES for word in ("--queue", queue)]
EXCHANGES = [word for exchange in topology.EXCHANGES for word in ("--exchange", exchange)]
BEFORE = (plain("pika", "orders"), plain("pika", "bills"), plain("0-9-1", "shared"))
READING = (Reader("orders", "pika"), Reader("bills", "0-8"), Reader("shared", "0-9-1"))
"""Clients of RabbitMQ, before there is a gateway."""
ATTEMPTS = 5
BACKLOG = 300
"""Messages that nobody reads before the end."""


def command(folder: Path, *words: object, status: int = 0) -> Any:
    """The output of a command, as JSON."""
    done = completed(words, servers.environment(), folder=folder)
    assert done.returncode == status, (words, done.stdout, done.stderr)
    return json.loads(done.stdout)


@contextlib.contextmanager
def observing(folder: Path, port: int) -> Iterator[int]:
    """The proxy before a broker; its port."""
    (listening,) = servers.free_ports(1)
    words = ["observe", "--listen", f"127.0.0.1:{listening}", "--seconds", "0.2"]
    words += ["--upstream", f"amqp://127.0.0.1:{port}", "--inventory", str(folder / "old.json")]
    with running(words, servers.environment()) as proxy:
        until(lambda: servers.answers(listening), "proxy")
        yield listening
        proxy.process.send_signal(signal.SIGINT)
        proxy.process.wait(PATIENCE)


def observe(folder: Path, old: Server) -> None:
    """The old clients work by way of the proxy, and the inventory knows what they use."""
    with observing(folder, old.port) as port:
        topology.declare(port)
        with Traffic(port, None, BEFORE, READING) as traffic:
            traffic.goes_on(10)
            traffic.drain()
        assert not traffic.faults()
    told = command(
        folder, "inventory", "report", "old.json", "--target", "artemis", "--format", "json",
    )  # fmt: skip
    queues = {one["name"] for one in told["nodes"] if one["kind"] == "queue"}
    assert queues == set(topology.QUEUES)


def plan(folder: Path, old: Server, *inventories: str) -> Path:
    """The configuration of Artemis, from RabbitMQ's definitions and the rules."""
    url = f"http://127.0.0.1:{old.http_port}/api/definitions"
    answer = httpx.get(url, auth=("guest", "guest"), timeout=PATIENCE)
    (folder / "definitions.json").write_bytes(answer.raise_for_status().content)
    (folder / "rules.toml").write_text(guide.file("rules.toml"))
    for seen in ("definitions.json", *inventories):
        command(
            folder, "bridge", "addresses", "--rules", "rules.toml", "--against", seen,
            "--vhost", "/", "--json",
        )  # fmt: skip
    command(
        folder, "bridge", "plan", "--from", "definitions.json", "--target", "artemis",
        "--rules", "rules.toml", "--output", "broker.xml", "--json",
    )  # fmt: skip
    return folder / "broker.xml"


@pytest.fixture
def parts(tmp_path: Path) -> Iterator[tuple[Server, Path]]:
    """RabbitMQ with what it needs for a rehearsal, and a folder."""
    package("pika", "pika")
    package("python-qpid-proton", "proton")
    for reason in (servers.rabbitmq_missing(), brokers.artemis_missing()):
        if reason:
            pytest.skip(reason)
    old = servers.start_rabbitmq(tmp_path / "rabbitmq", plugins=["rabbitmq_management"])
    try:
        yield old, tmp_path
    finally:
        old.stop()


class Rehearsal:
    """Changes of mode by the command line, while clients work."""

    def __init__(self, folder: Path, front: Server, traffic: Traffic) -> None:
        self.folder = folder
        self.traffic = traffic
        self.gateway = ("--gateway", f"http://127.0.0.1:{front.http_port}", "--password", "guest")

    def change(self, *words: str) -> None:
        """All queues and exchanges together; then clients of each still publish and consume."""
        told = command(self.folder, *self.words(*words))["modes"]
        assert len(told) == len(topology.QUEUES) + len(topology.EXCHANGES)
        assert not [one for one in told if one["error"]]
        self.traffic.goes_on()

    def words(self, *words: str) -> list[str]:
        return ["bridge", *words, *QUEUES, *EXCHANGES, *self.gateway, "--json"]

    @contextlib.contextmanager
    def during(self, *words: str) -> Iterator[None]:
        """A change while something fails: it succeeds, or says why it has not, and does so when it
        is repeated."""
        with concurrent.futures.ThreadPoolExecutor(1) as one:
            change = one.submit(self._attempt, words)
            yield
            failed = change.result()
        for _ in range(ATTEMPTS):
            if not failed:
                break
            failed = self._attempt(words)
        assert not failed
        self.traffic.goes_on()

    def _attempt(self, words: Sequence[str]) -> list[str]:
        """The errors of a change."""
        done = completed(self.words(*words), servers.environment())
        failed = [one["error"] for one in json.loads(done.stdout)["modes"] if one["error"]]
        assert done.returncode == (1 if failed else 0), (done.stdout, done.stderr)
        return failed

    def modes(self) -> dict[str, dict[str, Any]]:
        told = command(self.folder, "bridge", "modes", *self.gateway, "--json")["modes"]
        return {one["name"]: one for one in told}


def compared(modes: dict[str, dict[str, Any]]) -> bool:
    """Whether copies of all queues of the default exchange were equal to their messages."""
    used = [modes[one.places[0][1]] for one in topology.FLOWS if not one.places[0][0]]
    different = {one["name"]: one["differences"] for one in used if one["differences"]}
    assert different.keys() <= {"jobs"}, different  # Artemis writes when its messages expire
    return all(one["compared"] for one in used)


def behind(old: Server, new: Server, folder: Path) -> Server:
    """The gateway before both brokers."""
    settings, rules = folder / "gateway.toml", folder / "rules.toml"
    settings.write_text(CONFIGURATION.format(old=old.port, new=new.port, rules=rules))
    return servers.start_gateway(folder / "gateway", extra=["--config", str(settings)])


def test_rehearsal(parts: tuple[Server, Path]) -> None:
    """Observe, shadow, mirror, cut-over, rollback, cut-over: nothing is lost, nothing comes twice,
    each producer's messages come in order, and no client loses its connection."""
    old, folder = parts
    with contextlib.ExitStack() as stack:
        observe(folder, old)
        file = plan(folder, old, "old.json")
        new = brokers.start_artemis(folder / "artemis", file)
        stack.callback(new.stop)
        front = behind(old, new, folder)
        stack.callback(front.stop)
        with Traffic(front.port, front.http_port) as traffic:
            traffic.publish("waiting", BACKLOG)
            traffic.goes_on()
            rehearsal = Rehearsal(folder, front, traffic)
            rehearsal.change("mode", "shadow")
            until(lambda: compared(rehearsal.modes()), "comparisons")
            rehearsal.change("mode", "mirror")
            rehearsal.change("cutover")
            rehearsal.change("cutback")
            rehearsal.change("cutover")
            told = rehearsal.modes()
            assert told["waiting"]["moved"] == 3 * BACKLOG
            rehearsal.change("mode", "new-only")
            old.stop()
            traffic.read("waiting")
            traffic.goes_on()
            traffic.drain()
        assert not traffic.faults()
        assert not any(one.unconfirmed for one in traffic.producers)
        assert traffic.book.repeated() == 0  # no connection was lost
        assert "Traceback" not in front.log.read_text()


@pytest.mark.long
def test_the_new_broker_is_killed_in_a_change(parts: tuple[Server, Path]) -> None:
    """In the middle of the cut-over, and of the way back: clients stay connected, and nothing is
    lost. Messages under way may come twice."""
    old, folder = parts
    topology.declare(old.port)
    file = plan(folder, old)
    with contextlib.ExitStack() as stack:
        new = [brokers.start_artemis(folder / "artemis", file)]
        stack.callback(lambda: new[0].stop())
        front = behind(old, new[0], folder)
        stack.callback(front.stop)
        with Traffic(front.port, front.http_port) as traffic:
            traffic.publish("waiting", BACKLOG)
            rehearsal = Rehearsal(folder, front, traffic)
            rehearsal.change("mode", "mirror")
            for words in (("cutover",), ("cutback",)):
                before = moved(front)
                with rehearsal.during(*words):
                    until(partial(has_moved_more, front, before), "some messages are moved")
                    new[0].kill()
                    until(lambda: not servers.answers(new[0].port), "it has gone")
                    new[0] = brokers.start_artemis(folder / "artemis", file, new[0].port)
            traffic.read("waiting")
            traffic.goes_on()
            traffic.drain()
        assert not traffic.book.failures
        assert not traffic.book.missing()
        assert "Traceback" not in front.log.read_text()


def moved(front: Server) -> int:
    """Messages that changes of mode have brought to another broker."""
    url = f"http://127.0.0.1:{front.http_port}/v1/admin/facades/%2F/modes"
    answer = httpx.get(url, auth=("guest", "guest"), timeout=PATIENCE)
    return sum(one["moved"] for one in answer.raise_for_status().json()["modes"])


def has_moved_more(front: Server, before: int) -> bool:
    return moved(front) > before

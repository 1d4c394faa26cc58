"""Two gateways before one broker and behind one balancer, as the profile ``cluster`` of
docker-compose.yml starts them: the same arguments, definitions and balancer configuration."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pika
import pytest

from tests.interop.servers import HOST, ROOT, answers, free_ports
from tests.net.running import PATIENCE, Running, until

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

CLUSTER = ROOT / "examples" / "cluster"
USER = ("app", "app")


class Cluster:
    """Everything, with the ports of the balancer."""

    def __init__(self, folder: Path) -> None:
        self.broker = Running(folder / "broker", definitions=DEFINITIONS)
        url = f"amqp://app:app@{HOST}:{self.broker.port}/"
        facade = ("--volatile", "--upstream", url)
        self.gateways = [
            Running(folder / name, *facade, definitions=DEFINITIONS) for name in ("one", "two")
        ]
        self.amqp, self.http = free_ports(2)
        one, two = self.gateways
        places = {
            "BIND_AMQP": f"{HOST}:{self.amqp}",
            "BIND_HTTP": f"{HOST}:{self.http}",
            "GATEWAY_1": HOST,
            "GATEWAY_2": HOST,
            "AMQP_1": str(one.port),
            "AMQP_2": str(two.port),
            "HTTP_1": str(one.http_port),
            "HTTP_2": str(two.http_port),
        }
        self.balancer = subprocess.Popen(
            ["haproxy", "-db", "-f", str(CLUSTER / "haproxy.cfg")],
            env={**os.environ, **places},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            until(lambda: answers(self.amqp) and answers(self.http), "balancer")
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self.balancer.kill()
        self.balancer.wait()
        for one in (*self.gateways, self.broker):
            if one.process.poll() is None:
                one.stop()


DEFINITIONS = CLUSTER / "definitions.json"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    if shutil.which("haproxy") is None:
        pytest.skip("haproxy is not installed; run tests/interop/install-peers")
    found = Cluster(tmp_path_factory.mktemp("cluster"))
    try:
        yield found
    finally:
        found.close()


def connected(port: int) -> Any:
    """A connection by way of the balancer; again while it still sends us to a gateway that died."""
    until_time = time.monotonic() + PATIENCE
    while True:
        try:
            credentials = pika.PlainCredentials(*USER)
            return pika.BlockingConnection(
                pika.ConnectionParameters(HOST, port, credentials=credentials)
            )
        except pika.exceptions.AMQPError:
            if time.monotonic() > until_time:
                raise
            time.sleep(0.1)


class Publisher(threading.Thread):
    """Publishes numbers with confirms until it is stopped; after a loss it connects again, and
    publishes the one without a confirm once more."""

    def __init__(self, port: int) -> None:
        super().__init__()
        self.port = port
        self.confirmed = 0
        self.lost = 0
        self.done = threading.Event()
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            while not self.done.is_set():
                connection = connected(self.port)
                try:
                    channel = connection.channel()
                    channel.queue_declare("numbers", durable=True)
                    channel.confirm_delivery()
                    while not self.done.is_set():
                        channel.basic_publish("", "numbers", b"%d" % self.confirmed)
                        self.confirmed += 1
                    connection.close()
                except pika.exceptions.AMQPError:
                    self.lost += 1
        except BaseException as failure:
            self.failure = failure


def further(publishers: list[Publisher], enough: list[int]) -> bool:
    return all(one.confirmed > most for one, most in zip(publishers, enough, strict=True))


def test_clients_go_on_at_the_other_gateway(cluster: Cluster) -> None:
    """One gateway is killed while its clients work: what was confirmed arrives."""
    publishers = [Publisher(cluster.amqp), Publisher(cluster.amqp)]
    for one in publishers:
        one.start()
    try:
        until(lambda: all(one.confirmed > 50 for one in publishers), "publishes")
        cluster.gateways[0].kill()
        until(lambda: sum(one.lost for one in publishers) >= 1, "loss")
        before = [one.confirmed for one in publishers]
        until(
            lambda: all(
                one.confirmed > old + 50 for one, old in zip(publishers, before, strict=True)
            ),
            "publishes at the other",
        )
    finally:
        for one in publishers:
            one.done.set()
        for one in publishers:
            one.join(PATIENCE)
    assert [one.failure for one in publishers] == [None, None]
    connection = connected(cluster.amqp)
    channel = connection.channel()
    seen: list[int] = []
    for method, _, body in channel.consume("numbers", inactivity_timeout=3):
        if method is None:
            break
        seen.append(int(body))
        channel.basic_ack(method.delivery_tag)
    connection.close()
    most = max(one.confirmed for one in publishers)
    least = min(one.confirmed for one in publishers)
    counts = [seen.count(n) for n in range(most)]
    assert all(counts[n] >= (2 if n < least else 1) for n in range(most))
    cluster.gateways[0].start()


def test_http_by_way_of_the_balancer(cluster: Cluster) -> None:
    base = f"http://{HOST}:{cluster.http}"
    for n in range(4):
        path = f"{base}/v1/%2F/queues/http/messages"
        if not n:
            made = httpx.put(f"{base}/api/queues/%2F/http", json={"durable": True}, auth=USER)
            assert made.status_code in (201, 204), made.text
        answer = httpx.post(path, content=b"x", auth=USER, timeout=PATIENCE)
        assert answer.status_code == 201, answer.text
    asked = f"http://{HOST}:{cluster.broker.http_port}/api/queues/%2F/http"
    assert httpx.get(asked, auth=USER, timeout=PATIENCE).json()["messages"] == 4


def test_compose_has_what_is_tested() -> None:
    services = (ROOT / "docker-compose.yml").read_text()
    command = re.search(r"gateway-1: &facade.*?command: \[(.*?)\]", services, re.DOTALL)
    assert command is not None
    assert '"--volatile", "--upstream", "amqp://app:app@' in command[1]
    needed = set(re.findall(r'"\$?(\w+?)"|\$(\w+)', (CLUSTER / "haproxy.cfg").read_text()))
    names = {one or other for one, other in needed if (one or other).isupper()}
    assert names, "the configuration takes its places from the environment"
    balancer = services.partition("  balancer:")[2]
    assert [name for name in names if f"      {name}: " not in balancer] == []

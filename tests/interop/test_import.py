"""Import from brokers that run, and plans that they accept: RabbitMQ, Broker-J, Artemis."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from gateway.bridge.planning.plan import make_plan
from gateway.importing import Document, read_topology
from gateway.migration_commands.group import bridge
from tests.importing.samples import DATA, imported
from tests.interop import brokers, servers

pytestmark = pytest.mark.interop

TOP = {"pattern": "", "definition": {"expires": 9000000}}
LIMITS = {"pattern": "^orders$", "definition": {"max-length": 7, "ha-mode": "all"}}


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    server = servers.start_gateway(tmp_path_factory.mktemp("gateway"))
    try:
        with client(server) as http:
            yield http
    finally:
        server.stop()


def client(server: servers.Server) -> httpx.Client:
    base = f"http://{server.host}:{server.http_port}"
    return httpx.Client(base_url=base, auth=("guest", "guest"), timeout=60, trust_env=False)


def apply(gateway: httpx.Client, result: Any) -> dict[str, Any]:
    answer = gateway.post("/v1/admin/definitions", json=result.definitions)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def test_rabbitmq_there_and_back(tmp_path: Path, gateway: httpx.Client) -> None:
    """Its definitions with policies are in force here; and what is planned for it from another
    broker's file is accepted by it."""
    if reason := servers.rabbitmq_missing():
        pytest.skip(reason)
    theirs = servers.start_rabbitmq(tmp_path / "rabbitmq", plugins=["rabbitmq_management"])
    try:
        with client(theirs) as rabbit:
            for path, body in (
                ("vhosts/moved", {}),
                ("queues/moved/orders", {"durable": True, "arguments": {"x-max-length": 9}}),
                ("exchanges/moved/shop", {"type": "topic", "durable": True}),
                ("policies/moved/limits", LIMITS),
                (
                    "operator-policies/moved/top",
                    {"pattern": "", "definition": {"expires": 9000000}},
                ),
            ):
                rabbit.put(f"/api/{path}", json=body).raise_for_status()
            bound = {"routing_key": "order.#"}
            rabbit.post("/api/bindings/moved/e/shop/q/orders", json=bound).raise_for_status()
            octets = rabbit.get("/api/definitions").content
            told = gateway.post("/v1/admin/import", content=octets).json()
            assert told["format"] == "rabbitmq"
            assert "ha-mode has no effect" in "\n".join(told["applied"]["not_applied"])
            queue = gateway.get("/api/queues/moved/orders").json()
            assert (queue["policy"], queue["operator_policy"]) == ("limits", "top")
            assert queue["effective_policy_definition"]["max-length"] == 7

            for file in ("artemis.xml", "broker-j-host.json", "qpid-config.txt"):
                definitions = imported(file, vhost="planned").definitions
                plan = tmp_path / "plan.json"
                plan.write_text(make_plan(definitions, "rabbitmq", None).document)
                to = ["--to", str(rabbit.base_url), "--plan", str(plan)]
                applied = CliRunner().invoke(bridge, ["apply", *to])
                assert applied.exit_code == 0, (file, applied.output)
            names = {one["name"] for one in rabbit.get("/api/queues/planned").json()}
            assert {"orders", "hello", "orders.in", "sub1"} <= names
    finally:
        theirs.stop()


def test_broker_j(tmp_path: Path, gateway: httpx.Client) -> None:
    """The files that it keeps, with queues that a client has declared."""
    if reason := brokers.broker_j_missing():
        pytest.skip(reason)
    pika = pytest.importorskip("pika")
    rules = tmp_path / "rules.txt"
    rules.write_text((DATA / "broker-j-acl.txt").read_text())

    def change(initial: Any) -> None:
        node = initial["virtualhostnodes"][0]
        host = json.loads(node["virtualHostInitialConfiguration"])
        recorded = json.loads((DATA / "broker-j-host.json").read_text())
        for kind in ("queues", "exchanges"):
            host[kind] = [
                {
                    key: one[key]
                    for key in one
                    if key not in ("id", "createdTime", "lastUpdatedTime")
                }
                for one in recorded[kind]
            ]
        node["virtualHostInitialConfiguration"] = json.dumps(host)
        initial["accesscontrolproviders"] = [
            {"name": "acl", "type": "AclFile", "path": str(rules), "priority": 1}
        ]

    folder = tmp_path / "broker-j"
    server = brokers.start_broker_j(folder, change, "JSON")
    try:
        where = pika.ConnectionParameters(server.host, server.port)
        with pika.BlockingConnection(where) as wire:
            channel = wire.channel()
            channel.exchange_declare("declared.x", "fanout", durable=True)
            arguments = {"x-qpid-maximum-message-count": 5}
            channel.queue_declare("declared.q", durable=True, arguments=arguments)
            channel.queue_bind("declared.q", "declared.x", "k")
    finally:
        server.stop()
    files = (folder / "config.json", rules, folder / "hosts" / "default.json")
    result = read_topology([Document(one.name, one.read_bytes()) for one in files])
    assert result.format == "broker-j"
    assert not [one for one in result.findings if one.severity == "error"]
    told = apply(gateway, result)
    assert told["not_applied"] == ["user 'guest' stays an administrator: there is no other"]
    queues = {one["name"]: one for one in gateway.get("/api/queues/default").json()}
    recorded = {one["name"] for one in imported("broker-j-host.json").definitions["queues"]}
    assert recorded | {"declared.q"} <= set(queues)
    assert queues["orders"]["arguments"]["x-max-length"] == 100
    path = "/api/bindings/default/e/declared.x/q/declared.q"
    assert [one["routing_key"] for one in gateway.get(path).json()] == ["k"]


TOPOLOGY = {
    "queues": [
        {"name": "orders", "vhost": "/", "durable": True, "auto_delete": False,
         "arguments": {"x-max-length": 2, "x-overflow": "reject-publish"}},
        {"name": "all", "vhost": "/", "durable": True, "auto_delete": False, "arguments": {}},
    ],
    "exchanges": [{"name": "shop", "vhost": "/", "type": "topic", "durable": True,
                   "arguments": {}}],
    "bindings": [
        {"source": "shop", "vhost": "/", "destination": "orders", "destination_type": "queue",
         "routing_key": "order.new", "arguments": {"x-selector": "kind = 'good'"}},
        {"source": "shop", "vhost": "/", "destination": "all", "destination_type": "queue",
         "routing_key": "order.new", "arguments": {}},
    ],
}  # fmt: skip


def test_artemis_starts_with_a_plan(tmp_path: Path, gateway: httpx.Client) -> None:
    """Its diverts lead messages where the bindings led them; and it is imported again."""
    if reason := brokers.artemis_missing():
        pytest.skip(reason)
    proton = pytest.importorskip("proton")
    utils = pytest.importorskip("proton.utils")
    made = make_plan(TOPOLOGY, "artemis", None)
    assert made.good
    file = tmp_path / "broker.xml"
    file.write_text(made.document)
    server = brokers.start_artemis(tmp_path / "artemis", file)
    try:
        url = f"amqp://guest:guest@{server.host}:{server.port}"
        wire = utils.BlockingConnection(url, timeout=60, allowed_mechs="PLAIN")
        sender = wire.create_sender("shop.order.new")
        for body, kind in (("a", "good"), ("b", "bad"), ("c", "good")):
            sender.send(proton.Message(body=body, properties={"kind": kind}, durable=True))
        for queue, bodies in (("orders", ["a", "c"]), ("all", ["a", "b", "c"])):
            receiver = wire.create_receiver(queue)
            got = []
            for _ in bodies:
                got.append(receiver.receive(timeout=60).body)
                receiver.accept()
            assert got == bodies
        wire.close()
    finally:
        server.stop()
    answer = gateway.post("/v1/admin/import?vhost=back", content=made.document)
    told = answer.json()
    assert answer.status_code == 200, told
    assert told["applied"]["not_applied"] == []
    names = {one["name"] for one in gateway.get("/api/queues/back").json()}
    assert names == {"orders", "all"}
    orders = gateway.get("/api/queues/back/orders").json()
    assert orders["effective_policy_definition"] == {"max-length": 2, "overflow": "reject-publish"}

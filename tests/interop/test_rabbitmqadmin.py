"""RabbitMQ's own command line for its management paths, `rabbitmqadmin`, against the gateway."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.interop.servers import HOST, INSTALL
from tests.net.running import Running

pytestmark = pytest.mark.interop

SCRIPT = shutil.which("rabbitmqadmin")


class Tool:
    """The script, pointed at one gateway."""

    def __init__(self, port: int) -> None:
        where = ["-H", HOST, "-P", str(port), "-u", "guest", "-p", "guest"]
        self.command = [sys.executable, str(SCRIPT), *where]

    def run(self, *given: str, text: str | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*self.command, *given], input=text, capture_output=True, text=True, timeout=60
        )

    def says(self, wanted: str, *given: str, text: str | None = None) -> None:
        done = self.run(*given, text=text)
        assert done.returncode == 0, done.stdout + done.stderr
        assert wanted in done.stdout, done.stdout

    def lists(self, what: str, *columns: str, vhost: str = "/") -> list[dict[str, Any]]:
        options = [] if vhost == "/" else ["-V", vhost]
        done = self.run(*options, "-f", "raw_json", "list", what, *columns)
        assert done.returncode == 0, done.stdout + done.stderr
        found: list[dict[str, Any]] = json.loads(done.stdout)
        return found


@pytest.fixture(scope="module")
def tool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tool]:
    if SCRIPT is None:
        pytest.skip(f"rabbitmqadmin is not installed; {INSTALL} (apt-get install rabbitmq-server)")
    with Running(tmp_path_factory.mktemp("gateway"), admin__port=0) as gateway:
        yield Tool(gateway._port(r"administration on http://\S+:(\d+)/"))


def test_declare_list_and_delete(tool: Tool) -> None:
    tool.says("3.10", "show", "overview")
    tool.says("vhost declared", "declare", "vhost", "name=staging")
    tool.says("queue declared", "declare", "queue", "name=orders", 'arguments={"x-max-length":9}')
    (queue,) = tool.lists("queues")
    assert (queue["name"], queue["durable"], queue["state"]) == ("orders", True, "running")
    again = tool.run("declare", "queue", "name=orders", "durable=false")
    assert again.returncode == 1 and "inequivalent arg 'durable'" in again.stderr
    tool.says("exchange declared", "declare", "exchange", "name=shop", "type=topic")
    bound = ("source=shop", "destination=orders")
    tool.says("binding declared", "declare", "binding", *bound, "routing_key=order.#")
    keys = [one["properties_key"] for one in tool.lists("bindings") if one["source"] == "shop"]
    assert keys == ["order.%23"]
    user = ("name=ann", "password=secret", "tags=monitoring")
    tool.says("user declared", "declare", "user", *user)
    rights = ("vhost=/", "user=ann", "configure=.*", "write=.*", "read=.*")
    tool.says("permission declared", "declare", "permission", *rights)
    assert {one["name"] for one in tool.lists("users")} == {"ann", "guest"}
    assert "ann" in {one["user"] for one in tool.lists("permissions")}
    assert {one["name"] for one in tool.lists("vhosts")} == {"/", "staging"}
    assert len(tool.lists("nodes")) == 1
    for none in ("connections", "consumers", "policies", "operator_policies", "parameters",
                 "vhost_limits"):  # fmt: skip
        assert tool.lists(none) == [], none
    unbind = (*bound, "destination_type=queue", f"properties_key={keys[0]}")
    tool.says("binding deleted", "delete", "binding", *unbind)
    tool.says("permission deleted", "delete", "permission", "vhost=/", "user=ann")
    for kind, name in (("queue", "orders"), ("exchange", "shop"), ("user", "ann"),
                       ("vhost", "staging")):  # fmt: skip
        tool.says(f"{kind} deleted", "delete", kind, f"name={name}")
        gone = tool.run("delete", kind, f"name={name}")
        assert gone.returncode == 1 and "Not found" in gone.stderr, gone


def test_publish_get_and_purge(tool: Tool) -> None:
    tool.says("queue declared", "declare", "queue", "name=q")
    properties = 'properties={"delivery_mode":2,"content_type":"text/plain","headers":{"a":1}}'
    to = ("exchange=amq.default", "routing_key=q")
    tool.says("Message published", "publish", *to, "payload=first", properties)
    tool.says("Message published", "publish", *to, text="from stdin")
    nowhere = ("exchange=amq.default", "routing_key=nowhere", "payload=x")
    tool.says("NOT routed", "publish", *nowhere)
    got = json.loads(tool.run("-f", "raw_json", "get", "queue=q", "count=5").stdout)
    assert [one["payload"] for one in got] == ["first", "from stdin"]
    assert got[0]["properties"]["headers"] == {"a": 1}
    taken = tool.run("-f", "raw_json", "get", "queue=q", "ackmode=ack_requeue_false")
    assert json.loads(taken.stdout)[0]["redelivered"] is True
    tool.says("queue purged", "purge", "queue", "name=q")
    assert [one["messages"] for one in tool.lists("queues")] == [0]
    tool.says("queue deleted", "delete", "queue", "name=q")


def test_export_and_import(tool: Tool, tmp_path: Path) -> None:
    tool.says("queue declared", "declare", "queue", "name=kept", 'arguments={"x-max-length":7}')
    bound = ("source=amq.topic", "destination=kept", "routing_key=k.*")
    tool.says("binding declared", "declare", "binding", *bound)
    file = tmp_path / "definitions.json"
    tool.says("Exported", "export", str(file))
    assert [one["name"] for one in json.loads(file.read_text())["queues"]] == ["kept"]
    tool.says("queue deleted", "delete", "queue", "name=kept")
    tool.says("Uploaded", "import", str(file))
    (queue,) = tool.lists("queues")
    assert queue["arguments"] == {"x-max-length": 7}
    assert "k.*" in {one["routing_key"] for one in tool.lists("bindings")}
    tool.says("queue deleted", "delete", "queue", "name=kept")


def test_refusals(tool: Tool) -> None:
    """Said in words, and with a status of failure: never a traceback of the script."""
    refusals = [
        (("get", "queue=nothing"), "Not found"),
        (("close", "connection", "name=nobody"), "Not found"),
        (("declare", "policy", "name=p", "pattern=x", 'definition={"none":1}'), "settings"),
        (("-V", "nowhere", "list", "queues"), "Not found"),
    ]
    for given, wanted in refusals:
        done = tool.run(*given)
        assert done.returncode == 1 and wanted in done.stderr, done
        assert "Traceback" not in done.stderr
    wrong = subprocess.run(
        [*tool.command[:-1], "wrong", "list", "queues"], capture_output=True, text=True, timeout=60
    )
    assert wrong.returncode == 1 and "Access refused" in wrong.stderr


@pytest.mark.parametrize("kind", ["policy", "operator_policy"])
def test_policies(tool: Tool, kind: str) -> None:
    many = "policies" if kind == "policy" else "operator_policies"
    tool.says("queue declared", "declare", "queue", f"name=of-{kind}")
    given = ("name=limits", f"pattern=^of-{kind}$", 'definition={"max-length":9}', "priority=2")
    tool.says("policy declared", "declare", kind, *given, "apply-to=queues")
    (listed,) = tool.lists(many)
    assert listed == {
        "vhost": "/", "name": "limits", "pattern": f"^of-{kind}$", "apply-to": "queues",
        "definition": {"max-length": 9}, "priority": 2,
    }  # fmt: skip
    (queue,) = (one for one in tool.lists("queues") if one["name"] == f"of-{kind}")
    assert queue[kind] == "limits"
    assert queue["effective_policy_definition"] == {"max-length": 9}
    tool.says("policy deleted", "delete", kind, "name=limits")
    assert tool.lists(many) == []

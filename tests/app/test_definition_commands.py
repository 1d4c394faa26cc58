"""The commands ``definitions export``, ``import`` and ``diff``."""

import json
from pathlib import Path
from typing import Any

import pytest

from gateway.definition_differences import Difference, differences
from gateway.definitions import Definitions
from tests.app.test_cli import refused, run
from tests.net.running import Running

SHOP: dict[str, Any] = {
    "vhosts": [{"name": "/"}, {"name": "shop"}],
    "users": [{"name": "app", "password": "secret", "tags": "monitoring"}],
    "permissions": [
        {"user": "app", "vhost": "shop", "configure": "", "write": ".*", "read": "^orders$"}
    ],
    "policies": [
        {"vhost": "shop", "name": "limits", "pattern": "^orders", "priority": 1,
         "definition": {"max-length": 5}, "apply-to": "queues"},
    ],
    "exchanges": [{"vhost": "shop", "name": "events", "type": "topic"}],
    "queues": [
        {"vhost": "shop", "name": "orders", "arguments": {"x-max-length": 9}},
        {"vhost": "shop", "name": "returns"},
    ],
    "bindings": [
        {"vhost": "shop", "source": "events", "destination": "orders", "routing_key": "order.#"},
        {"vhost": "shop", "source": "events", "destination": "returns", "routing_key": "back.#"},
    ],
}  # fmt: skip


def between(first: dict[str, Any], second: dict[str, Any]) -> list[Difference]:
    return list(differences(Definitions(**first), Definitions(**second)))


def test_order_and_defaults_are_no_difference() -> None:
    other = json.loads(json.dumps(SHOP))
    for each in other.values():
        each.reverse()
    other["queues"][0] |= {"durable": True, "auto_delete": False, "arguments": {}}
    other["users"][0] = {"name": "app", "tags": ["monitoring"], "password_hash": "x"}
    assert between(SHOP, other) == []
    assert between({"queues": [{"name": "q"}]}, {"queues": [{"vhost": "/", "name": "q"}]}) == []


@pytest.mark.parametrize("kind", SHOP)
def test_each_kind_is_compared(kind: str) -> None:
    less = SHOP | {kind: SHOP[kind][1:]}
    (one,) = between(SHOP, less)
    assert (one.sign, one.kind) == ("+", kind)
    (one,) = between(less, SHOP)
    assert (one.sign, one.kind) == ("-", kind)


def test_members_that_are_unlike() -> None:
    other = SHOP | {"queues": [SHOP["queues"][0] | {"durable": False}, SHOP["queues"][1]]}
    assert between(SHOP, other) == [
        Difference("~", "queues", "orders in shop", {"durable": True}, {"durable": False})
    ]


def test_a_topology_goes_to_another_gateway(tmp_path: Path) -> None:
    file, copy = tmp_path / "shop.json", tmp_path / "copy.json"
    file.write_text(json.dumps(SHOP))
    with Running(tmp_path / "one") as one, Running(tmp_path / "other") as other:
        first, second = (
            ("--url", f"http://127.0.0.1:{each.http_port}", "--password", "guest")
            for each in (one, other)
        )
        done = run("definitions", "import", file, *first)
        assert done.returncode == 0, done
        # The user guest is here, and not in the file.
        done = run("definitions", "diff", file, *first)
        assert done.returncode == 1
        lines = done.stdout.splitlines()
        assert lines and all(line.startswith("- ") for line in lines), lines
        assert "- users: guest" in lines
        assert run("definitions", "export", "--output", copy, *first).returncode == 0
        assert copy.stat().st_mode & 0o77 == 0
        done = run("definitions", "diff", copy, *first)
        assert (done.returncode, done.stdout) == (0, "no difference\n")
        assert run("definitions", "import", copy, *second).returncode == 0
        done = run("definitions", "diff", copy, *second, "--json")
        assert (done.returncode, json.loads(done.stdout)) == (0, [])
        again = json.loads(run("definitions", "export", *second).stdout)
        assert again == json.loads(copy.read_text())
        shown = json.loads(run("definitions", "export", "--no-users", *second).stdout)
        assert "users" not in shown and shown["queues"]

        changed = SHOP | {"queues": [{"vhost": "shop", "name": "orders"}]}
        file.write_text(json.dumps(changed))
        done = run("definitions", "import", file, *first)
        assert done.returncode == 1 and "not applied: queue 'orders'" in done.stdout
        done = run("definitions", "diff", file, *first)
        assert "~ queues: orders in shop" in done.stdout
        assert '- {"arguments": {"x-max-length": 9}}' in done.stdout
        done = run("definitions", "diff", file, copy)
        assert done.returncode == 1 and "- queues: returns in shop" in done.stdout
        assert one.stop() == 0 and other.stop() == 0


def test_mistakes(tmp_path: Path) -> None:
    refused(run("definitions", "diff", tmp_path / "none.json"), "No such file")
    (tmp_path / "odd.json").write_text("{")
    refused(run("definitions", "diff", tmp_path / "odd.json"), "odd.json")
    gone = ("--url", "http://127.0.0.1:1", "--password", "x")
    refused(run("definitions", "export", *gone), "http://127.0.0.1:1", "--url")

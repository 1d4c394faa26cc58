"""The blocks of docs/facade.md: both ways to start a facade, before a gateway as its upstream."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.examples.not_run import check_listed
from tests.examples.reader import guide
from tests.examples.test_shown_commands import FENCED
from tests.interop.servers import HOST, free_ports
from tests.net.running import PATIENCE, Running

SHOWN = FENCED.findall(guide("facade"))
USERS = {"user": "password", "gateway": "of-the-gateway"}
"""Those of the page at the upstream, and their passwords."""


@pytest.fixture(scope="module")
def upstream(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with Running(tmp_path_factory.mktemp("upstream")) as running:
        with httpx.Client(
            base_url=f"http://{HOST}:{running.http_port}/api", auth=("guest", "guest")
        ) as client:
            client.put("/vhosts/shop").raise_for_status()
            for user, password in USERS.items():
                body = {"password": password, "tags": ""}
                client.put(f"/users/{user}", json=body).raise_for_status()
                for vhost in ("shop", "%2F"):
                    rights = {"configure": ".*", "write": ".*", "read": ".*"}
                    path = f"/permissions/{vhost}/{user}"
                    client.put(path, json=rights).raise_for_status()
        yield running


def goes_through(front: Running, upstream: Running, vhost: str, queue: str) -> None:
    """A queue that is declared at the facade is the upstream's, and so is what is published."""
    where = f"http://{HOST}:{front.http_port}"
    with httpx.Client(base_url=where, auth=("guest", "guest"), timeout=PATIENCE) as client:
        client.put(f"/api/queues/%2F/{queue}", json={"durable": True}).raise_for_status()
        sent = client.post(f"/v1/%2F/queues/{queue}/messages", content=b"one")
        assert sent.status_code == 201, sent.text
        (found,) = (one for one in upstream.asked(f"/api/queues/{vhost}") if one["name"] == queue)
        assert found["messages"] == 1
        got = client.post(
            f"/api/queues/%2F/{queue}/get",
            json={"count": 1, "ackmode": "ack_requeue_false", "encoding": "auto"},
        )
        assert [one["payload"] for one in got.json()] == ["one"]
        told = client.get("/v1/capabilities", params={"wait": 30}).json()
        assert len(told["upstreams"]) == 1, told


def test_all_blocks_are_here() -> None:
    check_listed("facade")
    assert [language for language, _ in SHOWN] == ["", "toml"]


def test_the_command(upstream: Running, tmp_path: Path) -> None:
    program, command, *options = shlex.split(SHOWN[0][1])
    assert (program, command) == ("amqp-gateway", "serve")
    given = [one.replace("rabbit.example:5672", f"{HOST}:{upstream.port}") for one in options]
    assert given != options
    with Running(tmp_path, *given) as front:
        goes_through(front, upstream, "shop", "by-command")


def test_the_configuration(upstream: Running, tmp_path: Path) -> None:
    """Of its two addresses nobody listens at the first."""
    secret = tmp_path / "secret"
    secret.write_text(USERS["gateway"])
    (nobody,) = free_ports(1)
    places = {
        "amqp://rabbit1:5672": f"amqp://{HOST}:{nobody}",
        "amqp://rabbit2:5672": f"amqp://{HOST}:{upstream.port}",
        "/run/secrets/rabbit": str(secret),
    }
    text = SHOWN[1][1]
    assert [one for one in places if one not in text] == []
    file = tmp_path / "gateway.toml"
    file.write_text(re.sub("|".join(map(re.escape, places)), lambda one: places[one[0]], text))
    with Running(tmp_path, "--config", file) as front:
        goes_through(front, upstream, "%2F", "by-file")

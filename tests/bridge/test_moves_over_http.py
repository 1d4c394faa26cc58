"""Moves in a running gateway, by REST and by the commands that ask it."""

import asyncio
import json
import time
from pathlib import Path
from socket import socket
from typing import Any

import httpx
import pytest

from gateway.bridge.migration.identity import AGAIN, notes_of
from gateway.message import Properties
from gateway.operations import DeclareQueue, Fetch, Outcome, Publish, Settle
from tests import in_memory
from tests.bridge.moving import declare, empty, entered, publish, with_properties
from tests.bridge.relay import Relay
from tests.bridge.test_move import everything
from tests.net.commands import completed
from tests.net.running import PATIENCE, Running, environment, until

UPSTREAM = """
[[upstreams]]
name = "old"
addresses = ["amqp://127.0.0.1:{port}"]
version = "{version}"
"""


def configuration(folder: Path, old: Running, version: str) -> Path:
    file = folder / "gateway.toml"
    file.write_text(UPSTREAM.format(port=old.port, version=version))
    return file


def ask(
    running: Running, method: str, path: str, body: Any = None, noun: str = "moves"
) -> httpx.Response:
    url = f"http://127.0.0.1:{running.http_port}/v1/admin/{noun}{path}"
    return httpx.request(method, url, json=body, auth=("guest", "guest"), timeout=PATIENCE)


def told(running: Running, name: str) -> dict[str, Any]:
    found: dict[str, Any] = ask(running, "GET", f"/{name}").raise_for_status().json()
    return found


def ended(running: Running, name: str) -> dict[str, Any]:
    until(lambda: told(running, name)["state"] not in ("running", "paused"), "the move has ended")
    return told(running, name)


@pytest.mark.parametrize("version", ["0-9-1", "1.0"])
def test_a_killed_gateway_goes_on(old: Running, tmp_path: Path, version: str) -> None:
    """Into the core and back to the upstream, with a kill of the gateway in either."""
    count = 1500
    name = f"rest.{version}"
    with Running(tmp_path, "--config", configuration(tmp_path, old, version)) as new:
        declare(old, name)
        declare(new, name)
        publish(old.port, name, range(count))
        wanted = {"name": "in", "source": "old", "queues": [{"source": name}], "rate": 1000}
        assert ask(new, "POST", "", wanted | {"batch": 50}).status_code == 201
        until(lambda: told(new, "in")["moved"] > 100, "it moves")
        new.kill()
        new.start()
        assert ended(new, "in")["moved"] == count
        assert empty(old, name)
        back = ask(new, "POST", "/in/rollback", {}).json()
        assert back["reverses"] == "in"
        until(lambda: told(new, back["name"])["moved"] > 100, "it moves")
        new.kill()
        new.start()
        found = ended(new, back["name"])
        assert (found["state"], found["moved"] >= count) == ("done", True)
        assert empty(new, name)
        depth = old.asked(f"/api/queues/%2F/{name}")["messages"]
        messages = [one.message for one in everything(old.port, name, depth)]
        once = [one for one in messages if AGAIN not in notes_of(one)]
        bodies = list(dict.fromkeys(in_memory.text(one) for one in messages))
        assert bodies == [f"body {n}" for n in range(count)]
        assert len({in_memory.text(one) for one in once}) == len(once)


@pytest.mark.parametrize("version", ["0-9-1", "1.0"])
def test_what_was_under_way_comes_late(old: Running, tmp_path: Path, version: str) -> None:
    """The source has not noticed that the killed gateway is gone, and delivers other messages to
    the next one first: what comes then for the second time has the flag."""
    count = 1500
    name = f"late.{version}"
    with Relay(old.port) as relay:
        file = tmp_path / "gateway.toml"
        file.write_text(UPSTREAM.format(port=relay.port, version=version))
        with Running(tmp_path, "--config", file) as new:
            declare(old, name)
            declare(new, name)
            publish(old.port, name, range(count))
            begin(new, name, wait_seconds=0)
            held = lose(new, relay)
            before = told(new, "in")["moved"]
            others = min(before + 300, count - 300)  # there may be no more, on a slow machine
            until(lambda: told(new, "in")["moved"] > others, "it goes on")
            relay.hushed = False
            relay.cut(held)
            found = ended(new, "in")
            assert (found["state"], found["flagged"] > 0) == ("done", True)
            assert found["moved"] == count
            # On their way back they keep it.
            depth = new.asked(f"/api/queues/%2F/{name}")["messages"]
            back = ask(new, "POST", "/in/rollback", {}).json()["name"]
            assert ended(new, back)["moved"] == depth
            # What the killed gateway had not written yet comes once, and may have the flag.
            assert count < depth <= count + found["flagged"]
            messages = [one.message for one in everything(old.port, name, depth)]
            assert {in_memory.text(one) for one in messages} == {f"body {n}" for n in range(count)}
            once = [in_memory.text(one) for one in messages if AGAIN not in notes_of(one)]
            assert len(set(once)) == len(once)


def begin(new: Running, name: str, **more: Any) -> None:
    """Begin the move ``in`` of a queue, and wait until it moves."""
    wanted = {"name": "in", "source": "old", "queues": [{"source": name}], "rate": 500}
    assert ask(new, "POST", "", wanted | {"batch": 50} | more).status_code == 201
    until(lambda: told(new, "in")["moved"] > 100, "it moves")


def lose(new: Running, relay: Relay) -> list[socket]:
    """Kill the gateway without a word to the source, and start it again; the ends of the
    connections that the source still has."""
    relay.hushed = True
    new.kill()
    held = relay.ends()
    new.start()
    return held


@pytest.mark.parametrize("version", ["0-8", "0-9-1", "0-10", "1.0"])
def test_what_was_under_way_is_not_overtaken(old: Running, tmp_path: Path, version: str) -> None:
    """Though the source has not noticed that the killed gateway is gone."""
    count = 1000
    name = f"overtaken.{version}"
    with Relay(old.port) as relay:
        file = tmp_path / "gateway.toml"
        file.write_text(UPSTREAM.format(port=relay.port, version=version))
        with Running(tmp_path, "--config", file) as new:
            declare(old, name)
            declare(new, name)
            publish(old.port, name, range(count))
            begin(new, name, wait_seconds=PATIENCE)
            held = lose(new, relay)
            before, connections = told(new, "in")["moved"], relay.connections
            until(  # two looks at the source, or the first batch
                lambda: relay.connections > connections + 4 or told(new, "in")["moved"] > before,
                "it waits, or moves others",
            )
            relay.hushed = False
            relay.cut(held)
            assert ended(new, "in")["state"] == "done"
            depth = new.asked(f"/api/queues/%2F/{name}")["messages"]
            found = [in_memory.text(one.message) for one in everything(new.port, name, depth)]
            assert list(dict.fromkeys(found)) == [f"body {n}" for n in range(count)]


MANY = 3000
"""Messages that take a minute to move, at the rate of the next test."""


def test_pause_resume_forget(old: Running, tmp_path: Path) -> None:
    with Running(tmp_path, "--config", configuration(tmp_path, old, "0-9-1")) as new:
        declare(new, "slow")
        declare(old, "slow.there")
        publish(new.port, "slow", range(MANY))
        pair = {"source": "slow", "destination": "slow.there"}
        wanted = {"name": "out", "destination": "old", "queues": [pair], "rate": 50}
        assert ask(new, "POST", "", wanted, "move-counts").json() == {"queues": [
            {"source": "slow", "destination": "slow.there", "messages": MANY, "there": 0}
        ]}  # fmt: skip
        assert ask(new, "POST", "", wanted).json()["state"] == "running"
        assert ask(new, "POST", "", wanted).status_code == 409
        until(lambda: told(new, "out")["moved"], "it moves")
        assert ask(new, "DELETE", "/out").status_code == 409
        assert ask(new, "POST", "/out/pause").status_code == 204
        paused = told(new, "out")
        assert paused["state"] == "paused"
        moved = old.asked("/api/queues/%2F/slow.there")["messages"]
        assert moved == paused["moved"] < MANY
        assert new.asked("/api/queues/%2F/slow")["messages_ready"] == MANY - moved
        new.kill()
        new.start()
        time.sleep(0.2)
        assert told(new, "out")["moved"] == moved
        url = f"http://127.0.0.1:{new.http_port}/metrics"
        metrics = httpx.get(url, auth=("guest", "guest"), timeout=PATIENCE).text
        assert f'amqp_gateway_move_messages_moved_total{{move="out"}} {moved}.0' in metrics
        status = command(new, "status", "--json")
        assert [one["name"] for one in json.loads(status)["moves"]] == ["out"]
        command(new, "resume", "out")
        command(new, "pause", "out")
        assert told(new, "out")["state"] == "paused"
        command(new, "forget", "out")
        assert ask(new, "GET", "/out").status_code == 404


def command(running: Running, *words: str) -> str:
    gateway = ["--gateway", f"http://127.0.0.1:{running.http_port}", "--password", "guest"]
    done = completed(["bridge", *words, *gateway], environment())
    assert done.returncode == 0, (done.stdout, done.stderr)
    return done.stdout


def test_what_cannot_be_moved(old: Running, tmp_path: Path) -> None:
    with Running(tmp_path, "--config", configuration(tmp_path, old, "0-9-1")) as new:
        wanted = {"source": "nobody", "queues": [{"source": "q"}]}
        refused = ask(new, "POST", "", wanted)
        assert (refused.status_code, "nobody" in refused.json()["detail"]) == (409, True)
        assert ask(new, "POST", "", {"queues": []}).status_code == 422
        made = ask(new, "POST", "", {"source": "old", "queues": [{"source": "nowhere"}]}).json()
        found = ended(new, made["name"])
        assert (found["state"], "nowhere" in found["error"]) == ("failed", True)
    with Running(tmp_path / "memory", durable=False) as volatile:
        refused = ask(volatile, "POST", "", {"queues": [{"source": "a", "destination": "b"}]})
        assert "durable = false" in refused.json()["detail"]


def test_what_the_gateway_knows_of_a_message_is_kept(old: Running, tmp_path: Path) -> None:
    """From the core to an upstream: the rest of the time to live, priority, time, the history of
    dead letters and the number of failed deliveries."""
    with Running(tmp_path, "--config", configuration(tmp_path, old, "0-9-1")) as new:
        asyncio.run(dead_letter(new.port))
        declare(old, "kept")
        pair = {"source": "kept", "destination": "kept"}
        made = ask(new, "POST", "", {"destination": "old", "queues": [pair]}).json()
        assert ended(new, made["name"])["moved"] == 2
        found, expiring = everything(old.port, "kept", 2)
        properties = found.message.properties
        headers = properties.application or {}
        assert (properties.priority, properties.creation_time) == (7, 1_600_000_000_000)
        assert 0 < (expiring.message.properties.ttl or 0) < 600_000
        assert headers["x-death"][0]["queue"] == "dying"
        assert headers["x-first-death-reason"] == "rejected"
        assert headers["x-delivery-count"] == 1


async def dead_letter(port: int) -> None:
    """In the queue ``kept``: a message that was rejected from another and given back once, and one
    that expires."""
    onward = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "kept"}
    remote = await entered(port)
    await remote.request(DeclareQueue(1, None, "kept", durable=True))
    await remote.request(DeclareQueue(1, None, "dying", durable=True, arguments=onward))
    given = Properties(durable=True, priority=7, creation_time=1_600_000_000_000)
    remote.send(Publish(1, with_properties(given, b"body", "dying"), False, False))
    for queue, outcome in (("dying", Outcome.REJECT), ("kept", Outcome.RELEASE)):
        while (fetched := await remote.request(Fetch(1, None, queue))) is None:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        remote.send(Settle(1, fetched.delivery, False, outcome))
        await remote.request(DeclareQueue(1, None, queue, passive=True))
    expiring = Properties(durable=True, ttl=600_000)
    remote.send(Publish(1, with_properties(expiring, b"body", "kept"), False, False))
    await remote.request(DeclareQueue(1, None, "kept", passive=True))
    await remote.close()


def test_a_large_request_is_read_as_a_small_one(old: Running, tmp_path: Path) -> None:
    """It is read entry by entry; its list is required, and has a longest length."""
    with Running(tmp_path, "--config", configuration(tmp_path, old, "0-9-1")) as new:
        pair = {"source": "q" * 200, "destination": "there"}
        for count, status in ((1000, 409), (1001, 422)):
            wanted = {"destination": "old", "queues": [pair] * count}
            answer = ask(new, "POST", "", wanted, "move-counts")
            assert answer.status_code == status, answer.text
        assert answer.json()["errors"] == [
            {"pointer": "/queues", "detail": "List should have at most 1000 items"}
        ]


def test_a_move_whose_upstream_is_gone_can_be_forgotten(old: Running, tmp_path: Path) -> None:
    file = configuration(tmp_path, old, "0-9-1")
    wanted = {"name": "gone", "source": "old", "queues": [{"source": "nowhere"}]}
    with Running(tmp_path, "--config", file) as new:
        assert ask(new, "POST", "", wanted).status_code == 201
        assert ended(new, "gone")["state"] == "failed"
        new.kill()
        file.write_text(UPSTREAM.format(port=old.port, version="0-9-1").replace('"old"', '"other"'))
        new.start()
        found = told(new, "gone")
        assert (found["state"], found["source"]) == ("failed", "old")
        assert "no upstream is called 'old'" in found["error"]
        again = wanted | {"source": "other"}
        assert ask(new, "POST", "", again).status_code == 409
        assert ask(new, "POST", "/gone/resume").status_code == 204
        assert ended(new, "gone")["state"] == "failed"
        assert ask(new, "POST", "/gone/rollback", {}).status_code in (404, 409)
        assert ask(new, "DELETE", "/gone").status_code == 204
        assert ask(new, "POST", "", again).status_code == 201

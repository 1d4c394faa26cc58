"""Shovels between two gateways, which play a broker for each other, in every version."""

import asyncio
import random
import time
from pathlib import Path

import httpx
import pytest

from gateway.bridge.notes import hops_of
from gateway.config import read_settings
from gateway.errors import ConfigError
from gateway.operations import (
    Bind,
    DeclareExchange,
    Publish,
    SelectConfirms,
)
from tests import in_memory
from tests.bridge.faults import put
from tests.bridge.moving import (
    configuration,
    declare,
    empty,
    entered,
    message,
    pause,
    publish,
    resume,
    shovels,
    taken,
)
from tests.bridge.relay import Relay
from tests.net.running import PATIENCE, Running, until

VERSIONS = ("0.8a2", "0-8", "0-9", "0-9-1", "0-10", "1.0")


OUT_AND_IN = """
[[shovels]]
name = "in"
source = { upstream = "old", queue = "there" }
destination = { queue = "here" }
retry_seconds = 0.05

[[shovels]]
name = "out"
source = { queue = "leaving" }
destination = { upstream = "old", queue = "arrived" }
retry_seconds = 0.05
"""


@pytest.mark.parametrize("version", VERSIONS)
def test_a_shovel_waits_for_its_queues(old: Running, tmp_path: Path, version: str) -> None:
    """Nothing is parked because the queue at the other end is not there yet."""
    later, begun = f"later.{version}", int(time.time() * 1000)
    shovel = OUT_AND_IN.replace("arrived", later)
    with Running(tmp_path, "--config", configuration(tmp_path, old.port, shovel, version)) as new:
        declare(new, "leaving")
        publish(new.port, "leaving", range(3))
        waiting = until(lambda: one if later in (one := shovels(new)["out"])["error"] else None, "")
        assert begun <= waiting["error_at"] <= time.time() * 1000
        declare(old, later)
        found = taken(old.port, later, 3)
        assert [in_memory.text(one.message) for one in found] == ["body 0", "body 1", "body 2"]
        assert shovels(new)["out"]["parked"] == 0


@pytest.mark.parametrize("version", ["0.8a2", "1.0"])
def test_a_shovel_publishes_where_it_may_not_read(
    old: Running, tmp_path: Path, version: str
) -> None:
    """Its look for the queue is refused, which says nothing about the queue."""
    put(old, "/api/users/writer", {"password": "right", "tags": ""})
    rights = {"configure": "", "write": ".*", "read": ""}
    put(old, "/api/permissions/%2F/writer", rights)
    declare(old, "written")
    shovel = OUT_AND_IN.replace("arrived", "written")
    file = configuration(tmp_path, old.port, shovel, version)
    login = f'version = "{version}"\nuser = "writer"\npassword = "right"\n'
    file.write_text(file.read_text().replace(f'version = "{version}"\n', login))
    with Running(tmp_path, "--config", file) as new:
        declare(new, "leaving")
        publish(new.port, "leaving", range(3))
        assert len(taken(old.port, "written", 3)) == 3


@pytest.mark.parametrize("version", VERSIONS)
def test_messages_move_in_and_out(old: Running, tmp_path: Path, version: str) -> None:
    """All of them, once, in their order, with their headers; the source is empty afterwards."""
    count = 300
    declare(old, "there", "arrived")
    file = configuration(tmp_path, old.port, OUT_AND_IN, version)
    with Running(tmp_path, "--config", file) as new:
        declare(new, "here", "leaving")
        publish(old.port, "there", range(count))
        publish(new.port, "leaving", range(count))
        for running, queue in ((new, "here"), (old, "arrived")):
            found = taken(running.port, queue, count)
            assert [in_memory.text(one.message) for one in found] == [
                f"body {n}" for n in range(count)
            ]
            headers = [one.message.properties.application or {} for one in found]
            assert [(one["n"], one["text"]) for one in headers] == [
                (n, f"ü {n}") for n in range(count)
            ]
            assert [hops_of(one.message) for one in found] == [1] * count
        until(lambda: empty(old, "there") and empty(new, "leaving"), "sources are settled")
        told = shovels(new)
        assert told["in"]["moved"] == told["out"]["moved"] == count
        assert (told["in"]["state"], told["in"]["source_version"]) == ("running", version)
        assert told["out"]["destination_version"] == version
        url = f"http://127.0.0.1:{new.http_port}/metrics"
        metrics = httpx.get(url, auth=("guest", "guest"), timeout=PATIENCE).text
        assert f'amqp_gateway_shovel_messages_moved_total{{shovel="in"}} {count}.0' in metrics
        assert 'amqp_gateway_shovel_running{shovel="out"} 1.0' in metrics


LOOP = """
[[shovels]]
name = "out"
source = { queue = "round" }
destination = { upstream = "old", queue = "and.round" }
max_hops = 2

[[shovels]]
name = "back"
source = { upstream = "old", queue = "and.round" }
destination = { queue = "round" }
max_hops = 2
"""


@pytest.mark.parametrize("version", ["0-9-1", "1.0"])
def test_loops_end_in_the_queue_of_parked_messages(
    old: Running, tmp_path: Path, version: str
) -> None:
    declare(old, "and.round")
    with Running(tmp_path, "--config", configuration(tmp_path, old.port, LOOP, version)) as new:
        declare(new, "round")
        publish(new.port, "round", range(10))
        found = taken(new.port, "shovel.out.parked", 10)
        assert [hops_of(one.message) for one in found] == [3] * 10
        until(lambda: shovels(new)["out"]["parked"] == 10, "parked")
        assert "has passed 2 shovels" in shovels(new)["out"]["error"]
        until(lambda: empty(old, "and.round") and empty(new, "round"), "nothing goes round")


UNROUTABLE = """
[[shovels]]
name = "out"
source = { queue = "leaving" }
destination = { upstream = "old", exchange = "", key = "nowhere" }
retries = 2
retry_seconds = 0.05
"""


@pytest.mark.parametrize("version", ["0-8", "0-9-1", "1.0"])
def test_messages_that_no_queue_takes_are_parked(
    old: Running, tmp_path: Path, version: str
) -> None:
    """Or move on if the queue comes in time; the messages behind them are not held up."""
    file = configuration(tmp_path, old.port, UNROUTABLE, version)
    with Running(tmp_path, "--config", file) as new:
        declare(new, "leaving")
        publish(new.port, "leaving", range(5))
        until(lambda: "shovel.out.parked" in new.queues(), "the shovel has opened its ends")
        found = taken(new.port, "shovel.out.parked", 5)
        assert {in_memory.text(one.message) for one in found} == {f"body {n}" for n in range(5)}
        told = until(lambda: one if (one := shovels(new)["out"])["parked"] == 5 else None, "parked")
        assert (told["moved"], told["rejected"], told["state"]) == (0, 0, "running")
        until(lambda: empty(new, "leaving"), "settled")


ENOUGH = 3000
"""Messages that take longer than the cuts."""


@pytest.mark.parametrize("version", ["0-9-1", "1.0"])
def test_nothing_is_lost_when_connections_and_processes_die(tmp_path: Path, version: str) -> None:
    """Connections are cut at random and the gateway with the shovels is killed, while messages move
    both ways: each arrives, and what was settled does not come again for good."""
    dice = random.Random(7)
    with Running(tmp_path / "old") as old, Relay(old.port) as relay:
        declare(old, "there", "arrived")
        publish(old.port, "there", range(ENOUGH))
        file = configuration(tmp_path / "new", relay.port, OUT_AND_IN, version)
        with Running(tmp_path / "new", "--config", file) as new:
            declare(new, "here", "leaving")
            publish(new.port, "leaving", range(ENOUGH))
            for turn in range(8):
                time.sleep(dice.uniform(0.02, 0.3))
                if turn % 4 == 3:
                    new.kill()
                    new.start()
                else:
                    relay.cut()
            for running, queue in ((new, "here"), (old, "arrived")):
                found = taken(running.port, queue, ENOUGH)
                assert {in_memory.text(one.message) for one in found} == {
                    f"body {n}" for n in range(ENOUGH)
                }
            until(lambda: empty(old, "there") and empty(new, "leaving"), "sources are settled")
            assert old.asked("/api/queues/%2F/there")["messages_unacknowledged"] == 0


def test_a_message_over_which_the_destination_ends_is_parked(old: Running, tmp_path: Path) -> None:
    """RabbitMQ and this gateway close the channel when a message names an exchange that does not
    exist. The others behind it arrive."""
    declare(old, "arrived")
    asyncio.run(bind(old.port, "arrived"))
    shovel = """
[[shovels]]
name = "out"
source = { queue = "leaving" }
destination = { upstream = "old" }
retries = 1
"""
    file = configuration(tmp_path, old.port, shovel, "0-9-1")
    with Running(tmp_path, "--config", file) as new:
        declare(new, "leaving")
        pause(new, "out")
        bind_and_publish(new.port)
        resume(new, "out")
        (parked,) = taken(new.port, "shovel.out.parked", 1)
        assert in_memory.text(parked.message) == "body 1"
        found = taken(old.port, "arrived", 4)
        assert {in_memory.text(one.message) for one in found} == {f"body {n}" for n in (0, 2, 3, 4)}


async def bind(port: int, queue: str) -> None:
    remote = await entered(port)
    await remote.request(Bind(1, None, queue, "amq.direct", queue, {}))
    await remote.close()


def bind_and_publish(port: int) -> None:
    """Five messages for the shovel; message 1 through an exchange that only this gateway has."""

    async def work() -> None:
        remote = await entered(port)
        await remote.request(DeclareExchange(1, None, "only.here", "fanout"))
        await remote.request(Bind(1, None, "leaving", "only.here", "", {}))
        await remote.request(Bind(1, None, "leaving", "amq.direct", "arrived", {}))
        await remote.request(SelectConfirms(1, None))
        for n in range(5):
            place = ("only.here", "") if n == 1 else ("amq.direct", "arrived")
            remote.send(Publish(1, message(n, "").routed_as(*place), True, False))
        remote.wake()
        await anext(remote)
        await remote.close()

    asyncio.run(asyncio.wait_for(work(), PATIENCE))


def test_upstreams_are_shown(old: Running, tmp_path: Path) -> None:
    """With what they are; and why a connection failed, while the shovel waits."""
    shovel = OUT_AND_IN
    with Relay(old.port) as relay:
        declare(old, "there")
        file = configuration(tmp_path, relay.port, shovel)
        with Running(tmp_path, "--config", file) as new:
            declare(new, "here", "leaving")
            until(lambda: {one["state"] for one in shovels(new).values()} == {"running"}, "running")
            (upstream,) = new.asked("/v1/admin/upstreams")["upstreams"]
            assert upstream["connections"] == 2
            assert upstream["product"].startswith("amqp-gateway")
            assert (upstream["version"], upstream["error"]) == ("0-9-1", "")
            relay.open = False
            relay.cut()
            until(lambda: new.asked("/v1/admin/upstreams")["upstreams"][0]["error"], "an error")
            assert {one["state"] for one in shovels(new).values()} <= {"waiting", "connecting"}
            relay.open = True
            until(lambda: {one["state"] for one in shovels(new).values()} == {"running"}, "again")
            assert new.asked("/v1/admin/upstreams")["upstreams"][0]["error"] == ""


UPSTREAM = '[[upstreams]]\nname = "a"\naddresses = ["{}"]\nversion = "{}"\n'
UNKNOWN = '[[shovels]]\nname = "a"\nsource = {queue = "q"}\ndestination = {upstream = "x"}\n'


@pytest.mark.parametrize(
    "given, told",
    [
        (UNKNOWN, "shovel a: no upstream is called 'x'"),
        (UPSTREAM.format("http://host", "auto"), "should be amqp://host:port"),
        (UPSTREAM.format("amqp://u:secret@host", "auto"), "settings of their own"),
        (UPSTREAM.format("amqp://host", "2.0"), "should be auto"),
    ],
)
def test_wrong_settings_are_told(tmp_path: Path, given: str, told: str) -> None:
    file = tmp_path / "gateway.toml"
    file.write_text(given)
    with pytest.raises(ConfigError, match=told) as found:
        read_settings(file)
    assert "secret@" not in str(found.value)

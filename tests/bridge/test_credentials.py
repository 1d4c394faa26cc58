"""The password of an upstream changes while shovels and a facade use it."""

import asyncio
import re
from pathlib import Path

import pytest

from gateway.net.dialer import dial
from gateway.operations import BeginSession
from tests import in_memory
from tests.bridge import faults, moving
from tests.bridge.relay import Relay
from tests.bridge.test_facade import confirmed, message
from tests.net.running import Running, until

VERSIONS = ("0.8a2", "0-9-1", "0-10", "1.0")
REFUSED = re.compile("refused|401 Unauthorized")
CONFIGURATION = """
[[upstreams]]
name = "old"
addresses = ["amqp://127.0.0.1:{port}"]
version = "{version}"
user = "mover"
password_file = "{file}"

[[facades]]
vhost = "shown"
upstream = "old"

[[shovels]]
name = "in"
source = {{ upstream = "old", queue = "there" }}
destination = {{ queue = "here" }}

[[shovels]]
name = "out"
source = {{ queue = "leaving" }}
destination = {{ upstream = "old", queue = "arrived" }}

[[shovels]]
name = "all"
source.upstream = "old"
source.queues = "lane.#"
source.management = "{management}"
source.follow_seconds = 0.1
destination = {{ queue = "here" }}
"""


def errors(new: Running) -> dict[str, str]:
    """Those of the shovels, of the facade, and of the upstream itself."""
    found = {name: one["error"] for name, one in moving.shovels(new).items()}
    found["facade"] = new.asked("/v1/admin/facades")["facades"][0]["error"]
    found["upstream"] = new.asked("/v1/admin/upstreams")["upstreams"][0]["error"]
    return found


def all_run(new: Running) -> bool:
    facade = new.asked("/v1/admin/facades")["facades"][0]["state"]
    lanes = [one for shovel in moving.shovels(new).values() for one in shovel["lanes"]]
    states = [one["state"] for one in (*moving.shovels(new).values(), *lanes)]
    return facade == "connected" and states == ["running"] * 4


def all_say(new: Running, pattern: re.Pattern[str]) -> bool:
    return all(pattern.search(error) for error in errors(new).values())


def password(broker: Running, secret: str) -> None:
    """Of a user who may also list queues."""
    faults.put(broker, "/api/users/mover", {"password": secret, "tags": "monitoring"})


async def published_over_the_facade(port: int, queue: str) -> int:
    """How many of one message the upstream has taken."""
    remote = await dial(("127.0.0.1", port), version="0-9-1", vhost="shown")
    await remote.request(BeginSession(1, None))
    accepted = await confirmed(remote, [message(0, queue)])
    await remote.close()
    return accepted


@pytest.mark.parametrize("version", VERSIONS)
def test_a_new_password(tmp_path: Path, version: str) -> None:
    """It is refused until the file has it too. A file that is away is named. Messages that were
    published meanwhile arrive once the password is right again."""
    file = tmp_path / "password"
    file.write_text("right\n")
    with Running(tmp_path / "old") as old, Relay(old.port) as relay:
        faults.permit(old)
        password(old, "right")
        moving.declare(old, "there", "arrived", "lane.one", "over")
        configuration = tmp_path / "gateway.toml"
        management = f"http://127.0.0.1:{old.http_port}"
        configuration.write_text(
            CONFIGURATION.format(port=relay.port, version=version, file=file, management=management)
        )
        with Running(tmp_path / "new", "--config", configuration) as new:
            moving.declare(new, "here", "leaving")
            until(lambda: all_run(new), "all are connected")
            password(old, "other")
            relay.cut()
            until(lambda: all_say(new, REFUSED), "the password is refused")
            file.unlink()
            until(lambda: all_say(new, re.compile(re.escape(str(file)))), "the file is named")
            moving.publish(old.port, "there", range(3))
            moving.publish(old.port, "lane.one", range(3, 6))
            moving.publish(new.port, "leaving", range(3))
            file.write_text("other\n")
            found = moving.taken(new.port, "here", 6) + moving.taken(old.port, "arrived", 3)
            assert sorted(in_memory.text(one.message) for one in found) == sorted(
                [*(f"body {n}" for n in range(6)), *(f"body {n}" for n in range(3))]
            )
            assert asyncio.run(published_over_the_facade(new.port, "over")) == 1
            assert all(one["parked"] == 0 for one in moving.shovels(new).values())

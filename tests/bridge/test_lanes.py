"""A shovel for a pattern of queues."""

import asyncio
import json
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import trustme
from pydantic import ValidationError

from gateway.bridge.ends import Ends
from gateway.bridge.lanes import Lanes
from gateway.bridge.management_directory import ManagementDirectory
from gateway.bridge.pacing import Pace
from gateway.bridge.preparation import Preparation
from gateway.bridge.shovel import Shovel
from gateway.config.bridge import (
    ShovelDestination,
    ShovelSettings,
    ShovelSource,
    UpstreamSettings,
)
from gateway.operations import DeleteQueue
from tests import in_memory
from tests.bridge.fake_ends import ListSource, Taking, basic, settings
from tests.bridge.moving import (
    configuration,
    declare,
    empty,
    entered,
    pause,
    publish,
    resume,
    shovels,
    taken,
)
from tests.net.running import PATIENCE, Running, until

FOLLOWING = """
[[shovels]]
name = "all"
source = { queues = "{land}.orders.*", most_queues = 3, follow_seconds = 0.05 }
destination.addresses.rules = [
    { match = { key = "{land}.orders.{kind}" }, to = { key = "moved.{kind}.{land}" } },
]
retry_seconds = 0.05

[[shovels.properties]]
set = { app_id = "{kind} of {land}" }
"""


def lanes_of(running: Running) -> dict[str, Any]:
    return {one["queue"]: one for one in shovels(running)["all"]["lanes"]}


def delete(running: Running, queue: str) -> None:
    async def gone() -> None:
        remote = await entered(running.port)
        await remote.request(DeleteQueue(1, None, queue, False, False))
        await remote.close()

    asyncio.run(gone())


def test_lanes_follow_the_queues_of_this_gateway(tmp_path: Path) -> None:
    """They come and go with them, each with its own state; their counts stay."""
    file = tmp_path / "gateway.toml"
    file.write_text(FOLLOWING)
    with Running(tmp_path, "--config", file) as gateway:
        until(lambda: shovels(gateway)["all"]["state"] == "waiting", "nothing to do")
        declare(gateway, "de.orders.new", "fr.orders.new", "orders.new", "de.orders.new.big")
        declare(gateway, "moved.new.de")
        publish(gateway.port, "de.orders.new", range(5))
        (*found,) = taken(gateway.port, "moved.new.de", 5)
        assert [in_memory.text(one.message) for one in found] == [f"body {n}" for n in range(5)]
        assert found[0].message.properties.app_id == "new of de"
        until(lambda: lanes_of(gateway).keys() == {"de.orders.new", "fr.orders.new"}, "two lanes")
        until(lambda: lanes_of(gateway)["de.orders.new"]["moved"] == 5, "moved")
        until(lambda: "moved.new.fr" in lanes_of(gateway)["fr.orders.new"]["error"], "waits alone")
        assert lanes_of(gateway)["de.orders.new"]["state"] == "running"
        delete(gateway, "de.orders.new")
        until(lambda: lanes_of(gateway).keys() == {"fr.orders.new"}, "one lane")
        told = shovels(gateway)["all"]
        assert (told["moved"], told["source"]) == (5, "/: {land}.orders.*")


def test_lanes_are_bounded_and_paused_together(tmp_path: Path) -> None:
    file = tmp_path / "gateway.toml"
    file.write_text(FOLLOWING)
    with Running(tmp_path, "--config", file) as gateway:
        names = [f"a.orders.{n}" for n in range(4)]
        declare(gateway, *(f"moved.{n}.a" for n in range(4)), *names)
        until(lambda: len(lanes_of(gateway)) == 3, "three lanes")
        until(lambda: "more than 3 queues match" in shovels(gateway)["all"]["error"], "an error")
        pause(gateway, "all")
        until(lambda: {one["state"] for one in lanes_of(gateway).values()} == {"paused"}, "paused")
        for name in names:
            publish(gateway.port, name, range(2))
        assert shovels(gateway)["all"]["moved"] == 0
        resume(gateway, "all")
        until(lambda: shovels(gateway)["all"]["moved"] == 6, "three of the queues are moved")
        gone, *_ = lanes_of(gateway)
        delete(gateway, gone)
        until(lambda: shovels(gateway)["all"]["moved"] == 8, "the fourth has its place")
        until(lambda: not shovels(gateway)["all"]["error"], "nothing is wrong any more")


FROM_OLD = """
[[shovels]]
name = "all"
source = { upstream = "old", queues = "orders.#", known = ["orders.a", "orders.b", "other"] }
destination = {}
"""


def test_queues_of_an_upstream_that_are_known(tmp_path: Path) -> None:
    """Without rules each goes to the queue of the same name."""
    with Running(tmp_path / "old") as old:
        declare(old, "orders.a", "orders.b", "other")
        file = configuration(tmp_path / "new", old.port, FROM_OLD)
        with Running(tmp_path / "new", "--config", file) as new:
            declare(new, "orders.a", "orders.b")
            for name in ("orders.a", "orders.b", "other"):
                publish(old.port, name, range(3))
            for name in ("orders.a", "orders.b"):
                assert len(taken(new.port, name, 3)) == 3
            until(lambda: empty(old, "orders.a") and empty(old, "orders.b"), "settled")
            assert not empty(old, "other")
            assert set(lanes_of(new)) == {"orders.a", "orders.b"}


def test_lanes_go_on_while_the_queues_cannot_be_listed() -> None:
    """Whatever the reason is; the last list counts."""

    async def run() -> None:
        answers: list[list[str] | Exception] = [["a"], OSError("down"), KeyError("unforeseen")]
        told: list[str] = []

        async def directory() -> list[str]:
            told.append(lanes.info().error)
            found = answers[min(len(told), len(answers)) - 1]
            if isinstance(found, Exception):
                raise found
            return found

        def make(settings: ShovelSettings, preparation: Preparation, pace: Pace | None) -> Shovel:
            ends = Ends(source.open, destination.open, destination.open)
            return Shovel(settings, ends, preparation, pace)

        source, destination = ListSource([basic("1")]), Taking()
        queues = ShovelSource(queues="*", follow_seconds=0.001)
        given = settings(source=queues, destination=ShovelDestination(exchange="x"))
        lanes = Lanes(given, directory, make)
        task = asyncio.create_task(lanes.run())
        async with asyncio.timeout(PATIENCE):
            while len(told) < 5 or source.left:  # noqa: ASYNC110 - a list and a dict
                await asyncio.sleep(0.001)
        assert told[1:4] == [
            "",
            "queues cannot be listed: down",
            "internal error: KeyError('unforeseen')",
        ]
        assert destination.bodies == ["1"]
        (lane,) = lanes.info().lanes
        assert (lane.queue, lane.state) == ("a", "running")
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert lanes.info().lanes == []
        assert lanes.info().moved == 1

    asyncio.run(run())


class Management(BaseHTTPRequestHandler):
    """Lists the queues of the virtual host "a b" to guest."""

    def do_GET(self) -> None:
        good = self.path == "/api/queues/a%20b?columns=name"
        self.send_response(200 if good else 404)
        self.end_headers()
        self.wfile.write(json.dumps([{"name": "q1"}, {"name": "q2"}]).encode())

    def log_message(self, *_: object) -> None:
        """Silent."""


@contextmanager
def listing(tls: ssl.SSLContext | None = None) -> Iterator[int]:
    """Such a server; its port."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Management) as server:
        if tls is not None:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()


def upstream(vhost: str, **more: Any) -> UpstreamSettings:
    return UpstreamSettings(name="a", addresses=["amqp://127.0.0.1"], vhost=vhost, **more)


def test_a_management_api_lists_queues() -> None:
    with listing() as port:
        found = ManagementDirectory(f"http://127.0.0.1:{port}/", upstream("a b"))
        assert asyncio.run(found.queues()) == ["q1", "q2"]
        missing = ManagementDirectory(f"http://127.0.0.1:{port}/", upstream("other"))
        with pytest.raises(OSError, match="404"):
            asyncio.run(missing.queues())


def test_a_management_api_is_known_by_the_authority_of_its_upstream(tmp_path: Path) -> None:
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    ca = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(ca)
    with listing(context) as port:
        found = ManagementDirectory(f"https://127.0.0.1:{port}", upstream("a b", ca=ca))
        assert asyncio.run(found.queues()) == ["q1", "q2"]
        stranger = ManagementDirectory(f"https://127.0.0.1:{port}", upstream("a b"))
        with pytest.raises(OSError, match="CERTIFICATE_VERIFY_FAILED"):
            asyncio.run(stranger.queues())


@pytest.mark.parametrize(
    "source, told",
    [
        ({}, "a queue, or a pattern"),
        ({"queue": "q", "queues": "*"}, "a queue, or a pattern"),
        ({"queues": "*", "upstream": "old"}, "AMQP cannot list queues"),
        ({"queues": "*", "known": ["q"]}, "belong to a pattern of queues of an upstream"),
        ({"queues": "*"}, "moved to themselves"),
    ],
)
def test_wrong_patterns_are_told(source: dict[str, Any], told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        ShovelSettings(name="a", source=ShovelSource(**source), destination=ShovelDestination())

"""Direct replies over several gateways before one upstream, and from clients of the upstream."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gateway.errors import Condition, Refusal
from gateway.net.dialer import Remote
from gateway.operations import (
    Cancelled,
    Confirm,
    DeclareQueue,
    Deliver,
    EndSession,
    Operation,
    Publish,
    QueueState,
    Returned,
    SelectConfirms,
    Subscribe,
)
from tests.bridge.relay import Relay
from tests.bridge.test_facade import (
    deliveries,
    entered,
    facade,
    message,
    numbers,
    run,
)
from tests.bridge.test_facade_http import call
from tests.bridge.test_modes import between
from tests.net.running import Running, until

REPLY_TO = "amq.rabbitmq.reply-to"


@pytest.fixture(scope="module")
def other(old: Running, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with facade(tmp_path_factory.mktemp("other"), old.port) as running:
        yield running


async def asking(port: int, queue: str, version: str = "0-9-1") -> Remote:
    """A client that waits for direct replies, and has sent a request."""
    remote = await entered(port, version)
    if version != "1.0":
        await remote.request(DeclareQueue(1, None, queue, durable=True))
    await remote.request(Subscribe(1, None, REPLY_TO, no_ack=True))
    await ask(remote, queue)
    return remote


async def ask(remote: Remote, queue: str) -> None:
    await remote.request(SelectConfirms(1, None))
    remote.send(Publish(1, message(1, queue, reply_to=REPLY_TO), True, False))
    remote.wake()
    assert isinstance(await anext(remote), Confirm)


async def asked(port: int, queue: str) -> str:
    """The address for the reply to the next request."""
    remote = await entered(port)
    await remote.request(Subscribe(1, None, queue, no_ack=True))
    (found,) = await deliveries(remote, 1)
    await remote.close()
    return found.message.properties.reply_to or ""


async def published(port: int, key: str, n: int, version: str = "0-9-1") -> list[Operation]:
    """The answer to the publisher of a mandatory message."""
    remote = await entered(port, version)
    await remote.request(SelectConfirms(1, None))
    remote.send(Publish(1, message(n, key), True, False))
    remote.wake()
    told = [await anext(remote)]
    if isinstance(told[0], Returned):
        told.append(await anext(remote))
    await remote.close()
    return told


async def gone(port: int, key: str) -> None:
    """Until the upstream has no place for the replies any more."""
    while True:
        remote = await entered(port)
        try:
            await remote.request(DeclareQueue(1, None, key, passive=True))
        except Refusal as refusal:
            if refusal.condition is Condition.NOT_FOUND:
                return
        finally:
            await remote.close()
        await asyncio.sleep(0.05)


@pytest.mark.parametrize("version", ["0-8", "0-9", "0-9-1", "0-10"])
def test_replies_come_from_everywhere(
    front: Running, other: Running, old: Running, version: str
) -> None:
    async def talk() -> None:
        queue = f"asked-{front.port}-{version}"
        remote = await asking(front.port, queue, version)
        place = await asked(other.port, queue)
        for n, port in enumerate((other.port, old.port, front.port)):
            for answering in ("0-9-1", "0-10", "1.0"):
                told = await published(port, place, n, answering)
                assert isinstance(told[0], Confirm), (n, answering, told)
                assert told[0].accepted
                assert numbers(await deliveries(remote, 1)) == [n]
        watcher = await entered(other.port)
        state = await watcher.request(DeclareQueue(1, None, place, passive=True))
        assert state == QueueState(place, 0, 1)
        await watcher.close()
        await remote.request(EndSession(1, None))
        await gone(other.port, place)
        for port in (other.port, front.port):
            returned, confirm = await published(port, place, 4)
            assert isinstance(returned, Returned)
            assert returned.condition is Condition.NO_ROUTE
            assert isinstance(confirm, Confirm)
        await remote.close()

    run(talk())


def test_a_place_that_is_not_used_goes(front: Running, old: Running) -> None:
    """Its client has gone before the upstream had made it."""

    async def leave() -> None:
        for _ in range(5):
            remote = await entered(front.port)
            remote.request(Subscribe(1, None, REPLY_TO, no_ack=True))
            remote.wake()
            await asyncio.sleep(0)
            await remote.close()

    run(leave())
    until(lambda: not places(old), "places of clients that have gone")


def places(running: Running) -> list[str]:
    names = [one["name"] for one in running.asked("/api/queues")]
    return [name for name in names if name.startswith("gen-reply.")]


def test_requests_over_http(front: Running, other: Running, old: Running) -> None:
    """The reply is published at another gateway."""
    queue = f"http-{front.port}"
    assert call(old, "PUT", f"/api/queues/%2F/{queue}", json={"durable": True}).is_success
    found: list[Any] = []
    path = f"/v1/%2F/requests?to=/queues/{queue}"
    thread = threading.Thread(target=lambda: found.append(call(front, "POST", path, content="hi")))
    thread.start()

    async def answer() -> None:
        place = await asked(other.port, queue)
        told = await published(other.port, place, 7)
        assert isinstance(told[0], Confirm)

    run(answer())
    thread.join()
    assert found[0].status_code == 200, found[0].text
    assert found[0].text == "body 7"
    until(lambda: not places(old), "places of requests that are answered")


@pytest.mark.parametrize("fault", ["cut", "kill"])
def test_the_connection_to_the_upstream_is_lost(fault: str, tmp_path: Path) -> None:
    """Clients go on waiting at the same place: it is made again."""
    with (
        Running(tmp_path / "old") as old,
        Relay(old.port) as relay,
        facade(tmp_path / "one", relay.port) as front,
        facade(tmp_path / "two", relay.port) as other,
    ):

        async def talk() -> None:
            remote = await asking(front.port, "asked")
            place = await asked(old.port, "asked")
            for n in range(3):
                if fault == "cut":
                    relay.cut()
                else:
                    old.kill()
                    old.start()
                    relay.target = old.port
                found: list[Deliver] = []
                while not found:
                    told = await published(other.port, place, n)
                    if isinstance(told[0], Confirm):
                        found = await deliveries(remote, 1)
                assert numbers(found) == [n]
            await ask(remote, "asked")
            assert await asked(other.port, "asked") == place
            await remote.close()
            await gone(other.port, place)

        run(talk())


def test_an_upstream_that_refuses_such_queues(tmp_path: Path) -> None:
    """The right to make them is taken away: clients are told, also one that waits already, as the
    refusal ends the channel with its queue."""
    with Running(tmp_path / "old") as old:

        def permit(configure: str) -> None:
            rights = {"configure": configure, "write": ".*", "read": ".*"}
            path = "/v1/admin/users/bridge/permissions/%2F"
            assert call(old, "PUT", path, json=rights).is_success

        user = {"password": "bridge", "tags": []}
        assert call(old, "PUT", "/v1/admin/users/bridge", json=user).is_success
        permit(".*")
        given = 'user = "bridge"\npassword = "bridge"\n'
        with facade(tmp_path / "front", old.port, upstream=given) as front:

            async def talk() -> None:
                first = await asking(front.port, "jobs")
                permit("jobs")
                remote = await entered(front.port)
                with pytest.raises(Refusal) as refused:
                    await remote.request(Subscribe(1, None, REPLY_TO, no_ack=True))
                assert refused.value.condition is Condition.ACCESS_REFUSED
                await remote.close()
                assert isinstance(await anext(first), Cancelled)
                permit(".*")
                await first.request(Subscribe(1, None, REPLY_TO, no_ack=True))
                assert await asked(front.port, "jobs")
                await ask(first, "jobs")
                place = await asked(front.port, "jobs")
                assert isinstance((await published(old.port, place, 5))[0], Confirm)
                assert numbers(await deliveries(first, 1)) == [5]
                await first.close()

            run(talk())


def test_a_topology_that_is_taken_for_granted(old: Running, tmp_path: Path) -> None:
    """Replies come from clients of the same gateway."""
    with facade(tmp_path / "front", old.port, more='topology = "assume"\n') as front:

        async def talk() -> None:
            made = await entered(old.port)
            await made.request(DeclareQueue(1, None, "granted", durable=True))
            await made.close()
            remote = await asking(front.port, "granted")
            place = await asked(old.port, "granted")
            assert isinstance((await published(front.port, place, 1))[0], Confirm)
            assert numbers(await deliveries(remote, 1)) == [1]
            assert isinstance((await published(old.port, place, 2))[0], Returned)
            await remote.close()

        run(talk())


def test_replies_come_from_either_broker_of_a_migration(tmp_path: Path) -> None:
    with (
        Running(tmp_path / "old") as old,
        Running(tmp_path / "new") as new,
        between(tmp_path / "front", old.port, new.port) as front,
    ):

        async def talk() -> None:
            remote = await asking(front.port, "asked")
            place = await asked(front.port, "asked")
            until(lambda: places(old) == places(new) == [place], "places at both brokers")
            for n, running in enumerate((front, old, new)):
                assert isinstance((await published(running.port, place, n))[0], Confirm)
                assert numbers(await deliveries(remote, 1)) == [n]
            await remote.close()
            until(lambda: not places(old) and not places(new), "places of clients that have gone")

        run(talk())

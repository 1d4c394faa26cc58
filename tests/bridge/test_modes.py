"""Modes of addresses: a queue changes its broker while its clients go on."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from gateway.bridge.modes.copies import copy_of
from gateway.net.dialer import Remote
from gateway.operations import (
    BeginSession,
    Bind,
    Confirm,
    DeclareExchange,
    DeclareQueue,
    Deliver,
    EndSession,
    Fetch,
    Fetched,
    Outcome,
    Prefetch,
    Publish,
    SelectConfirms,
    Settle,
    Subscribe,
    Unbind,
)
from tests.bridge.relay import Relay
from tests.bridge.test_facade import confirmed, deliveries, depth, entered, message, run
from tests.bridge.test_move_guide import run as command
from tests.net.preloaded import ROOT
from tests.net.running import PATIENCE, Running, until

CLIENTS = ("0-9-1", "0-10", "1.0")
ROUND = ("shadow", "mirror", "new-primary", "old-only", "new-primary", "new-only", "new-primary")
PATH = f"/v1/admin/facades/{quote('/', safe='')}/modes"


@contextmanager
def between(
    folder: Path, old: int, new: int, versions: tuple[str, str] = ("0-9-1", "1.0"), more: str = ""
) -> Iterator[Running]:
    """A facade before two gateways, by their ports."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "gateway.toml"
    file.write_text(
        "".join(
            f'[[upstreams]]\nname = "{name}"\naddresses = ["amqp://127.0.0.1:{port}"]\n'
            f'version = "{version}"\n'
            for name, port, version in zip(("old", "new"), (old, new), versions, strict=True)
        )
        + f'[[facades]]\nupstream = "old"\nsuccessor = "new"\n{more}'
    )
    with Running(folder, "--config", file) as running:
        yield running


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Running, Running]]:
    with (
        Running(tmp_path_factory.mktemp("old")) as old,
        Running(tmp_path_factory.mktemp("new")) as new,
    ):
        yield old, new


@pytest.fixture(scope="module")
def front(
    brokers: tuple[Running, Running], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Running]:
    old, new = brokers
    with between(tmp_path_factory.mktemp("front"), old.port, new.port) as running:
        yield running


def modes(front: Running) -> dict[str, dict[str, Any]]:
    return {one["name"]: one for one in front.asked(PATH)["modes"]}


def ask(front: Running, mode: str, *queues: str, exchanges: tuple[str, ...] = ()) -> httpx.Response:
    return post(front, {"mode": mode, "queues": list(queues), "exchanges": list(exchanges)})


def post(front: Running, body: dict[str, Any]) -> httpx.Response:
    url = f"http://127.0.0.1:{front.http_port}{PATH}"
    return httpx.post(url, json=body, auth=("guest", "guest"), trust_env=False, timeout=PATIENCE)


def moving(front: Running) -> bool:
    return bool(front.asked("/v1/admin/moves")["moves"])


def settled(front: Running, queue: str) -> None:
    until(lambda: not modes(front)[queue]["target"], f"the change of {queue} ends")


def change(front: Running, mode: str, *queues: str, exchanges: tuple[str, ...] = ()) -> None:
    """Change a mode and wait for the end."""
    answer = ask(front, mode, *queues, exchanges=exchanges)
    assert answer.status_code == 202, answer.text
    names = (*queues, *exchanges)
    until(lambda: not any(modes(front)[name]["target"] for name in names), f"{mode} of {names}")
    for name in names:
        assert (modes(front)[name]["mode"], modes(front)[name]["error"]) == (mode, "")


class Flow:
    """A producer and a consumer that go on all the time, over one connection each."""

    def __init__(self, queue: str, exchange: str = "", key: str = "") -> None:
        self.queue = queue
        self.exchange, self.key = exchange, key or queue
        self.sent = self.confirmed = 0
        self.refused = 0
        self.got: list[int] = []
        self.again = 0
        self._stopping = False

    async def produce(self, remote: Remote) -> None:
        await remote.request(SelectConfirms(1, None))
        while not self._stopping:
            for _ in range(5):
                one = message(self.sent, self.key, self.exchange)
                remote.send(Publish(1, one, True, False))
                self.sent += 1
            remote.wake()
            await asyncio.sleep(0.005)
            await self._until(lambda: self.sent - self.confirmed <= 200)

    async def hear(self, remote: Remote) -> None:
        async for operation in remote:
            assert isinstance(operation, Confirm), operation
            self.refused += not operation.accepted
            self.confirmed = operation.sequence

    async def consume(self, remote: Remote) -> None:
        await remote.request(Prefetch(1, None, 20))
        await remote.request(Subscribe(1, None, self.queue))
        async for operation in remote:
            assert isinstance(operation, Deliver), operation
            number = (operation.message.properties.application or {})["n"]
            assert bytes(operation.message.body[:]) == f"body {number}".encode()
            self.again += operation.redelivered
            self.got.append(number)
            remote.send(Settle(1, operation.delivery, False, Outcome.ACCEPT))
            remote.wake()

    async def stop(self) -> None:
        """No more publishes; wait until all has come."""
        self._stopping = True
        await asyncio.sleep(0.05)
        await self._until(lambda: self.confirmed >= self.sent == len(set(self.got)))

    async def _until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE):
            while True:
                if condition():
                    return
                await asyncio.sleep(0.005)


@asynccontextmanager
async def flowing(
    port: int, flow: Flow, versions: tuple[str, str] = ("0-9-1", "0-9-1")
) -> AsyncIterator[Flow]:
    out, inward = await entered(port, versions[0]), await entered(port, versions[1])
    work = (flow.produce(out), flow.hear(out), flow.consume(inward))
    tasks = [asyncio.ensure_future(one) for one in work]
    try:
        yield flow
        await flow.stop()
        assert out.closed is None and inward.closed is None
        for task in tasks[1:]:
            assert not task.done(), task.exception()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await out.close()
        await inward.close()


async def made(running: Running, *queues: str) -> None:
    remote = await entered(running.port)
    for queue in queues:
        await remote.request(DeclareQueue(1, None, queue, durable=True))
    await remote.close()


@pytest.mark.parametrize("client", ["0-9-1", "1.0"])
def test_a_queue_goes_through_all_modes(
    front: Running, brokers: tuple[Running, Running], client: str
) -> None:
    """Nothing is lost, nothing comes twice, and all in order; the clients stay connected."""
    queue = f"round {client}"

    async def scenario() -> None:
        await made(front, queue)
        async with flowing(front.port, Flow(queue), (client, client)) as flow:
            for mode in ROUND:
                await asyncio.sleep(0.1)
                await asyncio.to_thread(change, front, mode, queue)
            await asyncio.sleep(0.1)
        assert flow.refused == 0
        assert flow.got == list(range(flow.sent))

    run(scenario())
    told = modes(front)[queue]
    assert told["compared"] > 0 and told["differences"] == {}
    assert told["copies_lost"] == 0
    until(lambda: depth(brokers[0], queue) == depth(brokers[1], queue) == 0, "both are empty")


def test_what_others_hold_and_publish_comes_over(
    front: Running, brokers: tuple[Running, Running]
) -> None:
    """A delivery that a client has not settled when its queue moves stays its own; when the client
    goes, the message comes over. So does one that is published at the old broker itself."""
    old, _ = brokers

    async def scenario() -> None:
        await made(front, "kept")
        remote = await entered(front.port)
        assert await confirmed(remote, [message(n, "kept") for n in range(3)]) == 3
        await remote.request(Prefetch(1, None, 2))
        await remote.request(Subscribe(1, None, "kept"))
        first, _ = await deliveries(remote, 2)
        await asyncio.to_thread(change, front, "new-primary", "kept")
        remote.send(Settle(1, first.delivery, False, Outcome.ACCEPT))
        third = (await deliveries(remote, 1))[0]
        assert bytes(third.message.body[:]) == b"body 2"
        await remote.close()
        direct = await entered(old.port)
        assert await confirmed(direct, [message(3, "kept")]) == 1
        await direct.close()
        remote = await entered(front.port)
        await remote.request(Subscribe(1, None, "kept"))
        found = {bytes(one.message.body[:]) for one in await deliveries(remote, 3)}
        assert found == {b"body 1", b"body 2", b"body 3"}
        await remote.close()

    run(scenario())
    assert modes(front)["kept"]["brought"] == 2


def test_an_exchange_changes_its_broker(front: Running, brokers: tuple[Running, Running]) -> None:
    """Together with its queues; or after these, whose messages are brought over until then."""
    queues = ("events a", "events b")

    async def scenario() -> None:
        remote = await entered(front.port)
        await remote.request(DeclareExchange(1, None, "events", "topic", durable=True))
        for queue in queues:
            await remote.request(DeclareQueue(1, None, queue, durable=True))
            await remote.request(Bind(1, None, queue, "events", "#"))
        flows = [Flow(queue, "events", "k") for queue in queues]
        flows[1].sent = -1  # the other one publishes
        inward = await entered(front.port)
        reading = asyncio.ensure_future(flows[1].consume(inward))
        async with flowing(front.port, flows[0]) as flow:
            for mode in ("shadow", "mirror", "new-primary", "old-only"):
                await asyncio.sleep(0.1)
                await asyncio.to_thread(change, front, mode, *queues, exchanges=("events",))
            assert flow.got == list(range(len(flow.got)))
            for mode in ("mirror", "new-primary"):
                await asyncio.sleep(0.1)
                await asyncio.to_thread(change, front, mode, *queues)
            await asyncio.sleep(0.1)
            await asyncio.to_thread(change, front, "new-primary", exchanges=("events",))
            await asyncio.sleep(0.1)
        assert sorted(flow.got) == list(range(flow.sent))
        async with asyncio.timeout(PATIENCE):
            while True:
                if len(flows[1].got) == flow.sent:
                    break
                await asyncio.sleep(0.02)
        assert sorted(flows[1].got) == list(range(flow.sent))
        reading.cancel()
        await inward.close()
        await remote.close()

    run(scenario())


def test_an_exchange_does_not_go_before_its_queues(front: Running) -> None:
    """Where nothing would bring its messages over; the refusal names the queues."""

    async def scenario() -> None:
        remote = await entered(front.port)
        await remote.request(DeclareExchange(1, None, "first", "topic", durable=True))
        for queue in ("seen", "shut"):
            await remote.request(DeclareQueue(1, None, queue, durable=True))
            await remote.request(Bind(1, None, queue, "first", "#"))
        await remote.request(Unbind(1, None, "shut", "first", "#"))
        answer = await asyncio.to_thread(ask, front, "new-primary", exchanges=("first",))
        assert answer.status_code == 409
        assert "'first' and its queues 'seen' would" in answer.json()["detail"]
        assert "first" not in modes(front)
        await asyncio.to_thread(change, front, "mirror", "seen")
        await asyncio.to_thread(change, front, "new-primary", exchanges=("first",))
        assert await confirmed(remote, [message(1, "k", "first")]) == 1
        reader = await entered(front.port)
        await reader.request(Subscribe(1, None, "seen"))
        (found,) = await deliveries(reader, 1)
        assert bytes(found.message.body[:]) == b"body 1"
        answer = await asyncio.to_thread(ask, front, "old-only", "seen")
        assert answer.status_code == 409
        await asyncio.to_thread(change, front, "old-only", "seen", exchanges=("first",))
        for one in (remote, reader):
            await one.close()

    run(scenario())


def test_some_producers_go_first(front: Running, brokers: tuple[Running, Running]) -> None:
    """Their messages come to the consumers at the old broker, in the order of each key."""

    async def scenario() -> None:
        await made(front, "shared")
        async with flowing(front.port, Flow("shared")) as flow:
            for users, percent in ((["nobody"], 0), (["guest"], 0), ([], 100), ([], 0)):
                body = {"mode": "mirror", "queues": ["shared"], "users": users, "percent": percent}
                answer = await asyncio.to_thread(post, front, body)
                assert answer.status_code == 202
                await asyncio.to_thread(
                    until, lambda: not modes(front)["shared"]["target"], "it is changed"
                )
                before = modes(front)["shared"]["brought"]
                assert modes(front)["shared"]["users"] == users
                if users == ["guest"] or percent == 100:
                    await asyncio.to_thread(
                        until,
                        lambda: modes(front)["shared"]["brought"] > before,  # noqa: B023
                        "they are brought over",
                    )
                else:
                    await asyncio.sleep(0.3)
                    assert modes(front)["shared"]["brought"] == before
        assert flow.got == list(range(flow.sent))

    run(scenario())


def test_a_broker_that_is_away(brokers: tuple[Running, Running], tmp_path: Path) -> None:
    """The change fails and says why; the queue goes on as before, and another attempt succeeds."""
    old, new = brokers

    async def scenario(front: Running, relay: Relay) -> None:
        await made(front, "away")
        until(lambda: depth(new, "away") == 0, "both brokers have it")
        async with flowing(front.port, Flow("away")) as flow:
            await asyncio.sleep(0.1)
            relay.open = False
            relay.cut()
            assert ask(front, "new-primary", "away").status_code == 202
            assert ask(front, "mirror", "away").status_code == 409
            await asyncio.to_thread(
                until, lambda: not modes(front)["away"]["target"], "it has failed"
            )
            told = modes(front)["away"]
            assert told["mode"] == "old-only" and told["error"]
            await asyncio.sleep(0.1)
            relay.open = True
            await asyncio.to_thread(change, front, "new-primary", "away")
        assert sorted(set(flow.got)) == list(range(flow.sent))

    with Relay(new.port) as relay, between(tmp_path, old.port, relay.port) as front:
        run(scenario(front, relay))


def test_a_broker_that_comes_back_in_a_change(
    brokers: tuple[Running, Running], tmp_path: Path
) -> None:
    """Consumers are subscribed at the broker to which their queue goes, and not again at the other
    one, which was lost meanwhile."""
    old, new = brokers
    queue = "back"

    async def scenario(front: Running, relay: Relay) -> None:
        await made(front, queue)
        await asyncio.to_thread(change, front, "new-primary", queue)
        publisher, consumer = await entered(front.port), await entered(front.port)
        await consumer.request(Prefetch(1, None, 10))
        await consumer.request(Subscribe(1, None, queue))
        for number, mode in enumerate(("old-only", "new-primary", "old-only")):
            relay.delay = 0.05
            assert ask(front, mode, queue).status_code == 202
            await asyncio.to_thread(until, partial(moving, front), "the move has begun")
            await asyncio.sleep(0.3)
            relay.cut()
            await asyncio.to_thread(settled, front, queue)
            relay.delay = 0.0
            await asyncio.to_thread(change, front, mode, queue)  # if it has failed
            publisher.send(Publish(1, message(number, queue), True, False))
            publisher.wake()
            body = b""
            while body != f"body {number}".encode():  # the one before may come again
                (found,) = await deliveries(consumer, 1)
                body = bytes(found.message.body[:])
                consumer.send(Settle(1, found.delivery, False, Outcome.ACCEPT))
                consumer.wake()
        for one in (publisher, consumer):
            await one.close()

    with Relay(new.port) as relay, between(tmp_path, old.port, relay.port) as front:
        run(scenario(front, relay))


def test_a_killed_gateway_goes_on(brokers: tuple[Running, Running], tmp_path: Path) -> None:
    """Killed in the middle of a change, it ends the change after its start."""
    old, new = brokers
    count = 3000

    async def fill(front: Running) -> None:
        await made(front, "killed")
        remote = await entered(front.port)
        assert await confirmed(remote, [message(n, "killed") for n in range(count)]) == count
        await remote.close()

    async def empty(front: Running) -> None:
        remote = await entered(front.port)
        await remote.request(Subscribe(1, None, "killed"))
        found = await deliveries(remote, count)
        bodies = [bytes(one.message.body[:]) for one in found]
        assert sorted(bodies) == sorted(f"body {n}".encode() for n in range(count))
        await remote.close()

    with between(tmp_path, old.port, new.port) as front:
        run(fill(front))
        assert ask(front, "new-primary", "killed").status_code == 202
        until(lambda: depth(new, "killed") > 0, "the move has begun")
        front.kill()
        front.start()
        until(lambda: "killed" in modes(front), "it knows the address")
        until(lambda: not modes(front)["killed"]["target"], "the change has ended")
        assert modes(front)["killed"]["mode"] == "new-primary"
        assert (depth(old, "killed"), depth(new, "killed")) == (0, count)
        run(empty(front))


def test_fetches_and_http_wait_for_the_change(front: Running) -> None:
    async def scenario() -> None:
        await made(front, "fetched")
        remote = await entered(front.port)
        assert await confirmed(remote, [message(n, "fetched") for n in range(2)]) == 2
        assert ask(front, "new-primary", "fetched").status_code == 202
        fetched = await remote.request(Fetch(1, None, "fetched", no_ack=True))
        assert isinstance(fetched, Fetched)
        assert bytes(fetched.message.body[:]) == b"body 0"
        await remote.close()

    run(scenario())
    url = f"http://127.0.0.1:{front.http_port}/v1/%2F/queues/fetched/messages"
    answer = httpx.post(url, json={"n": 2}, auth=("guest", "guest"), trust_env=False)
    assert answer.status_code == 201
    until(lambda: not modes(front)["fetched"]["target"], "the change has ended")


def test_the_commands_of_the_guide(front: Running, tmp_path: Path) -> None:
    asyncio.run(made(front, "orders", "bills"))
    text = (ROOT / "docs/modes.md").read_text()
    blocks = re.findall(r"```console\n(.*?)```", text, re.DOTALL)
    commands, shares = (
        [line.removeprefix("$ ") for line in block.splitlines()] for block in blocks
    )
    assert (len(commands), len(shares)) == (4, 2)
    place = f" --gateway http://127.0.0.1:{front.http_port} --password guest --json"
    said = [json.loads(command(tmp_path, one + place, {})) for one in commands]
    told = [{one["name"]: one["mode"] for one in answer["modes"]} for answer in said]
    assert told[:3] == [
        {"orders": "mirror", "bills": "mirror"},
        {"orders": "new-primary", "bills": "new-primary"},
        {"bills": "old-only"},
    ]
    assert told[3]["orders"] == "new-primary" and told[3]["bills"] == "old-only"
    shown = command(tmp_path, commands[3] + place.removesuffix(" --json"), {})
    assert "new-primary" in shown
    command(tmp_path, commands[2].replace("bills", "orders") + place, {})
    said = [command(tmp_path, one + place, {}) for one in shares]
    found = [json.loads(one)["modes"][0] for one in said]
    assert [(one["consumers"], one["keys"]) for one in found] == [
        (["billing", "alice"], 0),
        ([], 10),
    ]
    assert "10 % of keys" in command(tmp_path, commands[3] + place.removesuffix(" --json"), {})
    with pytest.raises(AssertionError, match="new-primary comes between"):
        command(tmp_path, f"amqp-gateway bridge mode new-only -q bills {place}", {})


def test_what_cannot_be_changed_is_refused(front: Running) -> None:
    answer = ask(front, "new-only", "never")
    assert answer.status_code == 409 and "new-primary" in answer.json()["detail"]
    assert ask(front, "shadow").status_code == 400
    assert ask(front, "shadow", "x" * 300).status_code == 400
    assert ask(front, "nothing", "x").status_code == 422
    url = f"http://127.0.0.1:{front.http_port}/v1/admin/facades/none/modes"
    answer = httpx.get(url, auth=("guest", "guest"), trust_env=False)
    assert answer.status_code == 404


@pytest.mark.parametrize("versions", [("0-9-1", "0-9-1"), ("0-10", "1.0")])
def test_a_fetch_gets_no_copy(
    brokers: tuple[Running, Running], tmp_path: Path, versions: tuple[str, str]
) -> None:
    """A copy lies before the message that is fetched, or that a client drains its credit for."""
    old, new = brokers

    async def use(port: int) -> None:
        queue = f"fetched-{versions[0]}"
        writer, *readers = [await entered(old.port), *[await entered(port, v) for v in CLIENTS]]
        await writer.request(DeclareQueue(1, None, queue, durable=True))
        for round, reader in enumerate(readers):
            first = 2 * round
            copies = [copy_of(message(n, queue), f"id-{n}") for n in (first, first + 1)]
            await writer.request(EndSession(1, None))
            await writer.request(BeginSession(1, None))
            assert await confirmed(writer, [*copies, message(9, queue)]) == 3
            fetched = await reader.request(Fetch(1, None, queue, True))
            assert isinstance(fetched, Fetched) and fetched.message.body == b"body 9"
            assert await reader.request(Fetch(1, None, queue, True)) is None
        for remote in (writer, *readers):
            await remote.close()

    with between(tmp_path, old.port, new.port, versions) as front:
        run(use(front.port))

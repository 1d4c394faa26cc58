"""Each row of the departures in docs/facade.md is tried, and goes when its reason does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import httpx
import pytest

from gateway.errors import Condition, Refusal
from gateway.net.dialer import Remote
from gateway.operations import (
    Commit,
    DeclareQueue,
    Fetch,
    Modify,
    Outcome,
    Publish,
    Select,
    SelectBranches,
    SessionLost,
    Settle,
    Subscribe,
)
from tests.adapters.test_departures import table
from tests.bridge.test_facade import confirmed, deliveries, entered, facade, message, numbers
from tests.net.running import PATIENCE, Running, until


class House:
    """A broker, a facade whose user there is not that of its clients, and a second facade."""

    def __init__(self, old: Running, front: Running, other: Running) -> None:
        self.old, self.front, self.other = old, front, other


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    folder = tmp_path_factory.mktemp("house")
    with Running(folder / "old", amqp__channel_max=12) as old:
        url = f"http://127.0.0.1:{old.http_port}/v1/admin/users/bridge"
        for path, body in (
            ("", {"password": "bridge", "tags": []}),
            ("/permissions/%2F", {"configure": ".*", "write": ".*", "read": ".*"}),
        ):
            made = httpx.put(url + path, json=body, auth=("guest", "guest"), timeout=PATIENCE)
            assert made.is_success, made.text
        user = 'user = "bridge"\npassword = "bridge"\n'
        with (
            facade(folder / "one", old.port, upstream=user) as front,
            facade(folder / "two", old.port) as other,
        ):
            yield House(old, front, other)


async def declared(port: int, queue: str, version: str = "0-9-1") -> Remote:
    remote = await entered(port)
    await remote.request(DeclareQueue(1, None, queue, durable=True))
    if version == "0-9-1":
        return remote
    await remote.close()
    return await entered(port, version)


async def several_subscriptions(house: House) -> None:
    remote = await declared(house.front.port, "first-of-two")
    await remote.request(DeclareQueue(1, None, "second-of-two", durable=True))
    await remote.request(Select(1, None))
    for queue in ("first-of-two", "second-of-two"):
        remote.send(Publish(1, message(1, queue), False, False))
    await remote.request(Commit(1, None))
    for queue in ("first-of-two", "second-of-two"):
        await remote.request(Subscribe(1, None, queue))
    for one in await deliveries(remote, 2):
        remote.send(Settle(1, one.delivery, False, Outcome.ACCEPT))
    with pytest.raises(Refusal) as refused:
        await remote.request(Commit(1, None))
    assert refused.value.condition is Condition.NOT_IMPLEMENTED
    await remote.close()


async def branches(house: House) -> None:
    remote = await entered(house.front.port, "0-10")
    with pytest.raises(Refusal) as refused:
        await remote.request(SelectBranches(1, None))
    assert refused.value.condition is Condition.NOT_IMPLEMENTED
    await remote.close()


async def batches(house: House) -> None:
    await (await declared(house.front.port, "batched")).close()
    answer = await asyncio.to_thread(
        httpx.post,
        f"http://127.0.0.1:{house.front.http_port}/v1/%2F/queues/batched/messages",
        json={"messages": [{"body": "x"}], "atomic": True},
        headers={"Content-Type": "application/vnd.amqp-gateway.batch+json"},
        auth=("guest", "guest"),
    )
    assert answer.status_code == 501


async def browsing_and_filters(house: House) -> None:
    remote = await declared(house.front.port, "browsed", "0-10")
    with pytest.raises(Refusal) as refused:
        await remote.request(Subscribe(1, None, "browsed", copy=True))
    assert refused.value.condition is Condition.NOT_IMPLEMENTED
    await remote.close()


async def no_local(house: House) -> None:
    remote = await declared(house.front.port, "local")
    await remote.request(Subscribe(1, None, "local", no_local=True))
    remote.send(Publish(1, message(1, "local"), False, False))
    remote.wake()
    assert numbers(await deliveries(remote, 1)) == [1]
    await remote.close()


async def many_consumers(house: House) -> None:
    remote = await declared(house.front.port, "crowded")
    with pytest.raises(Refusal) as refused:
        for _ in range(12):
            await remote.request(Subscribe(1, None, "crowded"))
    assert refused.value.condition is Condition.RESOURCE_ERROR
    await remote.close()


async def immediate(house: House) -> None:
    remote = await declared(house.front.port, "immediate", "0-9")
    remote.send(Publish(1, message(1, "immediate"), False, True))
    remote.wake()
    async for operation in remote:
        if isinstance(operation, SessionLost):
            assert operation.condition is Condition.NOT_IMPLEMENTED
            break
    await remote.close()


async def user_id(house: House) -> None:
    remote = await declared(house.front.port, "sent")
    assert await confirmed(remote, [message(1, "sent", user_id=b"guest")]) == 1
    direct = await entered(house.old.port)
    fetched = await direct.request(Fetch(1, None, "sent", no_ack=True))
    assert fetched.message.properties.user_id is None
    assert await confirmed(direct, [message(1, "sent", user_id=b"guest")]) == 1
    fetched = await direct.request(Fetch(1, None, "sent", no_ack=True))
    assert fetched.message.properties.user_id == b"guest"
    await remote.close()
    await direct.close()


async def modifications(house: House) -> None:
    remote = await declared(house.front.port, "modified")
    assert await confirmed(remote, [message(1, "modified")]) == 1
    reader = await entered(house.front.port, "1.0")
    await reader.request(Subscribe(1, None, "modified"))
    (first,) = await deliveries(reader, 1)
    reader.send(Modify(1, first.delivery, True, False, {"x-opt-note": "read"}))
    reader.wake()
    (again,) = await deliveries(reader, 1)
    assert "x-opt-note" not in (again.message.properties.annotations or {})
    await reader.close()
    await remote.close()


Probe = Callable[[House], Coroutine[Any, Any, None]]
PROBES: dict[str, Probe] = {
    "several-subscriptions": several_subscriptions,
    "distributed-transactions": branches,
    "atomic-batches": batches,
    "browsing-and-filters": browsing_and_filters,
    "no-local": no_local,
    "many-consumers": many_consumers,
    "immediate": immediate,
    "user-id": user_id,
    "modifications": modifications,
}


def test_the_table_has_what_is_tried() -> None:
    assert [row[0] for row in table("facade.md")] == list(PROBES)


@pytest.mark.parametrize("name", PROBES)
def test_departures(house: House, name: str) -> None:
    async def tried() -> None:
        await asyncio.wait_for(PROBES[name](house), PATIENCE)

    asyncio.run(tried())
    until(lambda: house.front.asked("/v1/admin/facades")["facades"][0]["state"] == "connected", "")

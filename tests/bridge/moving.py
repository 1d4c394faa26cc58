"""Gateways with shovels, and what tests do to both ends of one: declare, publish, take."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import httpx

from gateway.adapters.methods.content import BASIC
from gateway.bridge.remote_ends import confirms
from gateway.message import Message, Properties
from gateway.net.dialer import Remote, dial
from gateway.operations import (
    BeginSession,
    Blocked,
    Commit,
    Confirm,
    DeclareQueue,
    Deliver,
    Outcome,
    Publish,
    Select,
    Settle,
    Subscribe,
    Unblocked,
)
from tests import in_memory
from tests.net.running import PATIENCE, Running, until


def configuration(folder: Path, port: int, shovels: str, version: str = "auto") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "gateway.toml"
    upstream = f"""
[[upstreams]]
name = "old"
addresses = ["amqp://127.0.0.1:{port}"]
version = "{version}"
"""
    file.write_text(upstream + shovels)
    return file


class Administered(Protocol):
    """A gateway; `Running` and `Server` of other tests are."""

    http_port: int | None


def asked(gateway: Administered, path: str) -> Any:
    """What the administration answers."""
    url = f"http://127.0.0.1:{gateway.http_port}{path}"
    answer = httpx.get(url, auth=("guest", "guest"), timeout=PATIENCE)
    return answer.raise_for_status().json()


def shovels(running: Running) -> dict[str, Any]:
    return {one["name"]: one for one in running.asked("/v1/admin/shovels")["shovels"]}


class Listening(Protocol):
    """A broker on the loopback."""

    @property
    def port(self) -> int: ...


def declare(broker: Listening, *queues: str) -> None:
    """Durable queues; a shovel waits until its queue exists."""

    async def all_of_them() -> None:
        remote = await entered(broker.port)
        for name in queues:
            await remote.request(DeclareQueue(1, None, name, durable=True))
        await remote.close()

    asyncio.run(all_of_them())


async def entered(port: int, version: str = "0-9-1") -> Remote:
    remote = await dial(("127.0.0.1", port), version=version)
    try:
        await remote.request(BeginSession(1, None))
    except BaseException:
        await remote.close()
        raise
    return remote


def message(n: int, key: str, exchange: str = "") -> Message:
    """A durable message that no other is like."""
    properties = Properties(durable=True, application={"n": n, "text": f"ü {n}"})
    return with_properties(properties, f"body {n}".encode(), key, exchange)


def with_properties(properties: Properties, body: bytes, key: str, exchange: str = "") -> Message:
    header = BASIC.write(properties)
    return Message(BASIC, header, body, exchange, key, BASIC.essentials(header))


def publish(
    port: int, key: str, numbers: Sequence[int], exchange: str = "", version: str = "0-9-1"
) -> None:
    """Publish and wait until all are confirmed."""
    publish_all(port, [message(n, key, exchange) for n in numbers], version)


def publish_all(port: int, messages: Sequence[Message], version: str = "0-9-1") -> None:
    """Publish and wait until all are confirmed; in a version without confirms, committed."""

    async def confirmed() -> None:
        remote = await entered(port, version)
        try:
            if not await confirms(remote):
                await remote.request(Select(1, None))
                for each in messages:
                    remote.send(Publish(1, each, True, False))
                await remote.request(Commit(1, None))
                return
            for each in messages:
                remote.send(Publish(1, each, True, False))
            remote.wake()
            async for operation in remote:
                if isinstance(operation, Blocked | Unblocked):
                    continue
                assert isinstance(operation, Confirm), operation
                assert operation.accepted
                if operation.sequence == len(messages):
                    return
        finally:
            await remote.close()

    asyncio.run(asyncio.wait_for(confirmed(), PATIENCE))


def taken(port: int, queue: str, enough: int) -> list[Deliver]:
    """Accept messages until there were so many different ones."""
    found: list[Deliver] = []

    async def take() -> None:
        remote = await entered(port)
        await remote.request(Subscribe(1, None, queue))
        different = set()
        async for operation in remote:
            assert isinstance(operation, Deliver), operation
            found.append(operation)
            remote.send(Settle(1, operation.delivery, False, Outcome.ACCEPT))
            remote.wake()
            different.add(in_memory.text(operation.message))
            if len(different) == enough:
                break
        await remote.close()

    asyncio.run(asyncio.wait_for(take(), PATIENCE))
    return found


def empty(running: Running, queue: str) -> bool:
    found = running.asked(f"/api/queues/%2F/{queue}")
    return bool(found["messages"] == 0)


def pause(running: Running, name: str) -> None:
    act(running, name, "pause")
    until(lambda: shovels(running)[name]["state"] == "paused", "paused")


def resume(running: Running, name: str) -> None:
    act(running, name, "resume")


def act(running: Running, name: str, action: str) -> None:
    url = f"http://127.0.0.1:{running.http_port}/v1/admin/shovels/{name}/{action}"
    httpx.post(url, auth=("guest", "guest"), timeout=PATIENCE).raise_for_status()

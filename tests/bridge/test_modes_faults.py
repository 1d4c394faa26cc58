"""A broker, the network before one, or the gateway fails in the middle of a change of mode."""

import asyncio
import contextlib
import random
from pathlib import Path
from typing import Any

import httpx
import pytest

from gateway.operations import Subscribe
from tests.bridge import faults
from tests.bridge.faults import Fault
from tests.bridge.relay import Relay
from tests.bridge.test_facade import confirmed, deliveries, entered, message, run
from tests.bridge.test_facade_faults import busy
from tests.bridge.test_modes import between, made, modes, post
from tests.bridge.traffic import Traffic
from tests.net.running import PATIENCE, Running, until

CLIENTS = ("0-9-1", "1.0")
QUEUES = ("orders", "bills")
Change = dict[str, Any]
"""What is asked for: a mode, and perhaps a share."""
WAITING = "waiting"
"""A queue that nobody reads before the end."""
BACKLOG = 1000
CHANGES: list[Change] = [
    {"mode": mode}
    for mode in (
        "new-primary",
        "old-only",
        "mirror",
        "new-primary",
        "new-only",
        "new-primary",
        "mirror",
    )
]
SHARES: list[Change] = [
    {"mode": "old-only", "keys": 50},
    {"mode": "old-only", "keys": 90},
    {"mode": "old-only", "consumers": ["guest"]},
    {"mode": "new-primary"},
    {"mode": "old-only", "consumers": ["guest"], "percent": 50},
    {"mode": "old-only", "keys": 20},
]
ATTEMPTS = 5


class Front:
    """The gateway, which comes back on another port when it was killed. Its clients know."""

    def __init__(self, gateway: Running) -> None:
        self.gateway = gateway
        self.ports = [gateway.port]

    @property
    def port(self) -> int:
        return self.gateway.port

    def kill(self) -> None:
        self.gateway.kill()

    def start(self) -> None:
        self.gateway.start()
        self.ports[0] = self.gateway.port

    def modes(self) -> dict[str, dict[str, Any]]:
        """Of the queues, when no change is under way."""
        until(lambda: not any(one["target"] for one in modes(self.gateway).values()), "its end")
        return modes(self.gateway)

    def ask(self, change: Change) -> None:
        answer = post(self.gateway, {**change, "queues": [*QUEUES, WAITING]})
        assert answer.status_code == 202, answer.text

    def change(self, change: Change) -> None:
        """Repeat a change until all queues have changed; those that have not, say why."""
        for _ in range(ATTEMPTS):
            told = self.modes()
            failed = {name: one["error"] for name, one in told.items() if not is_made(change, one)}
            if not failed and len(told) == len(QUEUES) + 1:
                return
            self.ask(change)
        raise AssertionError(f"{change}: {failed}")


def is_made(change: Change, told: dict[str, Any]) -> bool:
    wanted = {"keys": 0, "consumers": [], "percent": 0, **change}
    return all(told[name] == value for name, value in wanted.items())


def survive(
    front: Front,
    known: dict[str, Fault],
    count: int,
    seed: int,
    changes: list[Change] = CHANGES,
) -> None:
    """Change modes, with a fault in the middle of each change; then the change is made, or says why
    not and can be made again. Nothing confirmed is lost."""
    dice = random.Random(seed)
    names: list[str] = []
    while len(names) < count:
        names += dice.sample(list(known), k=len(known))
    flows = [Traffic(queue, front.ports, CLIENTS) for queue in QUEUES]
    happened: list[str] = []

    async def change_all() -> None:
        for flow in flows:
            await busy(flow)
        for number, name in enumerate(names[:count]):
            change = changes[number % len(changes)]
            happened.append(f"{change}: {name}")
            await asyncio.to_thread(front.ask, change)
            await asyncio.sleep(dice.uniform(0, 0.6))
            await asyncio.to_thread(known[name], dice)
            told = await asyncio.to_thread(front.modes)
            for one in told.values():
                assert is_made(change, one) or one["error"], one
            await asyncio.to_thread(front.change, change)
        for flow in flows:
            await busy(flow)

    async def all_of_it() -> None:
        changing = asyncio.create_task(change_all())
        async with asyncio.timeout(PATIENCE + 60 * count):
            await asyncio.gather(*(flow.run(changing) for flow in flows))

    async def fill() -> None:
        await made(front.gateway, *QUEUES, WAITING)
        remote = await entered(front.port)
        sent = [message(n, WAITING) for n in range(BACKLOG)]
        assert await confirmed(remote, sent) == BACKLOG
        await remote.close()

    async def empty() -> None:
        remote = await entered(front.port)
        await remote.request(Subscribe(1, None, WAITING))
        found: set[bytes] = set()
        while len(found) < BACKLOG:
            found |= {bytes(one.message.body[:]) for one in await deliveries(remote, 1)}
        await remote.close()

    run(fill())
    try:
        asyncio.run(all_of_it())
        run(empty())
    except (AssertionError, TimeoutError, httpx.HTTPError) as error:
        lost = {one.queue: sorted(one.confirmed - set(one.taken))[:20] for one in flows}
        told = modes(front.gateway)
        raise AssertionError(f"{happened[-3:]}: {lost} lost, {error!r}, {told}") from error


@pytest.mark.parametrize("changes", [CHANGES, SHARES], ids=["modes", "shares"])
def test_changes_of_mode_with_faults(tmp_path: Path, changes: list[Change]) -> None:
    with contextlib.ExitStack() as stack:
        old, new = (stack.enter_context(Running(tmp_path / name)) for name in ("old", "new"))
        near, far = (stack.enter_context(Relay(one.port)) for one in (old, new))
        front = Front(stack.enter_context(between(tmp_path / "front", near.port, far.port)))
        known = {
            "the gateway is killed": faults.kills(front),
            "the new broker is killed": faults.kills(new, far),
            "the old broker is killed": faults.kills(old, near),
            "the new broker is cut off": faults.cuts(far),
            "the old broker is cut off": faults.cuts(near),
            "the new broker is far away": faults.delays(far),
        }
        survive(front, known, len(known), 3, changes)

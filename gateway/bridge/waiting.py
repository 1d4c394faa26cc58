"""Waiting for another broker: for the answers that operations on a facade need, and for the end
of a connection."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from contextlib import AbstractContextManager
from typing import Any, TypeVar

from gateway.broker.broker import Broker
from gateway.broker.local import LocalChannel
from gateway.errors import AwaitsUpstream, GatewayError, Refusal

log = logging.getLogger("gateway.bridge")

Turn = Callable[[], AbstractContextManager[None]]
T = TypeVar("T")


async def met(condition: Callable[[], object], step: float, seconds: float = float("inf")) -> bool:
    """Wait until a condition holds, looking every ``step`` seconds; whether it did in time."""
    end = asyncio.get_running_loop().time() + seconds
    while True:
        if condition():
            return True
        if asyncio.get_running_loop().time() > end:
            return False
        await asyncio.sleep(step)


async def until_answered(
    turn: Turn, work: Callable[[], T], channel: Callable[[], LocalChannel] | None = None
) -> T:
    """The result of some work, each time within a turn: again as often as the upstream has given
    an answer that it needs. ``channel`` is the one that asks, if there is one."""
    again = False
    while True:
        with turn():
            try:
                if channel is None:
                    return work()
                with channel().answered(again):
                    return work()
            except AwaitsUpstream as waits:
                answer = waits.answer
        come = asyncio.Event()
        answer.then(come.set)
        await come.wait()
        again = True


async def know(broker: Broker, turn: Turn, vhost: str, kind: str, name: str) -> None:
    """Look a queue or an exchange up, if it is one of an upstream. Whether it is there is found
    out by the operation that follows."""
    host = broker.facades.get(vhost)
    if host is None:
        return
    names: dict[str, object] = host.queues if kind == "queue" else host.exchanges  # type: ignore[assignment]
    try:
        await until_answered(turn, lambda: name in names)
    except Refusal:
        return


async def quietly(closing: Coroutine[Any, Any, None]) -> None:
    """Close a connection that may be lost already."""
    try:
        await closing
    except (OSError, GatewayError) as error:
        log.debug("closing: %s", error)

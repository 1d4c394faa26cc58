"""Waiting for the answers of an upstream that operations on a facade need."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TypeVar

from gateway.broker.broker import Broker
from gateway.broker.local import LocalChannel
from gateway.errors import AwaitsUpstream, Refusal

Turn = Callable[[], AbstractContextManager[None]]
T = TypeVar("T")


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

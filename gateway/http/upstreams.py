"""Requests over HTTP to a facade, a virtual host whose queues live on an upstream.

The upstream answers later, so what needs its answer is done again when that has come
(``until_answered``). The nodes that a request names are looked up before it is served.
"""

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TypeVar

from starlette.types import Scope

from gateway.broker.broker import Broker
from gateway.broker.local import LocalChannel
from gateway.errors import AwaitsUpstream, Refusal
from gateway.http.path_segments import decode_segment

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
    out by the request."""
    host = broker.facades.get(vhost)
    if host is None:
        return
    names: dict[str, object] = host.queues if kind == "queue" else host.exchanges  # type: ignore[assignment]
    try:
        await until_answered(turn, lambda: name in names)
    except Refusal:
        return


async def know_path(broker: Broker, turn: Turn, scope: Scope) -> None:
    """Look the queue and the exchange up that the path of a request names."""
    path = scope.get("path_params") or {}
    if "vhost" not in path:
        return
    vhost = decode_segment(path["vhost"])
    for kind in ("queue", "exchange"):
        if kind in path:
            await know(broker, turn, vhost, kind, decode_segment(path[kind]))

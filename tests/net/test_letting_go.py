"""A login makes no circle that garbage collection would have to find: peers that come and fail by
the thousand would fill the memory."""

import asyncio
import gc
import weakref
from typing import Any

import pytest

from gateway.adapters import Role, adapter_for
from gateway.broker.access import Access
from gateway.broker.memory_store import MemoryStore
from gateway.config.web import AccessSettings
from gateway.net.login import Login
from gateway.net.passwords import Passwords
from tests.adapters.test_waiting import VERSIONS, said


class Peer:
    """A connection, as its login knows it."""

    def __init__(self) -> None:
        self.address, self.host, self.loopback = "192.0.2.1:5", "192.0.2.1", True
        self.holding = False
        self.login: Any = None
        self.adapter: Any = None

    def hold_for_login(self) -> None:
        self.holding = True

    def settled(self, answer: Any) -> None:
        self.holding = False
        answer()

    def lost(self) -> None:
        self.adapter.lost()
        self.adapter.release()
        self.login.leave()
        self.adapter = None


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("gone", [False, True], ids=["answered", "gone meanwhile"])
def test_nothing_stays_of_a_failed_login(version: str, gone: bool) -> None:
    asyncio.run(failed(version, gone))


async def failed(version: str, gone: bool) -> None:
    access = Access(MemoryStore(), 4096)
    passwords = Passwords(access, lambda: 0.0, AccessSettings())
    peer = Peer()
    peer.login = Login(peer, access, passwords, None)
    peer.adapter = adapter_for(version, Role.SERVER, authority=peer.login)
    parts = [weakref.ref(peer), weakref.ref(peer.login), weakref.ref(peer.adapter)]
    inner = getattr(peer.adapter, "connection", None) or getattr(peer.adapter, "negotiation", None)
    if inner is not None:
        parts.append(weakref.ref(inner))
    del inner
    gc.collect()
    gc.disable()
    try:
        peer.adapter.receive(said(version, "wrong"))
        assert peer.holding
        checking = peer.login._task
        if gone:
            peer.lost()
        async with asyncio.timeout(60):
            await checking
        del checking
        if not gone:
            assert not peer.holding
            peer.lost()
        del peer
        for _ in range(10):
            await asyncio.sleep(0)
        assert [part() for part in parts] == [None] * len(parts)
    finally:
        gc.enable()
        passwords.close()

"""The proxy in the test's own process, before a broker."""

import asyncio
import threading
from pathlib import Path
from typing import Any, Self

from gateway.config.bridge import read_address
from gateway.inventory.document import load
from gateway.inventory.inventory import Inventory
from gateway.inventory.observing import Observing, Plan
from tests.inventory.hashing import HashingRelay


def loop_of_users() -> asyncio.AbstractEventLoop:
    """The loop that the command runs on."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


class Observed:
    """The proxy on a thread of its own, with a relay on each side. Use as a context manager; the
    inventory is there afterwards. Clients connect to ``port``."""

    def __init__(
        self, target: int, file: Path, behind: HashingRelay | None = None, **plan: Any
    ) -> None:
        """``behind``: the relay to the broker, if it is to outlive this."""
        self._target, self._file, self._plan = target, file, plan
        self._lent = behind
        self.inventory: Inventory

    def __enter__(self) -> Self:
        self.behind = self._lent or HashingRelay(self._target)
        self._loop = loop_of_users()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        upstream = read_address(f"amqp://127.0.0.1:{self.behind.port}")
        given = {"seconds": 0.05, **self._plan}
        self.observing = Observing(Plan("127.0.0.1", 0, upstream, self._file, **given))
        self._call(self.observing.__aenter__())
        self.before = HashingRelay(self.observing.port)
        self.port = self.before.port
        return self

    def _call(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(60)

    def __exit__(self, *_: object) -> None:
        self.before.__exit__()
        self._call(self.observing.__aexit__())
        if self._lent is None:
            self.behind.__exit__()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self.inventory = load(self._file)

    @property
    def unchanged(self) -> bool:
        """Whether both relays have seen the same octets."""
        return bool(self.before.seen) and self.before.seen == self.behind.seen

    def features(self) -> set[str]:
        """Features of all clients."""
        return {name for one in self.inventory.clients.values() for name in one.features.used}

    def node(self, kind: str, name: str) -> Any:
        """The entry of a node, in whichever virtual host."""
        found = {key[1:]: node for key, node in self.inventory.nodes.items()}
        return found[kind, name]

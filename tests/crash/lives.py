"""Clients at work on a gateway until its process is killed."""

import contextlib
import threading
from collections.abc import Callable

import httpx

from tests.net.running import Running, until
from tests.net.wire import Gone

KILLED = (Gone, ConnectionError, httpx.TransportError)
"""How a client notices that the process is gone."""


class Life:
    """One life of a gateway: clients at work in threads of their own, and its end."""

    def __init__(self, gateway: Running) -> None:
        self.gateway = gateway
        self.errors: list[BaseException] = []
        """What the clients raised for another reason than that the process was killed."""
        self._threads: list[threading.Thread] = []

    def work(self, job: Callable[..., None], *arguments: object) -> None:
        """Run this in a thread until the process is gone."""

        def run() -> None:
            try:
                with contextlib.suppress(*KILLED):
                    job(*arguments)
            except BaseException as error:
                self.errors.append(error)

        thread = threading.Thread(target=run)
        self._threads.append(thread)
        thread.start()

    def until(self, condition: Callable[[], object], what: str) -> None:
        """Wait for a condition, or for a client that failed."""
        until(lambda: self.errors or condition(), what)

    def kill(self, after: float = 0) -> None:
        """Kill the process after so many seconds, in which the clients go on; no client failed."""
        killer = threading.Timer(after, self.gateway.kill)
        killer.start()
        for thread in [killer, *self._threads]:
            thread.join()
        assert not self.errors, self.errors

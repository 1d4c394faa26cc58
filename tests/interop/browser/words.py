"""What the tests of event streams in a browser share: patience, and somebody who publishes."""

from __future__ import annotations

import json
import os
import random
import threading
import time
import zlib
from collections.abc import Callable
from typing import Any

from tests.interop.servers import HOST

PATIENCE = 60.0


def until(page: Any, true: Callable[[], bool], what: str, seconds: float = PATIENCE) -> None:
    """Wait while the browser's messages are seen to."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, f"not in {seconds:.0f} s: {what}"
        page.wait_for_timeout(50)


def drawn(name: str) -> int:
    """The seed of a test: the same each time, another each time with ``FUZZ=1``."""
    return random.randrange(1 << 32) if "FUZZ" in os.environ else zlib.crc32(name.encode())


class Publisher(threading.Thread):
    """pika publishing numbered messages in bursts until it is told to stop."""

    def __init__(self, port: int, exchange: str, key: str, seed: int) -> None:
        super().__init__(daemon=True)
        self.port, self.exchange, self.key = port, exchange, key
        self.random = random.Random(seed)
        self.enough = threading.Event()
        self.burst = threading.Event()
        """Set to have many messages published at once; cleared when they are under way."""
        self.published = 0
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            self.publish()
        except BaseException as error:
            self.error = error

    def publish(self) -> None:
        import pika

        connection = pika.BlockingConnection(pika.ConnectionParameters(HOST, self.port))
        channel = connection.channel()
        channel.confirm_delivery()
        properties = pika.BasicProperties(content_type="application/json")
        while not self.enough.is_set():
            count, filler = self.random.randint(1, 20), 10
            if self.burst.is_set():
                count, filler = 150, 4000
                self.burst.clear()
            for _ in range(count):
                body = json.dumps({"n": self.published, "filler": "x" * filler})
                channel.basic_publish(self.exchange, self.key, body.encode(), properties)
                self.published += 1
            time.sleep(self.random.uniform(0, 0.06))
        connection.close()

"""What one gateway holds, and what that costs: the table "Capacity" of docs/operations.md.

``python -m benchmarks.capacity [--million]``. Sizes, not speeds: they hardly depend on the machine.
"""

import argparse
import base64
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from benchmarks.client import Client
from benchmarks.drivers import Driver
from benchmarks.memory import idle_connection, queued_messages, settled_rss
from benchmarks.servers import Server, gateway

STREAMS = 500
SIZES = {"256 octets": 256, "1 KiB": 1 << 10, "16 KiB": 16 << 10, "64 KiB": 64 << 10}
"""Bodies. One of `limits.large_octets` or more is a file of its size."""
OCTETS = 1 << 27
"""Of the bodies of each size."""
QUEUE = "capacity"


def publish(server: Server, size: int, count: int) -> None:
    """Durable messages, confirmed."""
    window = max(4, min(1000, (16 << 20) // size))
    driver = Driver("producer", server.amqp_port, "", QUEUE, size, count, 1, window, 0, 600)
    try:
        driver.result()
    finally:
        driver.stop()


def on_disk(folder: Path) -> int:
    """Octets of files, without the reserve."""
    files = [path for path in folder.rglob("*") if path.is_file() and path.name != "reserve"]
    return sum(path.stat().st_size for path in files)


def event_stream(server: Server) -> float:
    """Octets of memory per event stream that is open and silent."""
    asked = (
        "GET /v1/%2F/events?source=queue:capacity&format=json HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        f"Authorization: Basic {base64.b64encode(b'guest:guest').decode()}\r\n\r\n"
    ).encode()
    before = settled_rss(server)
    with ExitStack() as stack:
        for _ in range(STREAMS):
            made = stack.enter_context(socket.create_connection(("127.0.0.1", server.http_port)))
            made.sendall(asked)
            assert made.recv(1 << 16).startswith(b"HTTP/1.1 200"), "no event stream"
        return (settled_rss(server) - before) / STREAMS


def declare(server: Server) -> None:
    client = Client(server.amqp_port)
    client.declare_queue(QUEUE, durable=True)
    client.close()


def disk(size: int, *more: str) -> tuple[float, float]:
    """Octets on disk per durable message, and of memory."""
    count = max(100, min(100_000, OCTETS // size))
    with tempfile.TemporaryDirectory(prefix="capacity-") as folder:
        with gateway("--data-dir", folder, *more) as server:
            declare(server)
            publish(server, size, 10)
            before = settled_rss(server)
            publish(server, size, count)
            memory = (settled_rss(server) - before) / count
        # Stopped, the database has all, and is no longer than that.
        return on_disk(Path(folder)) / (count + 10), memory


def started_with(count: int) -> Iterator[tuple[str, str]]:
    """A gateway that begins with durable messages of 256 octets, and its backup."""
    with tempfile.TemporaryDirectory(prefix="capacity-") as folder:
        data, target = Path(folder) / "data", Path(folder) / "backup"
        with gateway("--data-dir", str(data)) as server:
            empty = server.started_in
            declare(server)
            publish(server, 256, count)
        with gateway("--data-dir", str(data)) as server:
            yield (
                f"start with {count:,} durable messages of 256 octets",
                f"{server.started_in:.1f} s (empty {empty:.1f} s), {settled_rss(server) >> 20} MiB",
            )
            begun = time.monotonic()
            command = [sys.executable, "-m", "gateway", "backup", str(target)]
            subprocess.run([*command, "--data-dir", str(data)], check=True, capture_output=True)
            took = time.monotonic() - begun
            yield f"backup of these, {on_disk(target) >> 20} MiB", f"{took:.1f} s"


def figures(count: int) -> Iterator[tuple[str, str]]:
    with gateway() as server:
        yield "memory of a gateway without anything", f"{settled_rss(server) >> 20} MiB"
        yield "per silent connection of 0-9-1", f"{idle_connection(server) / 1024:.0f} KiB"
        declare(server)
        yield "per silent event stream", f"{event_stream(server) / 1024:.0f} KiB"
    with gateway() as server:
        octets, _ = queued_messages(server, min(count, 200_000))
        yield "per message of 256 octets that waits in memory", f"{octets:.0f} octets"
    for label, size in SIZES.items():
        octets, memory = disk(size)
        yield f"disk per durable message of {label}", f"{octets:,.0f} octets"
        yield "memory for it, while there is plenty", f"{memory:,.0f} octets"
    with tempfile.TemporaryDirectory(prefix="capacity-") as folder:
        file = Path(folder) / "gateway.toml"
        file.write_text("[journal]\nseal = false\n[[journal.recording]]\n")
        octets, _ = disk(256, "--config", str(file))
        yield "disk per durable message of 256 octets that is recorded too", f"{octets:,.0f} octets"
    yield from started_with(count)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.capacity", description=__doc__)
    parser.add_argument("--million", action="store_true", help="begin with a million messages")
    count = 1_000_000 if parser.parse_args().million else 100_000
    print(f"{os.cpu_count()} processors\n\n| what | how much |\n|---|---|")
    for what, how_much in figures(count):
        print(f"| {what} | {how_much} |", flush=True)


if __name__ == "__main__":
    main()

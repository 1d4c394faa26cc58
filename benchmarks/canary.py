"""How long one connection waits while another asks for much: the longest round trip of a canary,
which publishes and fetches one small message again and again, during each scenario of ``stalls``.

Run as a program it is the canary: `python -m benchmarks.canary PORT durable|transient`. It says
"ready", and at the end of its input its round trips in milliseconds.
"""

import json
import os
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial

from benchmarks import stalls, stalls_0_10
from benchmarks.client import Client, short
from benchmarks.rows import Row, compare
from benchmarks.servers import Failed, Missing, Server, gateway, rabbitmq
from benchmarks.stalls import Scenario, publish

GROUP = "canary"
PAUSE = 0.002
"""Seconds between two round trips."""
AFTER = 0.3
"""Seconds that the canary goes on when the work is done."""
QUICK = 0.05

Starter = Callable[[], AbstractContextManager[Server]]


def trips(port: int, durable: bool, ended: threading.Event) -> Iterator[float]:
    """Seconds of each round trip: a publish and a get; or a durable publish and its confirm."""
    client = Client(port)
    client.socket.settimeout(120)
    client.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    name = f"canary-{os.getpid()}"
    client.declare_queue(name, durable)
    if durable:
        client.ask((85, 10), b"\0")
    one = publish("", name, b"tweet", durable)
    print("ready", flush=True)
    while not ended.is_set():
        begun = time.monotonic()
        client.socket.sendall(one)
        if durable:
            client.expect((60, 80))
        else:
            client.socket.sendall(get(name))
            client.expect((60, 71))
            for _ in range(2):
                kind, _, length = struct.unpack(">BHI", client.exactly(7))
                client.exactly(length + 1)
        yield time.monotonic() - begun
        time.sleep(PAUSE)
    client.delete_queue(name)
    client.close()


def get(name: str) -> bytes:
    arguments = struct.pack(">HH", 60, 70) + b"\0\0" + short(name) + b"\1"
    return struct.pack(">BHI", 1, 1, len(arguments)) + arguments + b"\xce"


def sing(port: int, durable: bool) -> None:
    """Until the input ends."""
    ended = threading.Event()

    def listen() -> None:
        sys.stdin.read()
        ended.set()

    threading.Thread(target=listen, daemon=True).start()
    found = sorted(1000 * seconds for seconds in trips(port, durable, ended))
    print(json.dumps({"longest": found[-1], "median": found[len(found) // 2], "trips": len(found)}))


def watched(server: Server, scenario: Scenario, scale: float) -> dict[str, float]:
    """What the canary says about the scenario's work."""
    scenario.prepare(server, scale)
    kind = "durable" if scenario.durable else "transient"
    canary = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.canary", str(server.amqp_port), kind],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert canary.stdout is not None
        if canary.stdout.readline().strip() != "ready":
            raise Failed("the canary did not sing")
        time.sleep(AFTER)
        begun = time.monotonic()
        scenario.work(server, scale)
        took = time.monotonic() - begun
        time.sleep(AFTER)
        said, _ = canary.communicate("", timeout=180)
        found: dict[str, float] = {**json.loads(said), "work": took}
        return found
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        raise Failed(f"{scenario.name}: {error}") from None
    finally:
        canary.kill()
        canary.communicate()


def rows(wanted: Callable[[str], bool], quick: bool, repeat: int) -> Iterator[Row]:
    scale = QUICK if quick else 1.0
    for scenario in stalls.SCENARIOS + stalls_0_10.SCENARIOS:
        if not wanted(f"{GROUP} {scenario.name}"):
            continue
        starters: list[Starter] = [gateway]
        if scenario.theirs:
            starters.append(partial(rabbitmq, management=True))
        longest: list[list[float]] = [[], []]
        notes: list[str] = []
        row = Row(GROUP, f"{scenario.name}, longest round trip", "ms")
        row.against = "RabbitMQ" if scenario.theirs else ""
        for _ in range(repeat):
            for side, starter in enumerate(starters):
                try:
                    with starter() as server:
                        found = watched(server, scenario, scale)
                except (Missing, Failed) as why:
                    if str(why) not in notes:
                        notes.append(str(why))
                    continue
                longest[side].append(found["longest"])
                row.detail.setdefault(("ours", "theirs")[side], []).append(found)
        compare(row, *longest)
        for name, found in row.detail.items():
            medians = sorted(one["median"] for one in found)
            works = sorted(one["work"] for one in found)
            notes.append(f"{name}: median {medians[len(medians) // 2]:.1f} ms, {works[0]:.1f} s")
        row.note = "; ".join(notes) or "less is better"
        yield row


if __name__ == "__main__":
    sing(int(sys.argv[1]), sys.argv[2] == "durable")

"""Campaigns of replays: kills of executors, drivers and the gateway; a rate over a minute."""

import json
import random
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest

from gateway.journal.reader import JournalReader
from tests.interop.servers import ROOT, free_ports
from tests.net.running import Running, until
from tests.pipeline.conftest import needs_spark
from tests.pipeline.test_cluster import Cluster, cluster
from tests.pipeline.test_source import Filled, basic

__all__ = ["cluster"]

MESSAGES = 30_000
pytestmark = [pytest.mark.extras, pytest.mark.long, pytest.mark.timeout(900)]


def archive(folder: Path, messages: int) -> Path:
    """A journal of messages to two queues in turns."""
    filled = Filled(folder)
    for number in range(messages):
        filled.channel.publish(basic(number, "more" if number % 2 else "orders"))
        if number % 500 == 0:
            filled.commit()
    filled.commit()
    filled.store.close()
    return filled.folder


def arguments(gateway: Running, folder: Path, *more: str) -> list[str]:
    secret = folder / "secret"
    secret.write_text("guest")
    return [
        "replay", "--journal", str(folder), "--to", f"http://127.0.0.1:{gateway.http_port}",
        "--to-user", "guest", "--to-password-file", str(secret), "--replay-id", "again",
        "--target", "/queues/copies", "--json", *more,
    ]  # fmt: skip


def end(driver: subprocess.Popen[bytes]) -> None:
    """Kill a driver with all of its processes."""
    family = []
    with suppress(psutil.Error):
        process = psutil.Process(driver.pid)
        family = [process, *process.children(recursive=True)]
    for one in family:
        with suppress(psutil.Error):
            one.kill()
    driver.wait()


def progress(gateway: Running) -> int:
    found: list[Any] = gateway.asked("/v1/%2F/replays")["replays"]
    return int(found[0]["published"]) if found else 0


def copies(gateway: Running) -> None:
    wire = gateway.wire(1)
    wire.declare("copies", durable=True)
    wire.close()


def moved(driver: subprocess.Popen[bytes], gateway: Running, before: int) -> bool:
    return driver.poll() is not None or progress(gateway) > before


def found_or_over(cluster: Cluster, driver: subprocess.Popen[bytes]) -> Any:
    """The executors: tasks of a driver that was killed may still publish, for a moment."""
    return driver.poll() is not None or cluster.executors()


def test_executors_drivers_and_the_gateway_are_killed(cluster: Cluster, tmp_path: Path) -> None:
    """Each in the middle of a replay, which is started again when it has failed. The target has
    each message once."""
    chance = random.Random(7)
    folder = archive(tmp_path / "source", MESSAGES)
    plan = ["executor", "gateway", "driver", "executor"]
    kills: list[str] = []
    (port,) = free_ports(1)
    with Running(tmp_path / "target", "--http-port", port) as gateway:
        copies(gateway)
        while True:
            given = arguments(gateway, folder, "--rate", "1000/s")
            driver = cluster.submit(ROOT / "pyspark_amqp" / "__main__.py", *given)
            while driver.process.poll() is None and plan:
                before = progress(gateway)
                until(partial(moved, driver.process, gateway, before), "rows", 200)
                there = until(partial(found_or_over, cluster, driver.process), "executors", 200)
                time.sleep(chance.uniform(0, 0.5))
                if driver.process.poll() is not None:
                    break
                assert progress(gateway) < MESSAGES, "it was over before it was killed"
                kind = plan.pop(0)
                kills.append(kind)
                if kind == "gateway":
                    gateway.kill()
                    gateway.start()
                elif kind == "driver":
                    end(driver.process)
                else:
                    chance.choice(there).kill()
            if driver.process.wait(300) == 0:
                break
            assert kills, driver.log.read_text()[-5000:]
        told = json.loads(driver.printed.read_text())
        assert kills == ["executor", "gateway", "driver", "executor"]
        assert (told["messages"], told["rejected"]) == (MESSAGES, 0)
        assert 0 < told["before"] < MESSAGES
        assert progress(gateway) == MESSAGES
        found = gateway.wire(1).everything("copies")
    counts = Counter(found)
    assert len(found) == len(counts) == MESSAGES, [one for one, n in counts.items() if n > 1][:5]
    assert set(counts) == {b"body %d" % n for n in range(MESSAGES)}
    shown = {name: told[name] for name in ("before", "published", "duplicates")}
    print(kills, shown)  # noqa: T201


def test_five_hundred_per_second(tmp_path: Path) -> None:
    """Over a minute: 30 000 within three percent, and no second with more than 1000; by the times
    in the journal of the target."""
    needs_spark()
    folder = archive(tmp_path / "source", 33_000)
    recording = '[{"address": "/queues/copies"}]'
    with Running(tmp_path / "target", journal__recording=recording) as gateway:
        copies(gateway)
        command = [sys.executable, "-m", "pyspark_amqp"]
        command += arguments(gateway, folder, "--rate", "500/s")
        driver = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        try:
            out, _ = driver.communicate(timeout=300)
        finally:
            end(driver)
        assert driver.returncode == 0
        assert json.loads(out)["published"] == 33_000
        gateway.stop()
        reader = JournalReader(gateway.data)
        stamps: list[int] = []
        at = 0
        while at < reader.overview().end:
            portion = reader.read(at)
            stamps += [one.stamp for one in portion.entries]
            at = portion.next
        reader.close()
    first = min(stamps)
    within = [at - first for at in stamps if at < first + 60_000]
    seconds = Counter(at // 1000 for at in within)
    print(len(within), "in 60 s; seconds:", sorted(seconds.values()))  # noqa: T201
    assert len(within) == pytest.approx(30_000, rel=0.03)
    assert max(seconds.values()) <= 1000

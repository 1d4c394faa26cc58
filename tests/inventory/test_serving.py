"""Observe mode as its users start it: beside the gateway, and as a command of its own."""

import asyncio
import json
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from gateway.config import read_settings
from gateway.errors import ConfigError
from gateway.net.dialer import dial
from gateway.operations import BeginSession, DeclareQueue
from tests.net.preloaded import ROOT
from tests.net.running import PATIENCE, Running, environment, until


async def declare(port: int, queue: str) -> None:
    async with asyncio.timeout(PATIENCE):
        remote = await dial(("127.0.0.1", port), version="0-9-1")
        await remote.request(BeginSession(1, None))
        await remote.request(DeclareQueue(1, None, queue, durable=True, auto_delete=True))
        await remote.close()


def test_beside_the_gateway(tmp_path: Path) -> None:
    with Running(tmp_path / "old") as old:
        file = tmp_path / "gateway.toml"
        file.write_text(f"""
[[observe]]
name = "old"
port = 0
upstream = "amqp://127.0.0.1:{old.port}"
file = "{tmp_path / "inventory.json"}"
save_seconds = 0.05
""")
        with Running(tmp_path / "new", "--config", file) as new:
            (observer,) = new.asked("/v1/admin/inventory")["observers"]
            assert observer["upstream"] == f"amqp://127.0.0.1:{old.port}"
            asyncio.run(declare(observer["port"], "seen"))
            until(lambda: "seen" in old.queues(), "the declaration")

            def nodes() -> Any:
                return new.asked("/v1/admin/inventory/old")["nodes"]

            until(nodes, "the inventory")
            assert nodes()[0]["features"]["auto-delete-queue"]["count"] == 1
            assert new.asked("/v1/admin/inventory")["observers"][0]["clients"] == 1
            url = f"http://127.0.0.1:{new.http_port}/v1/admin/inventory/other"
            assert httpx.get(url, auth=("guest", "guest")).status_code == 404
            assert httpx.get(url).status_code == 401
    saved = json.loads((tmp_path / "inventory.json").read_text())
    assert [one["name"] for one in saved["nodes"]] == ["seen"]


def test_the_command(tmp_path: Path) -> None:
    """It says where it listens, writes its file, and ends when it is asked to."""
    inventory, log = tmp_path / "inventory.json", tmp_path / "observe.log"
    with Running(tmp_path / "old") as old, log.open("wb") as sink:
        words = ["observe", "--listen", "127.0.0.1:0", "--inventory", str(inventory)]
        words += ["--upstream", f"amqp://127.0.0.1:{old.port}"]
        process = subprocess.Popen(
            [sys.executable, "-m", "gateway", *words],
            cwd=ROOT, env=environment(), stdout=sink, stderr=sink,
        )  # fmt: skip
        try:
            port = int(until(lambda: re.search(r"on \S+:(\d+),", log.read_text()), "start")[1])
            asyncio.run(declare(port, "seen"))
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE) == 0, log.read_text()
        finally:
            process.kill()
            process.wait()
    assert [one["name"] for one in json.loads(inventory.read_text())["nodes"]] == ["seen"]
    assert inventory.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    ("table", "text"),
    [
        ('upstream = "tcp://old"', "should be amqp"),
        ('upstream = "amqp://old"\ntls_key = "key.pem"', "belong together"),
    ],
)
def test_mistakes_in_the_configuration(tmp_path: Path, table: str, text: str) -> None:
    file = tmp_path / "gateway.toml"
    file.write_text(f'[[observe]]\nname = "old"\nport = 0\nfile = "i.json"\n{table}\n')
    with pytest.raises(ConfigError, match=text):
        read_settings(file)


def test_two_observers_of_one_file(tmp_path: Path) -> None:
    file = tmp_path / "gateway.toml"
    one = '[[observe]]\nname = "{}"\nport = 0\nfile = "i.json"\nupstream = "amqp://old"\n'
    file.write_text(one.format("a") + one.format("b"))
    with pytest.raises(ConfigError, match="the same file"):
        read_settings(file)

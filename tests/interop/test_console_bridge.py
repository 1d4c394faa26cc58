"""The console's view of the bridge: who talks to whom in which version."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gateway.operations import DeclareQueue
from tests.bridge.test_facade import entered
from tests.interop.browser import chromium
from tests.interop.browser.console import Console, until
from tests.net.running import Running

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

CONFIGURATION = """
[[upstreams]]
name = "rabbit"
addresses = ["amqp://127.0.0.1:{old}"]
[[upstreams]]
name = "archive"
addresses = ["amqp://127.0.0.1:{new}"]
version = "1.0"
[[facades]]
upstream = "rabbit"
[[shovels]]
name = "copies"
source = {{ upstream = "rabbit", queue = "old" }}
destination = {{ upstream = "archive", queue = "new" }}
retry_seconds = 0.05
"""


async def declare(port: int, queue: str) -> None:
    remote = await entered(port)
    await remote.request(DeclareQueue(1, None, queue, durable=True))
    await remote.close()


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    if reason := chromium.missing():
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("bridge")
    with Running(folder / "old") as old, Running(folder / "new") as new:
        asyncio.run(declare(old.port, "old"))
        asyncio.run(declare(new.port, "new"))
        file = folder / "gateway.toml"
        file.write_text(CONFIGURATION.format(old=old.port, new=new.port))
        with Running(folder / "gateway", "--config", file) as gateway:
            yield gateway


def test_the_bridge_is_drawn(running: Running, tmp_path: Path) -> None:
    async def connected() -> None:
        client = await entered(running.port, "0-8")
        await asyncio.to_thread(look)
        await client.close()

    def look() -> None:
        with chromium.browser(tmp_path) as context:
            gateway: Any = running
            console = Console(context.new_page(), gateway)
            console.open("bridge")
            until(console.page, lambda: "connected" in console.row("facades", "/"), "facade")
            until(console.page, lambda: "running" in console.row("shovels", "copies"), "shovel")
            assert console.row("upstreams", "archive")[2] == "1.0"
            until(console.page, lambda: "counting" in console.row("upstreams", "rabbit")[4], "can")
            assert "draining" in console.row("upstreams", "archive")[4]
            drawn = console.page.locator("svg").text_content()
            for text in ("vhost /", "rabbit", "archive", "0-8", "shovel copies 0-9-1 to 1.0"):
                assert text in drawn
            said = console.page.locator("svg a").first.get_attribute("aria-label")
            assert said and said.endswith(".")
            console.press("Pause copies")
            until(console.page, lambda: "paused" in console.row("shovels", "copies"), "paused")
            console.press("Resume copies")
            until(console.page, lambda: "running" in console.row("shovels", "copies"), "running")
            assert (console.wrong, console.astray) == ([], [])

    asyncio.run(connected())

"""A client of 2007 publishes, and pictures of the console follow: each shows the message that was
published before it, and that it came by AMQP 0-8. ``SCREENSHOTS=DIR`` keeps them."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.interop.browser import chromium
from tests.interop.browser.console import Console, until
from tests.interop.peers import SYSTEM_PYTHON, amqplib_missing
from tests.net.running import Running

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

PICTURES = 5
RULES = '[{"address": "/queues/*"}]'
PNG = b"\x89PNG\r\n\x1a\n"
PUBLISHER = """
import sys
from amqplib import client_0_8 as amqp

connection = amqp.Connection(host=sys.argv[1], userid="guest", password="guest")
channel = connection.channel()
channel.queue_declare("till", durable=True, auto_delete=False)
for line in sys.stdin:
    message = amqp.Message(line.strip(), content_type="text/plain", delivery_mode=2)
    channel.basic_publish(message, routing_key="till")
connection.close()
"""
"""A message for each line of standard input, on one connection."""


@contextmanager
def publisher(port: int) -> Iterator[Any]:
    command = [SYSTEM_PYTHON, "-c", PUBLISHER, f"127.0.0.1:{port}"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        try:
            yield process.stdin
            process.stdin.close()
            assert process.wait(60) == 0
        finally:
            process.kill()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the pictures go."""
    found = Path(os.environ.get("SCREENSHOTS", tmp_path))
    found.mkdir(parents=True, exist_ok=True)
    return found


def test_a_publisher_of_0_8_is_followed(tmp_path: Path, folder: Path) -> None:
    if reason := chromium.missing() or amqplib_missing():
        pytest.skip(reason)
    gateway: Any = Running(tmp_path / "gateway", journal__recording=RULES)
    options = {"viewport": {"width": 1280, "height": 900}}
    with gateway, chromium.browser(tmp_path / "profile", **options) as context:
        console = Console(context.new_page(), gateway)
        console.open("journal")
        pictures = []
        with publisher(gateway.port) as till:
            for number in range(1, PICTURES + 1):
                text = f"sale {number}: {number} pounds of apples"
                till.write(f"{text}\n")
                till.flush()
                arrives(console, text)
                assert newest(console)[2:4] == ["/queues/till", "AMQP 0-8"]
                assert len(console.rows("latest entries")) == number
                picture = folder / f"{number}.png"
                row = console.page.get_by_role("row", name=text)
                assert row.is_visible()
                box = row.bounding_box()
                assert box["y"] >= 0 and box["y"] + box["height"] <= 900  # it is in the picture
                console.page.screenshot(path=picture)
                pictures.append(picture.read_bytes())
            console.open("connections")
            console.shows("#main", "0-8")
        assert all(one.startswith(PNG) for one in pictures)
        assert len(set(pictures)) == PICTURES
        # The message's way on: as readers of other versions see the last one.
        console.open("queues", "till")
        console.press("Look")
        last = console.page.locator("ol.messages > li").nth(PICTURES - 1)
        last.locator("details.crossings summary").click()
        until(console.page, lambda: "Seen as 1.0" in last.inner_text(), "the same message as 1.0")
        last.scroll_into_view_if_needed()
        console.page.screenshot(path=folder / "as-1.0.png")
        assert text in last.inner_text()
        assert "Came as 0-8 to 0-9-1" in last.inner_text()
        assert (console.wrong, console.astray) == ([], [])


def arrives(console: Console, text: str) -> None:
    """Wait until this is the newest entry."""
    until(console.page, lambda: newest(console)[-1] == text, text)


def newest(console: Console) -> list[str]:
    """The first row of the latest entries."""
    return next(iter(console.rows("latest entries")), [""] * 6)

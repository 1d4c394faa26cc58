"""The console's table of the modes of a facade with a successor."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.bridge.test_modes import between, made
from tests.interop.browser import chromium
from tests.interop.browser.console import AXE, Console, until
from tests.net.running import Running

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def front(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    if reason := chromium.missing():
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("modes")
    with (
        Running(folder / "old") as old,
        Running(folder / "new") as new,
        between(folder / "front", old.port, new.port) as running,
    ):
        asyncio.run(made(running, "orders"))
        yield running


def test_a_mode_is_changed(front: Any, tmp_path: Path) -> None:
    with chromium.browser(tmp_path) as context:
        page = context.new_page()
        console = Console(page, front)
        console.open("bridge")
        until(page, lambda: "new, connected, 1.0" in console.row("facades", "/"), "the successor")
        page.get_by_role("button", name="Change modes", exact=True).click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("Mode", exact=True).select_option("new-primary")
        dialog.get_by_role("button", name="Change", exact=True).click()
        until(page, lambda: "names" in dialog.locator(".bad").inner_text(), "it wants a name")
        dialog.get_by_label("Queues", exact=True).fill("orders")
        dialog.get_by_role("button", name="Change", exact=True).click()
        until(page, lambda: "new-primary" in console.row("modes", "orders"), "it is changed")
        for name, size in (("wide", (1200, 900)), ("narrow", (400, 900))):
            page.set_viewport_size({"width": size[0], "height": size[1]})
            if folder := os.environ.get("SCREENSHOTS"):
                page.screenshot(path=f"{folder}/modes-{name}.png", full_page=True)
            wide = page.evaluate("document.documentElement.scrollWidth")
            assert wide <= size[0]
        if AXE.exists():
            assert console.violations() == ""
        assert [one for one in console.wrong if "the server responded" not in one] == []
        assert console.astray == []

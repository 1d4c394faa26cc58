"""The page of docs/follow-in-a-browser.md in a real browser, served as the guide says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.examples.reader import SERVE, Reader, blocks, guide, settings
from tests.interop.browser.words import until
from tests.interop.servers import HOST, answers, free_ports
from tests.net.running import Running

pytestmark = pytest.mark.interop


def test_the_page_shows_what_is_published(chrome: Any, tmp_path: Path) -> None:
    text = guide("follow-in-a-browser")
    (port,) = free_ports(1)
    given = {name: value.replace("8000", str(port)) for name, value in settings(text).items()}
    with Running(tmp_path / "gateway", **given) as gateway:
        ports = {"8000": str(port), "8080": str(gateway.http_port)}
        folder = tmp_path / "reader"
        folder.mkdir()
        with Reader(folder, ports) as reader:
            reader.read(text, leave_out={SERVE})
            page = chrome.new_page()
            wrong: list[str] = []
            page.on("pageerror", lambda error: wrong.append(str(error)))
            until(page, lambda: answers(port), "the server of the page")
            page.goto(f"http://{HOST}:{port}/page.html")

            def items() -> list[str]:
                return list(page.locator("li").all_text_contents())

            until(page, lambda: items() == ["connected"], "the stream")
            (publish,) = [one.text for one in blocks(text) if "routing_key=" in one.text]
            reader.paste(reader.here(publish))
            until(page, lambda: items() == ["connected", "order 42"], "the order")
            page.close()
            assert wrong == []

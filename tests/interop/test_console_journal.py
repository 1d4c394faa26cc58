"""The console's page of the journal: wide and narrow, light and dark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gateway.journal.segments import arrow_is_here, list_segments
from tests.interop.browser import chromium
from tests.interop.browser.console import AXE, Api, Console
from tests.net.running import Running, until

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]
RULES = (
    '[{"vhost": "/", "address": "/queues/short", "keep_seconds": 86400, "keep_octets": 1048576},'
    ' {"vhost": "/", "address": "/queues/secret", "record": false}, {"vhost": "/"}]'
)


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    if reason := chromium.missing():
        pytest.skip(reason)
    given = {"journal__recording": RULES, "journal__segment_messages": 4}
    running: Any = Running(tmp_path_factory.mktemp("gateway"), **given)
    with running:
        with Api(running) as api:
            for queue in ("orders", "short", "secret"):
                api.queue(queue)
                for number in range(3):
                    api.publish(queue, b"%d" % number)
            if arrow_is_here():
                until(lambda: list_segments(running.data / "journal"), "a segment")
            path = "/v1/%2F/journal/consumers/report"
            assert api.http.put(path, json={"position": 2}).status_code in (200, 201)
        yield running


@pytest.mark.parametrize("width", [400, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_journal(gateway: Any, tmp_path: Path, width: int, scheme: str) -> None:
    options = {"viewport": {"width": width, "height": 900}, "color_scheme": scheme}
    with chromium.browser(tmp_path / "profile", **options) as context:
        page = context.new_page()
        console = Console(page, gateway)
        console.open("journal")
        console.has("recorded addresses", "/queues/orders")
        assert console.row("recorded addresses", "/queues/short")[1] == "3"
        assert not console.row("recorded addresses", "/queues/secret")
        assert console.row("readers", "report")[1:4] == ["guest", "2", "4"]
        rules = [row[:4] for row in console.rows("rules")]
        assert rules[0] == ["/queues/short", "yes", "1 d", "1.0 MiB"]
        assert rules[1][:2] == ["/queues/secret", "no"]
        if arrow_is_here():
            assert console.rows("segments")[0][:2] == ["0", "3"]
        console.shows("#main dl", "0 to 5")
        until(lambda: len(console.rows("latest entries")) == 6, "the latest entries")
        latest = console.rows("latest entries")
        assert [row[0] for row in latest] == ["5", "4", "3", "2", "1", "0"]
        assert latest[0][2:4] == ["/queues/short", "HTTP"]
        assert [row[5] for row in latest] == ["2", "1", "0"] * 2
        page.screenshot(path=tmp_path / "journal.png", full_page=True)
        wide = page.evaluate("document.documentElement.scrollWidth")
        assert wide <= width
        if AXE.is_file():
            assert not console.violations()
        assert not console.wrong and not console.astray


def test_nothing_is_recorded(tmp_path: Path) -> None:
    if reason := chromium.missing():
        pytest.skip(reason)
    gateway: Any = Running(tmp_path / "gateway")
    with (
        gateway,
        chromium.browser(tmp_path / "profile") as context,
    ):
        console = Console(context.new_page(), gateway)
        console.open("journal")
        console.shows("#main section:not([hidden])", "Nothing is recorded here")
        assert console.text("#main pre").startswith("[[journal.recording]]")
        if AXE.is_file():
            assert not console.violations()


def test_a_reader_is_forgotten(gateway: Any, tmp_path: Path) -> None:
    with Api(gateway) as api, chromium.browser(tmp_path / "profile") as context:
        assert api.http.put("/v1/%2F/journal/consumers/gone").status_code == 201
        console = Console(context.new_page(), gateway)
        console.open("journal")
        console.has("readers", "gone")
        console.press("Forget gone")
        console.press("Forget reader", "dialog")
        console.has("readers", "gone", False)
        listed = api.http.get("/v1/%2F/journal/consumers").json()["consumers"]
        assert [one["name"] for one in listed] == ["report"]

"""The page of the job ``report`` in a browser."""

from pathlib import Path
from typing import Any

import pytest

from tests.interop.browser import chromium
from tests.pipeline.test_report import evil, page

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (400, "dark")])
def test_it_fits_and_asks_nobody(tmp_path: Path, width: int, scheme: Any) -> None:
    if reason := chromium.missing():
        pytest.skip(reason)
    file = tmp_path / "report.html"
    file.write_text(page(evil()))
    asked: list[str] = []
    said: list[str] = []
    options = {"viewport": {"width": width, "height": 900}, "color_scheme": scheme}
    with chromium.browser(tmp_path / "profile", **options) as context:
        tab = context.new_page()
        tab.on("request", lambda request: asked.append(request.url))
        tab.on("console", lambda message: said.append(message.text))
        tab.goto(file.as_uri())
        assert tab.title() == "Migration readiness for any broker with AMQP 1.0"
        wide = tab.evaluate("document.documentElement.scrollWidth")
        assert wide <= width
        shown = tab.locator("svg.broad:visible").count(), tab.locator("svg.narrow:visible").count()
        assert shown == ((2, 0) if width > 640 else (0, 2))
        assert tab.locator("text=alert(1)").count() > 0
    assert asked == [file.as_uri()]
    assert said == []

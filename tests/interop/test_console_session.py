"""The console's first view, and what depends on who uses it: rates over time, offered actions,
hidden queues, and questions of a page that was left."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import pytest

from tests.interop.browser.console import Api, Console, until
from tests.interop.servers import Server

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

POINTS = """title => [...document.querySelectorAll(".chart")]
    .find(one => one.querySelector("h2").textContent === title)
    .querySelector("path.line-0").getAttribute("d").split(/[ML]/).length - 1"""
NAV = "[...document.querySelectorAll('nav a')].map(one => one.textContent)"
BUTTONS = """[...document.querySelectorAll("main button, main a.button")]
    .map(one => one.ariaLabel ?? one.innerText)"""


@pytest.fixture(scope="module")
def api(gateway: Server) -> Iterator[Api]:
    with Api(gateway) as found:
        yield found


@pytest.fixture
def console(chrome: Any, gateway: Server) -> Iterator[Console]:
    page = chrome.new_page()
    try:
        shown = Console(page, gateway)
        yield shown
        assert (shown.wrong, shown.astray) == ([], [])
    finally:
        page.close()


def signed_in(chrome: Any, gateway: Server, user: str) -> Console:
    """As another user, whose password is the name."""
    page = chrome.new_page()
    given = base64.b64encode(f"{user}:{user}".encode()).decode()
    page.set_extra_http_headers({"Authorization": f"Basic {given}"})
    return Console(page, gateway)


def test_the_overview_shows_how_it_goes(console: Console, api: Api) -> None:
    api.queue("s.orders")
    console.page.goto(f"{console.origin}/")
    console.shows("h1", "Overview")

    def figure(label: str) -> str:
        found = console.page.locator(".figures > div", has_text=label).first.inner_text()
        return str(found).split("\n")[-1]

    until(console.page, lambda: console.page.locator(".figures > div").count() == 12, "figures")
    ready = int(figure("Ready"))
    for _ in range(7):
        api.publish("s.orders")
    until(console.page, lambda: int(figure("Ready")) == ready + 7, "seven more are ready")
    drawing = console.page.get_by_role("img", name="Messages per second in the last minute")
    until(
        console.page,
        lambda: "at most 0.0" not in str(drawing.get_attribute("aria-label")).split(";")[0],
        "some were published",
    )
    before = console.page.evaluate(POINTS, "Messages in queues")
    console.open("queues")
    console.has("queues", "s.orders")
    # The clock goes on while other views are open.
    console.open("overview")
    until(
        console.page,
        lambda: console.page.evaluate(POINTS, "Messages in queues") > before,
        "what was before, and more",
    )
    # One queue has its own, since it was opened.
    console.open("queues", "s.orders")
    own = console.page.get_by_role("img", name="Messages in the last minute")
    until(console.page, lambda: "Ready 7" in str(own.get_attribute("aria-label")), "seven")
    console.page.get_by_role("link", name="OpenAPI", exact=True).wait_for()
    for link in console.page.locator("footer a").all():
        assert api.http.get(str(link.get_attribute("href"))).status_code == 200


def test_nothing_is_offered_that_is_refused(chrome: Any, gateway: Server, api: Api) -> None:
    api.queue("s.mine")
    api.queue("s.theirs")
    api.put("users/s.some", password="s.some", tags=[])
    api.put("users/s.some/permissions/%2F", configure="^s\\.mine", write="", read="^s\\.")
    console = signed_in(chrome, gateway, "s.some")
    try:
        console.open("overview")
        console.shows("#me", "s.some")
        console.shows("main", "Of the virtual hosts that you may use.")
        assert console.page.evaluate(NAV) == [
            "Overview", "Queues", "Exchanges", "Bindings", "Live messages", "Dead letters",
            "Journal", "Virtual hosts",
        ]  # fmt: skip
        console.open("queues")
        console.has("queues", "s.theirs")
        offered = console.page.evaluate(BUTTONS)
        assert {"Purge s.mine", "Delete s.mine", "Purge s.theirs", "Add queue"} <= set(offered)
        assert "Delete s.theirs" not in offered
        console.open("queues", "s.theirs")
        console.shows("h1", "s.theirs")
        assert console.page.evaluate(BUTTONS)[:2] == ["Live", "Purge"]
        for view in ("exchanges", "bindings", "vhosts"):
            console.open(view)
            console.shows("h1", view.replace("vhosts", "virtual hosts").capitalize())
        assert "Add virtual host" not in console.page.evaluate(BUTTONS)
        # What is offered is done.
        console.open("queues")
        console.press("Delete s.mine")
        console.press("Delete queue", "dialog")
        console.has("queues", "s.mine", False)
        assert console.wrong == []
    finally:
        console.page.close()


def test_internal_queues_are_hidden_until_they_are_asked_for(console: Console, api: Api) -> None:
    api.queue("s.plain")
    asked = {"source": "exchange:amq.topic?binding=s", "journal": "durable"}
    with api.http.stream("GET", "/v1/%2F/events", params=asked) as answer:
        assert answer.status_code == 200
        console.open("queues")
        console.has("queues", "s.plain")
        switch = console.page.get_by_label("internal queue")
        switch.wait_for()
        assert not any(row[0].startswith("amq.events-") for row in console.rows("queues"))
        switch.check()
        until(
            console.page,
            lambda: any(row[0].startswith("amq.events-") for row in console.rows("queues")),
            "it is shown",
        )
        switch.uncheck()
        console.open("bindings")
        console.page.get_by_label("Show internal queues").check()
        until(
            console.page,
            lambda: any("amq.events-" in row[3] for row in console.rows("bindings")),
            "its binding is shown",
        )


def test_a_question_goes_with_its_page(console: Console, api: Api) -> None:
    api.queue("s.asked")
    console.open("users")
    console.shows("h1", "Users")
    console.open("queues")
    console.has("queues", "s.asked")
    console.press("Delete s.asked")
    console.page.locator("dialog[open]").wait_for()
    console.page.go_back()
    console.shows("h1", "Users")
    assert console.page.locator("dialog").count() == 0
    assert api.find("vhosts/%2F/queues/s.asked") is not None


def test_a_message_stands_beside_what_other_versions_see(console: Console, api: Api) -> None:
    api.queue("s.crossed")
    api.publish("s.crossed", b"first")
    fields = {"Amqp-Reply-To": '"/queues/back"', "Amqp-Type": '"new"'}
    api.publish("s.crossed", b"second", **fields)
    console.open("queues", "s.crossed")
    console.press("Look")
    item = console.page.locator("ol.messages > li").nth(1)
    item.locator("details.crossings summary").click()
    console.shows("details.crossings[open] .hint", "A capsule keeps")
    assert "reply-to" in console.text("details.crossings[open] .hint")

    def row(name: str) -> list[str]:
        found = item.locator("table.beside tbody tr", has_text=name).first
        return [" ".join(one.split()) for one in found.locator("td").all_inner_texts()]

    assert item.locator("select").input_value() == "1.0"
    assert row("Properties: reply_to") == ["/queues/back"] * 2
    assert row("Body") == ["data, 6 octets"] * 2
    assert row("0-10: type") == ["new", "nothing"]
    assert row("Properties: subject") == ["nothing", "new"]
    assert item.locator("tr.differs").count() >= 2
    item.locator("select").select_option("0-9a6")
    until(console.page, lambda: "Seen as 0-9a6" in item.inner_text(), "another version")
    assert row("0-10: type") == ["new"] * 2
    # One that was taken meanwhile is not mixed up with the next.
    assert api.http.delete("/v1/admin/vhosts/%2F/queues/s.crossed/messages").status_code == 200
    api.publish("s.crossed", b"third")
    first = console.page.locator("ol.messages > li").nth(0)
    first.locator("details.crossings summary").click()
    until(console.page, lambda: "not there any more" in first.inner_text(), "it is gone")

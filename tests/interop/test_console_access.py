"""Whether everybody can use the console: axe's rules, the keyboard alone, narrow screens, and a
drawing of fifty boxes in which nothing lies on anything else."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import Any

import pytest

from tests.interop.browser.console import AXE, VIEWS, Api, Console, until
from tests.interop.servers import INSTALL, Server

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

SCHEMES = ("light", "dark")
WIDTHS = (1280, 390)
BOXES = """() => [...document.querySelectorAll(".canvas .box")].map(one => {
    const { x, y, width, height } = one.querySelector("rect").getBBox();
    return [x, y, width, height];
})"""
LABELS = """() => [...document.querySelectorAll(".canvas .arrow text")].map(one => {
    const { x, y, width, height } = one.getBBox();
    return [x, y, width, height];
})"""


@pytest.fixture(scope="module")
def furnished(gateway: Server) -> Iterator[Api]:
    """Something of everything, and names that are too long for any column."""
    with Api(gateway) as api:
        api.exchange("a.shop")
        api.exchange("a.audit", "fanout")
        api.queue("a.dead")
        api.queue("a.orders", arguments={"x-dead-letter-exchange": "a.audit", "x-max-length": 100})
        api.queue("a." + "long-name-" * 20)
        api.bind("a.shop", "a.orders", "order.*.placed")
        api.bind("a.shop", "a." + "long-name-" * 20, "key." * 30)
        api.bind("a.audit", "a.dead")
        api.bind("a.shop", "a.audit", "#", "exchange")
        api.publish("a.dead", b'{"n": 1}', **{"Amqp-Property": '"a";v=1;t=byte'})
        api.publish("a.dead", b"")
        yield api


@pytest.fixture
def console(chrome: Any, gateway: Server, furnished: Api) -> Iterator[Console]:
    page = chrome.new_page()
    try:
        shown = Console(page, gateway)
        yield shown
        assert (shown.wrong, shown.astray) == ([], [])
    finally:
        page.close()


@pytest.fixture
def axe() -> None:
    if not AXE.exists():
        pytest.skip(f"axe-core is not installed; {INSTALL}")


def show(console: Console, view: str, name: str | None) -> None:
    console.open(view, name)
    console.page.wait_for_timeout(300)
    if view in ("queues", "dead-letters") and name:
        if view == "queues":
            console.press("Look")
        console.page.locator("details.crossings summary").first.click()
        console.page.locator("table.beside").wait_for()
        console.page.locator("ol.messages summary").first.click()
        console.page.locator("ol.messages .decoded").wait_for()


PLACES = [*((view, None) for view in VIEWS), ("queues", "a.dead"), ("exchanges", "a.shop"),
          ("dead-letters", "a.dead")]  # fmt: skip


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", WIDTHS)
def test_axe_finds_nothing(console: Console, axe: None, width: int, scheme: str) -> None:
    console.page.set_viewport_size({"width": width, "height": 800})
    console.page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    found = {}
    for view, name in PLACES:
        show(console, view, name)
        found[view, name] = console.violations()
    assert {place: text for place, text in found.items() if text} == {}


@pytest.mark.parametrize(
    ("view", "opens"),
    [("queues", "Add queue"), ("queues", "Delete a.orders"), ("exchanges", "Add exchange"),
     ("bindings", "Add binding"), ("users", "Add user"), ("users", "Change guest"),
     ("vhosts", "Add virtual host")],
)  # fmt: skip
def test_axe_finds_nothing_in_dialogs(console: Console, axe: None, view: str, opens: str) -> None:
    console.open(view)
    console.press(opens)
    assert console.violations() == ""
    console.page.keyboard.press("Escape")
    until(console.page, lambda: console.focused == opens, "the focus is back")


@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_sticks_out(console: Console, width: int) -> None:
    console.page.set_viewport_size({"width": width, "height": 800})
    for view, name in PLACES:
        show(console, view, name)
        out = console.page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert out <= 0, (view, name)


def test_buttons_and_fields_are_equally_tall(console: Console) -> None:
    console.open("live")
    heights = console.page.evaluate(
        "[...document.querySelectorAll('#listen input, #listen button')].map(x => x.offsetHeight)"
    )
    assert len(set(heights)) == 1


def test_by_keyboard_alone(console: Console, furnished: Api) -> None:
    keys = console.page.keyboard
    console.open("queues")
    keys.press("Tab")
    assert console.focused == "Skip to content"
    console.tab_to("nav a[href$=publish]")
    keys.press("Enter")
    until(console.page, lambda: console.focused == "Publish", "the title has the focus")
    console.tab_to("[name=target]")
    keys.type("a.orders")
    console.tab_to("[name=body]")
    keys.press("Control+a")
    keys.type('{"by": "keyboard"}')
    console.tab_to(".add-property")
    keys.press("Enter")
    until(console.page, lambda: console.focused == "Property name", "a property to fill in")
    keys.type("n")
    console.tab_to("[data-part=value]")
    keys.type("1")
    console.tab_to("#publish button[type=submit]")
    keys.press("Enter")
    console.shows("#published", "Accepted as ")
    console.open("queues")
    console.has("queues", "a.orders")
    console.tab_to("[aria-label='Purge a.orders']")
    keys.press("Enter")
    # What cannot be undone is not one key away.
    until(console.page, lambda: console.focused == "Cancel", "the dialog")
    keys.press("Tab")
    keys.press("Enter")
    console.shows("#notices", "1 message removed from a.orders")
    # Rows are refreshed under the focus.
    until(console.page, lambda: console.focused == "Purge a.orders", "the focus is back")


def test_the_drawing_is_walked_with_arrow_keys(console: Console) -> None:
    console.open("bindings")
    console.page.get_by_label("Filter drawing and table").fill("a.")
    console.page.get_by_role("link", name="Exchange a.shop").wait_for()
    console.tab_to(".canvas a")
    seen = {console.focused}
    for key in ("ArrowUp", "ArrowUp", "ArrowUp", "ArrowRight", "ArrowDown", "ArrowDown",
                "ArrowRight", "ArrowDown", "ArrowLeft"):  # fmt: skip
        console.page.keyboard.press(key)
        seen.add(console.focused)
    assert any("Exchange a.shop, topic" in one for one in seen)
    assert any("Queue a.orders" in one for one in seen)
    console.page.keyboard.press("Enter")
    console.page.wait_for_url("**/exchanges/**")


@pytest.mark.parametrize("width", WIDTHS)
def test_fifty_boxes_can_be_read(console: Console, furnished: Api, width: int) -> None:
    for number in range(40):
        furnished.queue(f"many.{number}")
    for number in range(10):
        furnished.exchange(f"many.x{number}")
        if number % 5:
            furnished.bind(f"many.x{number - number % 5}", f"many.x{number}", "on", "exchange")
        for step in range(6):
            furnished.bind(f"many.x{number}", f"many.{(number * 6 + step) % 40}", f"k.{step}")
    console.page.set_viewport_size({"width": width, "height": 900})
    console.open("bindings")
    console.page.get_by_label("Filter drawing and table").fill("many.")
    until(console.page, lambda: len(console.page.evaluate(BOXES)) == 50, "fifty boxes")
    boxes, labels = console.page.evaluate(BOXES), console.page.evaluate(LABELS)
    assert len(labels) == 68
    apart = [*(("box", one) for one in boxes), *(("key", one) for one in labels)]
    for (kind, (x, y, wide, tall)), (other, (x2, y2, wide2, tall2)) in combinations(apart, 2):
        beside = x + wide <= x2 + 1 or x2 + wide2 <= x + 1
        above = y + tall <= y2 + 1 or y2 + tall2 <= y + 1
        assert beside or above, (kind, other)
    out = console.page.evaluate("document.documentElement.scrollWidth - innerWidth")
    assert out <= 0
    assert len(console.rows("bindings")) == 68

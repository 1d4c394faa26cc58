"""The console's view of the bridge: who talks to whom in which version."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gateway.operations import DeclareQueue
from tests.bridge.moving import declare as declare_durable
from tests.bridge.moving import publish
from tests.bridge.test_facade import entered
from tests.interop.browser import chromium
from tests.interop.browser.console import AXE, Api, Console, until
from tests.interop.servers import INSTALL
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
            for name, able in (("rabbit", "counting"), ("archive", "draining")):
                until(console.page, lambda: able in console.row("upstreams", name)[4], able)  # noqa: B023
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


COUNT = 300
PAIRS = "to-move = moved\nempty\n"


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    if reason := chromium.missing():
        pytest.skip(reason)
    with Running(tmp_path_factory.mktemp("old")) as running:
        yield running


@pytest.fixture(scope="module")
def mover(old: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A gateway beside another one, which has queues to move."""
    folder = tmp_path_factory.mktemp("moves")
    file = folder / "gateway.toml"
    address = f'addresses = ["amqp://127.0.0.1:{old.port}"]'
    file.write_text(f'[[upstreams]]\nname = "old"\n{address}\n')
    with Running(folder / "gateway", "--config", file) as gateway:
        declare_durable(old, "to-move", "empty")
        declare_durable(gateway, "moved", "empty")
        publish(old.port, "to-move", range(COUNT))
        yield gateway


@pytest.fixture
def console(mover: Any, tmp_path: Path) -> Iterator[Console]:
    with chromium.browser(tmp_path) as context:
        shown = Console(context.new_page(), mover)
        yield shown
        # Problems are shown in the page; Chromium notes their answers as well.
        assert [one for one in shown.wrong if "the server responded" not in one] == []
        assert shown.astray == []


def moves(console: Console) -> dict[str, dict[str, str]]:
    """Each row of the table by the heads of its columns."""
    names = ("Name", "State", "From", "To", "Moved")
    return {row[0]: dict(zip(names, row, strict=False)) for row in console.rows("moves")}


def reaches(console: Console, name: str, state: str) -> None:
    until(
        console.page, lambda: moves(console).get(name, {}).get("State") == state, f"{name} {state}"
    )


def visible(console: Console, name: str) -> bool:
    found = console.page.get_by_role("button", name=name, exact=True)
    return bool(found.count() and found.is_visible())


def test_queues_are_moved_and_come_back(console: Console, old: Any) -> None:
    console.open("bridge")
    console.press("Move queues")
    page = console.page
    page.locator("dialog [name=from]").select_option(label="upstream old")
    page.locator("dialog [name=to]").select_option(label="virtual host /")
    console.fill(queues="nowhere")
    console.press("Count", "dialog")
    until(page, lambda: "nowhere" in console.text("dialog [role=alert]"), "no such queue")
    console.fill(queues=PAIRS)
    page.locator("dialog summary").click()
    console.fill(name="week", rate="30", batch="5", wait="3")
    console.press("Count", "dialog")
    until(page, lambda: bool(console.rows("counts")), "the counts")
    assert console.rows("counts") == [
        ["to-move", "moved", str(COUNT), "0"],
        ["empty", "empty", "0", "0"],
    ]
    assert f"Move {COUNT} messages?" in console.text("dialog")
    assert console.rows("moves") == []
    console.press("Cancel", "dialog")
    assert page.locator("dialog [name=queues]").input_value() == PAIRS, "it is not typed again"
    console.press("Count", "dialog")
    with page.expect_request("**/moves") as asked:
        console.press("Move", "dialog")
    sent = asked.value.post_data_json
    assert (sent["rate"], sent["batch"], sent["wait_seconds"]) == (30, 5, 3)
    reaches(console, "week", "running")
    drawn = page.locator("svg")
    until(page, lambda: "move week" in drawn.text_content(), "the move is drawn")
    assert not visible(console, "Forget week")
    console.press("Pause week")
    reaches(console, "week", "paused")
    assert f" of {COUNT}" in moves(console)["week"]["Moved"]
    assert page.locator("progress").first.get_attribute("aria-label") == "Progress of week"
    console.press("Resume week")
    reaches(console, "week", "done")
    assert f"{COUNT} of {COUNT}" in moves(console)["week"]["Moved"]
    console.press("Queues week")
    until(page, lambda: bool(console.rows("queues of week")), "each queue")
    assert [row[:2] for row in console.rows("queues of week")] == [
        ["to-move", "moved"],
        ["empty", "empty"],
    ]
    console.press("Close", "dialog")

    with Api(old) as api:
        api.publish("to-move", b"of somebody else")
    console.press("Roll back week")
    console.press("Roll back", "dialog")
    until(page, lambda: "1 messages stand before" in console.text("dialog [role=alert]"), "refused")
    page.locator("dialog [name=force]").check()
    console.press("Roll back", "dialog")
    until(
        page, lambda: any(name.startswith("week-back") for name in moves(console)), "the way back"
    )
    (back,) = (name for name in moves(console) if name.startswith("week-back"))
    reaches(console, back, "done")
    assert not visible(console, f"Roll back {back}")
    console.press("Forget week")
    console.press("Forget", "dialog")
    console.has("moves", "week", False)


def test_a_monitor_may_only_look(mover: Any, tmp_path: Path) -> None:
    with Api(mover) as api:
        api.put("users/eve", password="eve", tags=["monitoring"])
    eve = {"username": "eve", "password": "eve"}
    with chromium.browser(tmp_path, http_credentials=eve) as context:
        console = Console(context.new_page(), mover)
        console.open("bridge")
        until(console.page, lambda: bool(console.rows("upstreams")), "the upstreams")
        assert not visible(console, "Move queues")
        for row in console.rows("moves"):
            assert visible(console, f"Queues {row[0]}")
            assert not visible(console, f"Forget {row[0]}")


@pytest.fixture
def to_move(old: Any, mover: Any) -> None:
    """Messages for one case: those before it may have moved all there were, on a slow machine."""
    publish(old.port, "to-move", range(COUNT))


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 400])
def test_axe_finds_nothing_and_nothing_sticks_out(
    to_move: None, console: Console, mover: Any, width: int, scheme: str
) -> None:
    if not AXE.exists():
        pytest.skip(f"axe-core is not installed; {INSTALL}")
    page = console.page
    page.set_viewport_size({"width": width, "height": 900})
    page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    name = f"over-{width}-{scheme}"
    body = {
        "name": name,
        "source": "old",
        "rate": 4,
        "queues": [{"source": "to-move", "destination": "moved"}],
    }
    with Api(mover) as api:
        api.http.post("/v1/admin/moves", json=body).raise_for_status()
        console.open("bridge")
        reaches(console, name, "running")
        for button in (None, f"Queues {name}", "Move queues"):
            if button is not None:
                console.press(button)
                page.locator("dialog").wait_for()
            assert console.violations() == "", button
            assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, button
            if button is not None:
                page.keyboard.press("Escape")
        api.http.post(f"/v1/admin/moves/{name}/pause").raise_for_status()

"""The console where it is meant to be served: on the admin listener, beside a public one that has
declared routes only. Once with a password for every request, once with a session's cookie."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from tests.interop.browser import chromium
from tests.interop.browser.console import VIEWS, Api, Console, until
from tests.interop.servers import HOST
from tests.net.running import Running

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

BASIC = {"Authorization": "Basic Z3Vlc3Q6Z3Vlc3Q="}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    if reason := chromium.missing():
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("gateway")
    given = {"admin__port": 0, "http__raw_nodes": "false", "http__session__plain_http": "true"}
    with Running(folder, **given) as gateway:
        yield gateway


@pytest.fixture(scope="module")
def admin(running: Running) -> Any:
    """The gateway as who knows the admin listener sees it."""
    return SimpleNamespace(http_port=running._port(r"administration on http://\S+:(\d+)/"))


@pytest.fixture(scope="module")
def api(admin: Any) -> Iterator[Api]:
    with Api(admin) as found:
        found.exchange("a.dlx", "fanout")
        found.queue("a.work", arguments={"x-dead-letter-exchange": "a.dlx"})
        found.queue("a.dead")
        found.bind("a.dlx", "a.dead")
        yield found


@pytest.fixture(params=["basic", "session"])
def console(
    request: pytest.FixtureRequest, admin: Any, api: Api, tmp_path: Path
) -> Iterator[Console]:
    """Logged in: by the browser's own answer to the challenge, or by a cookie and nothing else."""
    session = request.param == "session"
    options = {"http_credentials": None} if session else {}
    with chromium.browser(tmp_path, **options) as context:
        page = context.new_page()
        shown = Console(page, admin)
        if session:
            assert context.request.get(shown.origin).status == 401
            made = context.request.post(f"{shown.origin}/v1/session", headers=BASIC)
            assert made.status == 201
        yield shown
        assert (shown.wrong, shown.astray) == ([], [])


def test_the_public_listener_has_no_console(running: Running, admin: Any, api: Api) -> None:
    public = f"http://{HOST}:{running.http_port}"
    for path in ("/", "/console/main.js", "/v1/admin/users", "/api/overview", "/readyz"):
        answer = httpx.get(public + path, headers=BASIC, trust_env=False, timeout=60)
        assert answer.status_code == 404, path
    raw = "/v1/%2F/queues/a.work/messages"
    assert httpx.post(public + raw, headers=BASIC, trust_env=False, timeout=60).status_code == 404
    assert api.http.post(raw, content=b"x").status_code == 201
    assert api.http.delete("/v1/admin/vhosts/%2F/queues/a.work/messages").status_code == 200


def test_a_day_of_an_administrator(console: Console, api: Api) -> None:
    page = console.page
    assert api.http.delete("/v1/admin/vhosts/%2F/queues/a.work/messages").status_code == 200
    # Every view is there.
    for view in VIEWS:
        console.open(view)
    # Publish, with a property.
    console.open("publish", query="?queue=a.work")
    page.get_by_label("Body", exact=True).fill('{"order": 17}')
    console.press("Add property")
    page.get_by_label("Property name").fill("attempt")
    page.get_by_label("Property type").select_option("ubyte")
    page.get_by_label("Property value").fill("3")
    console.press("Publish")
    page.locator("#published.good").wait_for()
    # Browse.
    console.open("queues")
    until(page, lambda: console.row("queues", "a.work")[1:2] == ["1"], "one is ready")
    console.open("queues", "a.work")
    console.press("Look")
    console.shows("ol.messages > li", '"order": 17')
    page.locator("ol.messages summary").first.click()
    console.shows("ol.messages .decoded", "attempt 3 ubyte")
    # It dies, is looked at, and goes back.
    taken = api.http.post("/v1/%2F/queues/a.work/deliveries", json={}).json()["deliveries"]
    token = taken[0]["token"]
    rejected = api.http.post(f"/v1/%2F/deliveries/{token}/reject", json={"reason": "no-stock"})
    assert rejected.status_code == 200
    console.open("dead-letters", "a.dead")
    console.shows("ol.messages", "rejected in a.work")
    console.press("Redrive")
    console.press("Redrive", "dialog")
    console.shows("#notices", "1 message redriven from a.dead")
    assert api.find("vhosts/%2F/queues/a.work")["ready"] == 1
    assert api.find("vhosts/%2F/queues/a.dead")["ready"] == 0
    # Bindings are drawn.
    console.open("bindings")
    box = page.get_by_role("link", name="Exchange a.dlx, fanout")
    assert "a.dead" in str(box.get_attribute("aria-label"))
    # Live: what is published is seen.
    console.open("live")
    console.press("Listen")
    console.shows("#listening", "Listening.")
    path = "/v1/%2F/exchanges/amq.topic/messages"
    sent = api.http.post(path, params={"routing_key": "k.live"}, content=b"1")
    assert sent.status_code == 201, sent.text
    console.shows("#listening", "1 received")
    console.press("Stop")
    # A user comes and goes.
    console.open("users")
    console.press("Add user")
    console.fill(name="a.eve", password="s3cret")
    console.press("Add user", "dialog")
    console.has("users", "a.eve")
    assert api.find("users/a.eve") is not None
    console.press("Remove a.eve")
    console.press("Remove user", "dialog")
    console.has("users", "a.eve", False)
    assert api.find("users/a.eve") is None
    console.open("queues", "a.work")
    console.press("Purge")
    console.press("Purge", "dialog")
    console.shows(".figures", "Ready 0")


@pytest.mark.parametrize("console", ["basic"], indirect=True)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_is_cut_off_on_a_narrow_screen(console: Console, scheme: str, api: Api) -> None:
    """Dialogs too: no control is wider than what it stands in."""
    api.publish("a.dead", b"{}")  # or there is nothing to redrive
    console.page.set_viewport_size({"width": 390, "height": 844})
    console.page.emulate_media(color_scheme=scheme)
    cut = """() => [...document.querySelectorAll(
        "dialog[open] input, dialog[open] select, dialog[open] textarea, dialog[open] button")]
        .filter(one => one.getBoundingClientRect().right
            > one.closest("dialog").getBoundingClientRect().right - 8)
        .map(one => one.outerHTML.slice(0, 80))"""
    dialogs = [("queues", None, "Add queue"), ("exchanges", None, "Add exchange"),
               ("bindings", None, "Add binding"), ("users", None, "Add user"),
               ("dead-letters", "a.dead", "Redrive")]  # fmt: skip
    for view, name, button in dialogs:
        console.open(view, name)
        console.press(button)
        console.page.locator("dialog[open]").wait_for()
        assert console.page.evaluate(cut) == [], button
        console.press("Cancel", "dialog")


@pytest.mark.parametrize("how", ["password", "session"])
def test_signing_out(admin: Any, api: Api, tmp_path: Path, how: str) -> None:
    """The browser has the password from its own login, as a person gives it, or a cookie; and
    forgets it."""
    with chromium.browser(tmp_path, http_credentials=None) as context:
        page = context.new_page()
        shown = Console(page, admin)
        if how == "session":
            made = context.request.post(f"{shown.origin}/v1/session", headers=BASIC)
            assert made.status == 201
        else:
            page.goto(shown.origin.replace("//", "//guest:guest@") + "/")
        page.goto(f"{shown.origin}/#/%2F/queues")
        shown.shows("#me", "Signed in as guest")
        shown.has("queues", "a.dead")
        shown.press("Sign out")
        shown.shows("h1", "Signed out")
        assert page.locator("header").count() == 0
        left: list[str] = []
        page.on("request", lambda request: left.append(request.url))
        page.wait_for_timeout(2500)
        assert left == []  # the clock stands still: a request would make the browser ask
        error = pytest.importorskip(
            "playwright.sync_api", reason="the browser is driven by it"
        ).Error
        with pytest.raises(error, match="ERR_INVALID_AUTH_CREDENTIALS"):
            page.goto(f"{shown.origin}/")

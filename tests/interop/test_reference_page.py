"""``/docs`` and ``/docs/events`` in a real browser, without and with a password."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.interop.browser import chromium
from tests.interop.servers import Server

USER = "guest:guest"
pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A browser that knows no password."""
    if reason := chromium.missing():
        pytest.skip(reason)
    with chromium.browser(tmp_path_factory.mktemp("stranger"), http_credentials=None) as context:
        yield context


class Watched:
    """A page, and its errors."""

    def __init__(self, page: Any, gateway: Server) -> None:
        self.page = page
        self.base = f"http://{gateway.host}:{gateway.http_port}"
        self.wrong: list[str] = []
        page.on("pageerror", lambda error: self.wrong.append(str(error)))
        page.on("console", self.hear)
        page.on("request", self.see)

    def hear(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.wrong.append(message.text)

    def see(self, request: Any) -> None:
        if not request.url.startswith((self.base, "data:", "blob:")):
            self.wrong.append(f"asks {request.url}")

    def open(self, path: str) -> Any:
        self.page.goto(self.base + path)
        return self.page


@pytest.fixture
def watched(stranger: Any, gateway: Server) -> Iterator[Watched]:
    page = stranger.new_page()
    try:
        found = Watched(page, gateway)
        yield found
        assert found.wrong == []
    finally:
        page.close()


def test_the_reference_is_read_without_a_password(watched: Watched) -> None:
    page = watched.open("/docs")
    page.get_by_role("heading", name="AMQP gateway").wait_for()
    assert page.locator(".opblock-tag").count() >= 8
    page.locator("#operations-tag-messages").click()
    page.locator("#operations-messages-publishMessage .opblock-summary-control").first.click()
    # Markdown of the description becomes a table, and the policy of the page lets it.
    page.locator("#operations-messages-publishMessage .renderedMarkdown table").first.wait_for()
    page.get_by_text("One of these forms.").first.wait_for()


def test_a_request_is_tried_out_with_basic(watched: Watched, gateway: Server) -> None:
    with httpx.Client(base_url=watched.base, auth=("guest", "guest"), trust_env=False) as http:
        path = "/v1/admin/vhosts/%2F/queues/tried%2Fout"
        assert http.put(path, json={}).status_code in (200, 201)
    page = watched.open("/docs")
    page.get_by_role("button", name="Authorize").first.click()
    page.locator("#auth-basic-username").fill("guest")
    page.locator("#auth-basic-password").fill("guest")
    page.get_by_role("button", name="Apply credentials").first.click()
    page.get_by_role("button", name="Close").first.click()
    page.locator("#operations-tag-topology").click()
    operation = page.locator("#operations-topology-listQueues")
    operation.locator(".opblock-summary-control").first.click()
    operation.get_by_role("button", name="Try it out").click()
    operation.locator("tr[data-param-name=vhost] input").fill("/")
    with page.expect_response("**/v1/%2F/queues") as answered:
        operation.get_by_role("button", name="Execute").click()
    assert answered.value.status == 200
    assert answered.value.request.headers["authorization"] == "Basic Z3Vlc3Q6Z3Vlc3Q="
    operation.get_by_text("tried/out").first.wait_for()


def test_channels_are_the_callers(stranger: Any, watched: Watched) -> None:
    """The browser sends the password that it was asked for."""
    with httpx.Client(base_url=watched.base, auth=("guest", "guest"), trust_env=False) as http:
        path = "/v1/admin/vhosts/%2F/queues/%3Cimg%20src%3Dx%3E"
        assert http.put(path, json={}).status_code in (200, 201)
    login = stranger.new_page()
    login.goto(f"{watched.base.replace('://', f'://{USER}@')}/asyncapi.json")
    login.close()
    page = watched.open("/docs/events")
    page.get_by_role("heading", name="<img src=x>", exact=True).wait_for()
    page.get_by_role("heading", name="amq.topic", exact=True).wait_for()
    assert page.get_by_text("/amqp", exact=False).count() > 0

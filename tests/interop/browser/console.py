"""The console in a page of its own, and everything that went wrong or astray in it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from tests.interop.servers import HOST, PEERS, Server

AXE = PEERS / "npm" / "node_modules" / "axe-core" / "axe.min.js"
PATIENCE = 60.0
VIEWS = ("overview", "queues", "exchanges", "bindings", "live", "publish", "dead-letters",
         "connections", "bridge", "journal", "users", "vhosts")  # fmt: skip
ROWS = """label => [...document.querySelectorAll(`table[aria-label="${label}"] tbody tr`)]
    .map(row => [...row.cells].map(cell => cell.textContent))"""

MARK = "document.querySelector('#main')?.firstElementChild?.setAttribute('data-past', '')"


def until(page: Any, true: Callable[[], bool], what: str, seconds: float = PATIENCE) -> None:
    """Wait while the browser's messages are seen to."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, f"not in {seconds:.0f} s: {what}"
        page.wait_for_timeout(50)


class Api:
    """The same gateway without a browser."""

    def __init__(self, gateway: Server) -> None:
        base = f"http://{HOST}:{gateway.http_port}"
        guest = ("guest", "guest")
        self.http = httpx.Client(base_url=base, auth=guest, trust_env=False, timeout=PATIENCE)

    def __enter__(self) -> Api:
        return self

    def __exit__(self, *what: object) -> None:
        self.http.close()

    def put(self, path: str, **body: Any) -> None:
        assert self.http.put(f"/v1/admin/{path}", json=body).status_code in (200, 201)

    def queue(self, name: str, vhost: str = "/", arguments: dict[str, Any] | None = None) -> None:
        where = f"vhosts/{quote(vhost, '')}/queues/{quote(name, '')}"
        self.put(where, arguments=arguments or {})

    def exchange(self, name: str, kind: str = "topic") -> None:
        self.put(f"vhosts/%2F/exchanges/{quote(name, '')}", type=kind)

    def bind(self, source: str, destination: str, key: str = "", kind: str = "queue") -> None:
        answer = self.http.post(
            "/v1/admin/vhosts/%2F/bindings",
            json={
                "source": source,
                "destination": destination,
                "destination_type": kind,
                "routing_key": key,
            },
        )
        assert answer.status_code in (200, 201), answer.text

    def publish(self, queue: str, body: bytes = b"{}", **headers: str) -> None:
        headers.setdefault("Content-Type", "application/json")
        path = f"/v1/%2F/queues/{quote(queue, '')}/messages"
        answer = self.http.post(path, content=body, headers=headers)
        assert answer.status_code == 201, answer.text

    def find(self, path: str) -> Any:
        """What the administration says of something, or ``None``."""
        answer = self.http.get(f"/v1/admin/{path}")
        return answer.json() if answer.status_code == 200 else None


class Console:
    """``wrong``: what the page complained of; ``astray``: what it asked of other hosts."""

    def __init__(self, page: Any, gateway: Server) -> None:
        self.page = page
        self.origin = f"http://{HOST}:{gateway.http_port}"
        self.wrong: list[str] = []
        self.astray: list[str] = []
        page.on("console", lambda said: self.wrong.append(f"{said.type}: {said.text}"))
        page.on("pageerror", lambda error: self.wrong.append(str(error)))
        page.on("request", self._look)

    def _look(self, request: Any) -> None:
        if not request.url.startswith((self.origin + "/", "data:")):
            self.astray.append(request.url)

    def open(self, view: str, name: str | None = None, vhost: str = "/", query: str = "") -> None:
        parts = [vhost, view, *([] if name is None else [name])]
        address = "/".join(quote(part, "") for part in parts)
        target = f"{self.origin}/#/{address}{query}"
        if target != self.page.url:
            self.page.evaluate(MARK)
        self.page.goto(target)
        # The view of this address, and not what still stands there.
        self.page.locator("#main > :first-child:not([data-past])").wait_for(state="attached")
        self.shows("#health", "ready")

    def text(self, selector: str) -> str:
        return " ".join(self.page.locator(selector).first.inner_text().split())

    def shows(self, selector: str, wanted: str) -> None:
        self.page.locator(selector).first.wait_for(state="attached")
        until(self.page, lambda: wanted in self.text(selector), f"{wanted!r} in {selector}")

    def rows(self, table: str) -> list[list[str]]:
        found: list[list[str]] = self.page.evaluate(ROWS, table)
        return found

    def row(self, table: str, name: str) -> list[str]:
        return next((row for row in self.rows(table) if row[0] == name), [])

    def has(self, table: str, name: str, wanted: bool = True) -> None:
        what = f"{name!r} in {table}" if wanted else f"{name!r} gone from {table}"
        until(self.page, lambda: bool(self.row(table, name)) is wanted, what)

    def press(self, name: str, within: str = "body") -> None:
        self.page.locator(within).get_by_role("button", name=name, exact=True).click()

    def fill(self, **fields: str) -> None:
        """Fields of the open dialog by name."""
        for name, value in fields.items():
            self.page.locator(f"dialog [name={name}]").fill(value)

    def tab_to(self, selector: str, key: str = "Tab") -> None:
        """Move the focus there as a keyboard does."""
        for _ in range(60):
            self.page.keyboard.press(key)
            if self.page.evaluate("it => document.activeElement.matches(it)", selector):
                return
        pytest.fail(f"{key} does not lead to {selector}")

    @property
    def focused(self) -> str:
        found: str = self.page.evaluate(
            "document.activeElement.getAttribute('aria-label') ?? document.activeElement.innerText"
        )
        return found

    def violations(self) -> str:
        """What axe finds wrong with the page as it is now."""
        self.page.evaluate(f"() => {{ {AXE.read_text()} }}")
        found = self.page.evaluate("async () => (await axe.run()).violations")
        places = {one["id"]: [node["html"][:200] for node in one["nodes"]] for one in found}
        return json.dumps(places) if places else ""

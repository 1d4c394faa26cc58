"""A real browser: its own EventSource over a network that breaks.

Nothing in the page resumes anything; what is missing or doubled is the gateway's doing.
"""

from __future__ import annotations

import json
import random
import time
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from tests.interop.browser.wire import Wire
from tests.interop.browser.words import PATIENCE, Publisher, drawn, until
from tests.interop.servers import HOST, Server, start_gateway

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

PAGE = Path(__file__).parent / "browser" / "watch.html"
TEXTS = "list => [...document.getElementById(list).children].map(item => item.textContent)"


class Watch:
    """The page with the EventSource, seen from outside."""

    def __init__(self, page: Any, wire: Wire, source: str) -> None:
        self.page = page
        origin = f"http://{HOST}:{wire.port}"
        page.route(f"{origin}/watch.html**", lambda route: route.fulfill(path=PAGE))
        page.goto(f"{origin}/watch.html?source={quote(source, safe='')}")
        until(page, lambda: self.opens == 1, "the stream opens")

    def texts(self, name: str) -> list[str]:
        found: list[str] = self.page.evaluate(TEXTS, name)
        return found

    @property
    def notes(self) -> list[tuple[str, dict[str, Any]]]:
        return [tuple(json.loads(text)) for text in self.texts("notes")]

    @property
    def opens(self) -> int:
        return sum(kind == "gateway.open" for kind, _ in self.notes)

    @property
    def numbers(self) -> list[int]:
        return [int(text) for text in self.texts("messages")]


def break_somehow(how: str, wire: Wire, publisher: Publisher, chance: random.Random) -> None:
    """Bring the wire down, one way or another, while messages flow."""
    if how == "now":
        wire.cut()
    elif how == "in a burst":
        wire.cut_after(chance.randint(1, 300_000))
        publisher.burst.set()
        deadline = time.monotonic() + PATIENCE
        while wire.whole:
            assert time.monotonic() < deadline, "the burst did not come through the wire"
            time.sleep(0.005)
    elif how == "lost on the way":
        wire.lose()
        publisher.burst.set()
        time.sleep(chance.uniform(0.1, 0.5))
        wire.cut()
    elif how == "stuck":
        wire.freeze()
        publisher.burst.set()
        time.sleep(chance.uniform(0.1, 0.5))
        wire.cut()


WAYS = ["now", "in a burst", "lost on the way", "stuck", "in a burst", "now"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["exchange", "queue"])
def test_eventsource_misses_nothing(
    kind: str, chrome: Any, gateway: Server, wire: Wire, request: pytest.FixtureRequest
) -> None:
    pika = pytest.importorskip("pika")
    seed = drawn(f"browser {kind}")
    print(f"seed {seed}")
    chance = random.Random(seed)
    name = f"browser-{seed}"
    with pika.BlockingConnection(pika.ConnectionParameters(HOST, gateway.port)) as connection:
        channel = connection.channel()
        if kind == "exchange":
            channel.exchange_declare(name, "topic", durable=True)
            source, target, key = f"exchange:{name}?binding=#", name, "some.key"
        else:
            channel.queue_declare(name, durable=True)
            source, target, key = f"queue:{name}", "", name
    page = chrome.new_page()
    publisher = Publisher(gateway.port, target, key, seed)
    request.addfinalizer(page.close)
    request.addfinalizer(publisher.enough.set)

    watch = Watch(page, wire, source)
    publisher.start()
    ways = chance.sample(WAYS, len(WAYS))
    for times, how in enumerate(ways, 1):
        page.wait_for_timeout(chance.uniform(100, 700))
        break_somehow(how, wire, publisher, chance)
        before = publisher.published
        page.wait_for_timeout(chance.uniform(300, 1200))
        until(page, lambda: publisher.published > before, "pika goes on meanwhile")  # noqa: B023
        wire.mend()
        until(page, lambda: watch.opens == times + 1, f"resumes after {how!r}")  # noqa: B023
    publisher.enough.set()
    publisher.join(PATIENCE)
    assert publisher.error is None, publisher.error
    count = publisher.published
    deadline = time.monotonic() + PATIENCE
    while len(watch.numbers) < count and time.monotonic() < deadline:
        page.wait_for_timeout(100)
    page.wait_for_timeout(500)  # for what comes twice

    numbers = watch.numbers
    doubled = sorted({n for n in numbers if numbers.count(n) > 1})
    missing = sorted(set(range(count)) - set(numbers))
    assert (missing, doubled) == ([], []), ways
    assert numbers == list(range(count))
    assert count > 200 and wire.cuts >= len(ways)
    # the browser brought its position, and was told that nothing is missing
    asked = [head for head in wire.requests if "/events?" in head and "\r\nAuthorization:" in head]
    brought = ["\r\nLast-Event-ID: b1." in head for head in asked]
    assert brought == [False] + [True] * len(ways)
    resumed = [told["resume"] for kind, told in watch.notes if kind == "gateway.open"]
    assert resumed == ["fresh"] + ["exact"] * len(ways)


def test_eventsource_reports_events_lost_by_a_restart(chrome: Any, tmp_path: Path) -> None:
    """A gateway that has forgotten the page's position says so, and goes on."""

    def publish(server: Server, number: int) -> None:
        answer = httpx.post(
            f"http://{HOST}:{server.http_port}/v1/%2F/exchanges/amq.topic/messages?routing_key=k",
            headers={"Content-Type": "application/json"},
            content=json.dumps({"n": number}),
            auth=("guest", "guest"),
            trust_env=False,
            timeout=PATIENCE,
        )
        assert answer.status_code == 201

    first = start_gateway(tmp_path)
    assert first.http_port is not None
    page = chrome.new_page()
    with Wire(first.http_port) as wire:
        try:
            watch = Watch(page, wire, "exchange:amq.topic?binding=#")
            publish(first, 1)
            until(page, lambda: watch.numbers == [1], "the first message")
            wire.cut()
            first.kill()
            second = start_gateway(tmp_path)
            try:
                assert second.http_port is not None
                wire.behind = second.http_port
                wire.mend()
                until(page, lambda: watch.opens == 2, "resumes")
                publish(second, 2)
                until(page, lambda: watch.numbers == [1, 2], "the second message")
                notes = watch.notes
            finally:
                second.stop()
        finally:
            first.stop()
            page.close()
    assert [kind for kind, _ in notes] == ["gateway.open", "gateway.open", "gateway.gap"]
    assert [told["resume"] for _, told in notes[:2]] == ["fresh", "gap"]
    assert notes[2][1]["lost"] is None

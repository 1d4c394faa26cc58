"""The shipped JavaScript client in a real browser, and what parsers in it make of odd bodies.

Several tabs share one stream. Whichever has it may be closed at any moment, and the network may
break; no tab misses a message of the time it was open, or gets one twice.
"""

from __future__ import annotations

import base64
import json
import random
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from tests.interop.browser.wire import Wire
from tests.interop.browser.words import PATIENCE, Publisher, drawn, until
from tests.interop.servers import HOST, Server, start_gateway

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

PAGE = Path(__file__).parent / "browser" / "client.html"
BODIES = (
    b"",
    b"plain",
    b" leading space",
    b":colon",
    b"data: not a field\nid: 7\nevent: gateway.close",
    b"line\nline\n\nblank before",
    b"ends with\n",
    b"\n",
    b"nul \x00 inside",
    "\ufeffbyte order mark first".encode(),
    "mark \ufeff inside".encode(),
    "line\u2028separator\u2029paragraph\u0085next".encode(),
    "\U0001f600 Grüße".encode(),
    b"carriage\rreturn",
    b"both\r\nof them",
    b"\xff\xfe",
    b"cut \xe2\x82",
)


class Tab:
    """A page with the client. Its origin is the wire's, as the gateway's module is."""

    def __init__(
        self, chrome: Any, port: int, url: str, native: bool = False, **options: Any
    ) -> None:
        self.page = chrome.new_page()
        self.wrong: list[str] = []
        self.page.on("pageerror", lambda error: self.wrong.append(str(error)))
        origin = f"http://{HOST}:{port}"
        self.page.route(f"{origin}/client.html**", lambda route: route.fulfill(path=PAGE))
        asked = f"url={quote(url, safe='')}&options={quote(json.dumps(options), safe='')}"
        self.page.goto(f"{origin}/client.html?{asked}{'&native' if native else ''}")

    def look(self, name: str) -> Any:
        return self.page.evaluate(name)

    @property
    def role(self) -> str:
        return str(self.look("events.role"))

    @property
    def notes(self) -> list[tuple[str, dict[str, Any]]]:
        return [(kind, told) for kind, told in self.look("notes")]

    @property
    def opens(self) -> list[str]:
        return [told["resume"] for kind, told in self.notes if kind == "gateway.open"]

    @property
    def numbers(self) -> list[int]:
        return [json.loads(data)["body"]["json"]["n"] for data, _ in self.look("seen")]

    def close(self) -> None:
        self.page.close()
        assert not self.wrong, self.wrong


def listeners(gateway: Server, name: str) -> int:
    found = httpx.get(
        f"http://{HOST}:{gateway.http_port}/v1/%2F/subscriptions",
        auth=("guest", "guest"),
        trust_env=False,
        timeout=PATIENCE,
    ).json()
    return sum(one["name"] == name for one in found["subscriptions"])


def put(gateway: Server, exchange: str, body: bytes, kind: str = "text/plain") -> None:
    answer = httpx.post(
        f"http://{HOST}:{gateway.http_port}/v1/%2F/exchanges/{exchange}/messages?routing_key=k",
        headers={"Content-Type": kind, "Amqp-Durable": "?1"},
        content=body,
        auth=("guest", "guest"),
        trust_env=False,
        timeout=PATIENCE,
    )
    assert answer.status_code == 201, answer.text


def make_exchange(gateway: Server, name: str) -> None:
    pika = pytest.importorskip("pika")
    with pika.BlockingConnection(pika.ConnectionParameters(HOST, gateway.port)) as connection:
        connection.channel().exchange_declare(name, "topic", durable=True)


def shown(data: str) -> bytes:
    body = json.loads(data)["body"]
    return body["text"].encode() if "text" in body else base64.b64decode(body["base64"])


@pytest.mark.parametrize("transport", ["fetch", "eventsource"])
def test_odd_bodies(chrome: Any, gateway: Server, wire: Wire, transport: str) -> None:
    """The client's parser and the browser's own agree with what was published, and on cursors."""
    name = f"odd-{transport}-{drawn(transport)}"
    make_exchange(gateway, name)
    for form in ("json", "text"):
        url = f"/v1/%2F/exchanges/{name}/events?binding=%23&format={form}"
        options = {"share": False, "more": f"&format={form}"} | how(transport, name)
        tab = Tab(chrome, wire.port, url, native=True, **options)
        until(tab.page, lambda: tab.opens == ["fresh"], "the client's stream")  # noqa: B023
        until(tab.page, lambda: tab.page.title() == "open", "the native stream")  # noqa: B023
        for body in BODIES:
            put(gateway, name, body)
        wanted = [body for body in BODIES if form == "json" or representable(body)]
        for list_of in ("seen", "native"):
            until(
                tab.page,
                lambda: len(tab.look(list_of)) == len(wanted),  # noqa: B023
                f"all are {list_of}",
            )
        seen, native = tab.look("seen"), tab.look("native")
        assert seen == native
        got = [shown(data) if form == "json" else data.encode() for data, _ in seen]
        assert got == wanted
        left = len(BODIES) - len(wanted)  # what is said of the last comes behind all that is shown
        until(tab.page, lambda: warned(tab) == left, "what is no text is told of")  # noqa: B023
        tab.close()


def warned(tab: Tab) -> int:
    """How often it was told of something that is no text."""
    kinds = [told["type"] for kind, told in tab.notes if kind == "gateway.warn"]
    return kinds.count("not-text")


def how(transport: str, exchange: str) -> dict[str, Any]:
    """Options of the client: over fetch it answers a challenge, else it has a ticket."""
    if transport == "fetch":
        return {"transport": transport}
    return {"transport": transport, "sources": [f"exchange:{exchange}?binding=#"]}


def representable(body: bytes) -> bool:
    try:
        return "\r" not in body.decode()
    except UnicodeDecodeError:
        return False


@pytest.mark.slow
@pytest.mark.parametrize("transport", ["fetch", "eventsource"])
def test_tabs_share_one_stream(
    chrome: Any, gateway: Server, wire: Wire, transport: str, request: pytest.FixtureRequest
) -> None:
    seed = drawn(f"tabs {transport}")
    print(f"seed {seed}")
    chance = random.Random(seed)
    name = f"tabs-{seed}"
    make_exchange(gateway, name)
    url = f"/v1/%2F/exchanges/{name}/events?binding=%23"
    options = how(transport, name)
    first = Tab(chrome, wire.port, url, **options)
    until(first.page, lambda: first.opens == ["fresh"], "the stream opens")
    publisher = Publisher(gateway.port, name, "some.key", seed)
    request.addfinalizer(publisher.enough.set)
    publisher.start()
    tabs = [first, *(Tab(chrome, wire.port, url, **options) for _ in range(3))]
    for tab in tabs[1:]:
        until(tab.page, lambda: bool(tab.numbers), "a follower hears")  # noqa: B023
    closed = []
    for act in ("close", "break", "close", "come", "close"):
        leaders = [tab for tab in tabs if tab.role == "leader"]
        assert len(leaders) == 1
        until(tabs[-1].page, lambda: listeners(gateway, name) == 1, "the old stream is gone")
        tabs[-1].page.wait_for_timeout(chance.uniform(100, 600))
        if act == "break":
            publisher.burst.set()
            wire.cut_after(chance.randint(1, 200_000))
            until(tabs[-1].page, lambda: not wire.whole, "the wire breaks")
            wire.mend()
        elif act == "come":
            tabs.append(Tab(chrome, wire.port, url, **options))
            until(tabs[-1].page, lambda: bool(tabs[-1].numbers), "who comes late hears")
        else:
            closed.append((leaders[0].numbers, leaders[0].opens))
            tabs.remove(leaders[0])
            leaders[0].close()
            until(tabs[0].page, lambda: any(tab.role == "leader" for tab in tabs), "a new leader")
        before = max(tab.numbers[-1] for tab in tabs)
        for tab in tabs:
            until(tab.page, lambda: tab.numbers[-1] > before, f"goes on after {act}")  # noqa: B023
    publisher.enough.set()
    publisher.join(PATIENCE)
    assert publisher.error is None, publisher.error
    last = publisher.published - 1
    for tab in tabs:
        until(tab.page, lambda: tab.numbers[-1] == last, "the last message")  # noqa: B023
    tabs[0].page.wait_for_timeout(500)
    for numbers in [*(tab.numbers for tab in tabs), *(numbers for numbers, _ in closed)]:
        assert numbers == list(range(numbers[0], numbers[-1] + 1))
    assert closed[0][0][0] == 0 and len(closed) == 3
    for opens in [*(tab.opens for tab in tabs), *(opens for _, opens in closed)]:
        assert set(opens[1:]) <= {"exact"}
    assert not any(kind == "gateway.gap" for tab in tabs for kind, _ in tab.notes)
    until(tabs[0].page, lambda: listeners(gateway, name) == 1, "one stream for all")
    for tab in tabs:
        tab.close()


def test_one_tab_resumes_over_a_restart(chrome: Any, tmp_path: Path) -> None:
    """With a durable journal the process may be killed: nothing is missing or comes twice."""
    first = start_gateway(tmp_path)
    assert first.http_port is not None
    with Wire(first.http_port) as wire:
        url = "/v1/%2F/exchanges/amq.topic/events?binding=%23&journal=durable"
        tab = Tab(chrome, wire.port, url)
        try:
            until(tab.page, lambda: tab.opens == ["fresh"], "the stream opens")
            for number in range(5):
                put(first, "amq.topic", b'{"n":%d}' % number, "application/json")
            until(tab.page, lambda: tab.numbers == list(range(5)), "the first five")
            wire.cut()
            put(first, "amq.topic", b'{"n":5}', "application/json")
            first.kill()
            second = start_gateway(tmp_path)
            try:
                assert second.http_port is not None
                wire.behind = second.http_port
                put(second, "amq.topic", b'{"n":6}', "application/json")
                wire.mend()
                until(tab.page, lambda: len(tab.opens) == 2, "resumes")
                put(second, "amq.topic", b'{"n":7}', "application/json")
                until(tab.page, lambda: tab.numbers[-1] == 7, "the last message")
                assert tab.numbers == list(range(8))
                assert tab.opens == ["fresh", "exact"]
            finally:
                second.stop()
        finally:
            first.stop()
            tab.close()


def test_a_final_refusal_ends_all_tabs(chrome: Any, gateway: Server, wire: Wire) -> None:
    url = "/v1/%2F/queues/there-is-none/events"
    tabs = [Tab(chrome, wire.port, url) for _ in range(2)]
    for tab in tabs:
        until(tab.page, lambda: tab.look("events.closed"), "gives up")  # noqa: B023
    (told,) = [told for kind, told in tabs[0].notes if kind == "error"]
    assert told["final"] is True and told["status"] == 404
    assert told["problem"]["title"]
    for tab in tabs:
        tab.close()


NATIVE = """async ([url, ticket]) => {
  const basic = { Authorization: "Basic " + btoa("guest:guest") };
  if (ticket) {
    const answer = await fetch("/v1/stream-tickets", {
      method: "POST",
      headers: { ...basic, "Content-Type": "application/json" },
      body: JSON.stringify({ sources: ["exchange:amq.topic?binding=#"] }),
    });
    url = (await answer.json()).url;
  } else await fetch("/v1/session", { method: "POST", headers: basic });
  window.seen = [];
  window.resumes = [];
  const source = new EventSource(url);
  source.onmessage = ({ data, lastEventId }) => window.seen.push([data, lastEventId]);
  const opened = ({ data }) => window.resumes.push(JSON.parse(data).resume);
  source.addEventListener("gateway.open", opened);
}"""


@pytest.mark.parametrize("ticket", [False, True], ids=["cookie", "ticket"])
def test_native_eventsource_without_a_password(
    ticket: bool, chrome: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What browsers can do by themselves: a cookie or a ticket, and resume after the wire broke."""
    monkeypatch.setenv("AMQP_GATEWAY_HTTP__SESSION__PLAIN_HTTP", "true")
    server = start_gateway(tmp_path)
    assert server.http_port is not None
    page = chrome.new_page()
    try:
        with Wire(server.http_port) as wire:
            origin = f"http://{HOST}:{wire.port}"
            page.route(f"{origin}/empty", lambda route: route.fulfill(body="<p>", status=200))
            page.goto(f"{origin}/empty")
            page.evaluate(NATIVE, ["/v1/%2F/events?source=exchange:amq.topic", ticket])
            until(page, lambda: page.evaluate("resumes") == ["fresh"], "the stream opens")
            put(server, "amq.topic", b"1")
            until(page, lambda: len(page.evaluate("seen")) == 1, "the first message")
            wire.cut()
            put(server, "amq.topic", b"2")
            wire.mend()
            until(page, lambda: page.evaluate("resumes") == ["fresh", "exact"], "it resumes")
            until(page, lambda: len(page.evaluate("seen")) == 2, "the second message")
            assert [shown(data) for data, _ in page.evaluate("seen")] == [b"1", b"2"]
            asked = [head for head in wire.requests if "/events?" in head]
            assert asked and not any("\r\nAuthorization:" in head for head in asked)
            wanted = "ticket=" if ticket else "\r\nCookie: amqp-gateway-session="
            assert all(wanted in head for head in asked)
    finally:
        page.close()
        server.stop()


REFUSED = """([url]) => {
  window.told = [];
  window.source = new EventSource(url);
  for (const kind of ["gateway.error", "gateway.close"])
    window.source.addEventListener(kind, ({ data }) => window.told.push([kind, JSON.parse(data)]));
}"""
GONE = f"ticket={'A' * 43}"


@pytest.mark.parametrize(
    ("query", "status"),
    [
        (f"source=exchange:amq.topic&{GONE}", 401),
        ("source=queue:there-is-none", 404),
        ("source=exchange:amq.topic&from=nonsense", 400),
    ],
    ids=["ticket", "queue", "parameter"],
)
def test_a_refused_eventsource_is_told_and_stops(
    chrome: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, query: str, status: int
) -> None:
    """A page sees no status of an ``EventSource``: it hears of the problem as an event, the browser
    asks once more, gets 204 and gives up."""
    monkeypatch.setenv("AMQP_GATEWAY_HTTP__SESSION__PLAIN_HTTP", "true")
    server = start_gateway(tmp_path)
    assert server.http_port is not None
    page = chrome.new_page()
    try:
        with Wire(server.http_port) as wire:
            origin = f"http://{HOST}:{wire.port}"
            page.route(f"{origin}/empty", lambda route: route.fulfill(body="<p>", status=200))
            page.goto(f"{origin}/empty")
            page.evaluate(NATIVE, ["/v1/%2F/events?source=exchange:amq.topic", False])
            until(page, lambda: page.evaluate("resumes") == ["fresh"], "there is a session")
            page.evaluate(REFUSED, [f"/v1/%2F/events?{query}&errors=inband"])
            until(page, lambda: len(page.evaluate("told")) == 2, "it is told")
            (_, error), (_, closed) = page.evaluate("told")
            assert error["problem"]["status"] == status
            assert closed["reconnect"] is False
            until(page, lambda: page.evaluate("source.readyState") == 2, "it gives up")
            assert len(page.evaluate("told")) == 2
            asked = [head for head in wire.requests if "errors=inband" in head]
            assert len(asked) == 2 and "\r\nLast-Event-ID: b0.end" in asked[1]
    finally:
        page.close()
        server.stop()


RENEWING = """async ([source, bad]) => {
  const { AmqpEvents } = await import("/client/amqp-events.js");
  const headers = {
    Authorization: "Basic " + btoa("guest:guest"),
    "Content-Type": "application/json",
  };
  Object.assign(window, { tickets: 0, opens: [], errors: [], changed: [] });
  const ticket = async () => {
    window.tickets += 1;
    if (window.tickets === 1) return bad;
    const body = JSON.stringify({ sources: [source] });
    const answer = await fetch("/v1/stream-tickets", { method: "POST", headers, body });
    return (await answer.json()).url;
  };
  const url = "/v1/%2F/events?source=" + encodeURIComponent(source);
  const events = new AmqpEvents(url, { transport: "eventsource", share: false, ticket });
  events.addEventListener("gateway.open", ({ data }) => window.opens.push(JSON.parse(data)));
  events.addEventListener("gateway.sources", ({ data }) => window.changed.push(JSON.parse(data)));
  events.addEventListener("error", ({ detail }) => window.errors.push(detail));
  window.more = async (add) => {
    const answer = await fetch(`/v1/%2F/streams/${window.opens[0].stream}`, {
      method: "PATCH", headers, body: JSON.stringify({ add }),
    });
    return answer.status;
  };
}"""


def test_a_bad_ticket_is_replaced_and_sources_come_to_a_live_stream(
    chrome: Any, gateway: Server, wire: Wire
) -> None:
    page = chrome.new_page()
    try:
        origin = f"http://{HOST}:{wire.port}"
        page.route(f"{origin}/empty", lambda route: route.fulfill(body="<p>", status=200))
        page.goto(f"{origin}/empty")
        source = "exchange:amq.topic?binding=#"
        bad = f"/v1/%2F/events?source={quote(source, safe='')}&{GONE}"
        page.evaluate(RENEWING, [source, bad])
        until(page, lambda: len(page.evaluate("opens")) == 1, "the stream opens")
        assert page.evaluate("tickets") == 2 and page.evaluate("errors") == []
        other = "exchange:amq.fanout?binding="
        assert page.evaluate("sources => more(sources)", [other]) == 200
        until(page, lambda: len(page.evaluate("changed")) == 1, "it is told")
        (change,) = page.evaluate("changed")
        assert [one["source"] for one in change["added"]] == [other]
    finally:
        page.close()

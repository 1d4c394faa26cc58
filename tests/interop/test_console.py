"""The console in a real browser: everything it offers, done and looked up elsewhere."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
import pytest

from tests.interop.browser.console import VIEWS, Api, Console, until
from tests.interop.servers import HOST, Server

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]


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


def test_it_asks_for_a_login(gateway: Server) -> None:
    for path in ("/", "/console/main.js"):
        answer = httpx.get(f"http://{HOST}:{gateway.http_port}{path}", trust_env=False, timeout=60)
        assert answer.status_code == 401
        assert "Basic " in answer.headers["www-authenticate"]


@pytest.mark.parametrize("view", VIEWS)
def test_every_view_has_its_address(console: Console, view: str) -> None:
    console.open(view)
    title = console.text("h1")
    assert console.page.title().startswith(title.split(" 1")[0].rstrip("0123456789 "))
    current = console.page.locator("nav a[aria-current=page]")
    assert current.get_attribute("href") == f"#/%2F/{view}"


def test_queues_are_made_watched_purged_and_deleted(console: Console, api: Api) -> None:
    console.open("queues")
    console.press("Add queue")
    console.fill(name="c.orders/eu", arguments="x-max-length = 50\nx-overflow = reject-publish")
    console.press("Add queue", "dialog")
    console.shows("#notices", "c.orders/eu")
    console.has("queues", "c.orders/eu")
    assert api.find("vhosts/%2F/queues/c.orders%2Feu")["arguments"] == {
        "x-max-length": 50,
        "x-overflow": "reject-publish",
    }
    for _ in range(3):
        api.publish("c.orders/eu")

    def row() -> list[str]:
        return console.row("queues", "c.orders/eu")

    until(console.page, lambda: row()[1:4] == ["3", "0", "0"], "three ready")
    assert "x-max-length = 50" in row()[6]

    console.press("Purge c.orders/eu")
    console.shows("dialog", "3 messages that nobody has received yet will be lost")
    console.press("Purge", "dialog")
    until(console.page, lambda: row()[1] == "0", "purged")

    console.press("Delete c.orders/eu")
    console.press("Cancel", "dialog")
    assert api.find("vhosts/%2F/queues/c.orders%2Feu") is not None
    console.press("Delete c.orders/eu")
    console.press("Delete queue", "dialog")
    console.has("queues", "c.orders/eu", False)
    assert api.find("vhosts/%2F/queues/c.orders%2Feu") is None


def test_a_refusal_stays_in_its_dialog(console: Console, api: Api) -> None:
    api.queue("c.there")
    console.open("queues")
    console.press("Add queue")
    console.fill(name="c.there", arguments="x-max-length = 1")
    console.press("Add queue", "dialog")
    console.shows("dialog [role=alert]", "4")
    assert console.page.locator("dialog [name=name]").input_value() == "c.there"
    console.press("Cancel", "dialog")
    console.wrong.clear()  # the browser itself logs every 4xx


def test_one_queue_shows_its_messages_without_taking_them(console: Console, api: Api) -> None:
    api.queue("c.look")
    big = b'{"price": 12.50, "big": 123456789012345678901234567890}'
    api.publish("c.look", big, **{"Amqp-Property": '"attempt";v=3;t=ubyte, "who";v="me"'})
    api.publish("c.look", b"\x00\xff", **{"Content-Type": "application/octet-stream"})
    api.publish("c.look", b"")
    console.open("queues", "c.look")
    console.press("Look")
    messages = console.page.locator("ol.messages > li")
    until(console.page, lambda: messages.count() == 3, "three messages")
    first = messages.nth(0)
    assert '"price": 12.50' in first.inner_text()
    assert "123456789012345678901234567890" in first.inner_text()
    first.locator("summary").first.click()
    console.shows("ol.messages .decoded", "attempt 3 ubyte who me string")
    assert "00 ff" in messages.nth(1).inner_text()
    assert "Empty body" in messages.nth(2).inner_text()
    assert api.find("vhosts/%2F/queues/c.look")["ready"] == 3


def test_exchanges_and_bindings(console: Console, api: Api) -> None:
    api.queue("c.bound")
    console.open("exchanges")
    console.press("Add exchange")
    console.fill(name="c.shop")
    console.page.locator("dialog [name=type]").select_option("topic")
    console.press("Add exchange", "dialog")
    console.has("exchanges", "c.shop")
    console.page.get_by_role("link", name="c.shop", exact=True).click()
    console.press("Add binding")
    console.fill(destination="c.bound", routing_key="order.*.placed")
    console.press("Add binding", "dialog")
    console.has("bindings from this exchange", "c.shop")
    console.page.get_by_role("link", name="Bindings", exact=True).click()
    box = console.page.get_by_role("link", name="Exchange c.shop, topic")
    box.wait_for()
    assert "sends messages to queue called c.bound with key order.*.placed" in str(
        box.get_attribute("aria-label")
    )
    console.page.get_by_label("Filter drawing and table").fill("c.shop")
    until(console.page, lambda: len(console.rows("bindings")) == 1, "only this one")
    console.press("Remove this binding")
    console.press("Remove binding", "dialog")
    until(console.page, lambda: not console.rows("bindings"), "the binding is gone")
    console.open("exchanges", "c.shop")
    console.press("Delete")
    console.press("Delete exchange", "dialog")
    console.shows("h1", "Exchanges")
    assert api.find("vhosts/%2F/exchanges/c.shop") is None


def test_connections_are_shown_and_closed(console: Console, gateway: Server) -> None:
    pika = pytest.importorskip("pika")
    connection = pika.BlockingConnection(pika.ConnectionParameters(HOST, gateway.port))
    connection.channel()
    port = connection._impl._transport._sock.getsockname()[1]
    peer = f"{HOST}:{port}"
    console.open("connections")
    console.has("connections", peer)
    _, version, client, user, vhost, *_ = console.row("connections", peer)
    assert (version, user, vhost) == ("0-9-1", "guest", "/")
    assert client.startswith(f"Pika Python Client Library {pika.__version__}")
    console.press(f"Close {peer}")
    console.press("Close connection", "dialog")
    console.has("connections", peer, False)
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker, match="320"):
        connection.process_data_events(5)


def test_publish_with_typed_properties_and_listen(console: Console, api: Api, chrome: Any) -> None:
    console.open("live")
    console.press("Listen")
    console.shows("#listening", "Listening.")
    form = chrome.new_page()
    try:
        form.goto(f"{console.origin}/#/%2F/publish?exchange=amq.topic")
        form.get_by_label("Routing key").fill("from.console")
        form.get_by_label("Body", exact=True).fill('{"price": 12.50}')
        given = [("attempt", "ubyte", "3"), ("who", "string", "Grüße"),
                 ("big", "long", "9007199254740993"), ("at", "timestamp", "1754000000000"),
                 ("blob", "binary", "/wA="), ("gone", "null", "")]  # fmt: skip
        for name, kind, value in given:
            form.get_by_role("button", name="Add property").click()
            row = form.locator("li.property").last
            row.locator("[data-part=name]").fill(name)
            row.locator("[data-part=type]").select_option(kind)
            if kind != "null":
                row.locator("[data-part=value]").fill(value)
        form.get_by_text("Standard properties").click()
        form.get_by_label("Message id", exact=True).fill("7f3c1f6e-9a51-4f6c-8a51-2f0d9c1b2a3e")
        form.get_by_label("Message id is a").select_option("uuid")
        form.get_by_label("Priority").fill("4")
        form.get_by_role("button", name="Publish").click()
        form.locator("#published.good").wait_for()
    finally:
        form.close()
    console.shows("#listening", "1 received")
    console.page.locator("#events summary").click()
    console.page.locator("#events .decoded").wait_for()
    shown = console.text("#events li")
    for wanted in ("key from.console", "application/json", '"price": 12.50', "attempt 3 ubyte",
                   "who Grüße string", "big 9007199254740993 long",
                   "at 2025-07-31T22:13:20.000Z timestamp", "blob /wA= binary", "gone null",
                   "priority 4", "7f3c1f6e-9a51-4f6c-8a51-2f0d9c1b2a3e uuid"):  # fmt: skip
        assert wanted in shown, shown


def test_listening_says_why_it_ended_and_starts_afresh(console: Console, api: Api) -> None:
    api.queue("c.fresh")
    api.publish("c.fresh", b"old")
    console.open("live", query="?source=queue%3Ac.fresh")
    console.press("Listen")
    console.shows("#listening", "1 received")
    console.press("Stop")
    console.page.locator("[name=source]").fill("queue:c.nowhere")
    console.press("Listen")
    console.shows("#listening", "Ended: 404")
    assert "bad" in str(console.page.locator("#listening").get_attribute("class"))
    assert console.page.locator("#events li").count() == 0
    console.wrong.clear()


def test_a_queue_is_browsed_and_consuming_is_confirmed(console: Console, api: Api) -> None:
    """Neither an address nor one click takes a message."""
    api.queue("c.stays")
    for n in range(3):
        api.publish("c.stays", b'{"n": %d}' % n)

    def left() -> int:
        return int(api.find("vhosts/%2F/queues/c.stays")["messages"])

    console.open("queues", "c.stays")
    console.page.get_by_role("link", name="Live", exact=True).click()
    console.shows("h1", "Live messages")
    assert console.page.locator("[name=source]").input_value() == "queue:c.stays"
    assert console.page.locator("[name=mode]").input_value() == "browse"
    console.shows("#listening", "Not listening.")
    console.press("Listen")
    console.shows("#listening", "Browsing: 3 received")
    api.publish("c.stays", b'{"n": 3}')
    console.shows("#listening", "Browsing: 4 received")
    assert console.page.locator("#events > li").count() == 4 and left() == 4
    console.press("Stop")
    console.page.locator("[name=mode]").select_option("consume")
    console.press("Listen")
    console.shows("dialog", "removed from the queue")
    console.press("Cancel", "dialog")
    console.shows("#listening", "Not listening.")
    assert left() == 4
    console.press("Listen")
    console.press("Consume", "dialog")
    console.shows("#listening", "Listening: 4 received")
    until(console.page, lambda: left() == 0, "all are taken")
    console.press("Stop")


def test_an_address_starts_nothing(console: Console, api: Api, chrome: Any) -> None:
    """Not in the console, and not as a link to the API itself."""
    api.queue("c.linked")
    api.publish("c.linked", b"{}")
    asked: list[str] = []
    console.page.on("request", lambda request: asked.append(f"{request.method} {request.url}"))
    addresses = ["live?source=queue%3Ac.linked&mode=consume", "live?source=queue%3Ac.linked",
                 "publish?queue=c.linked&body=x", "dead-letters/c.linked", "queues/c.linked",
                 "exchanges/amq.topic", "bindings", "users", "vhosts", "connections",
                 "bridge"]  # fmt: skip
    for address in addresses:
        name, _, query = address.partition("?")
        view, _, one = name.partition("/")
        console.open(view, one or None, query=f"?{query}" if query else "")
        console.page.wait_for_timeout(100)
    assert not [one for one in asked if not one.startswith("GET ") or "/events" in one]
    linked = chrome.new_page()
    try:
        answer = linked.goto(f"{console.origin}/v1/%2F/queues/c.linked/events")
        assert answer is not None and answer.status == 403
        answer = linked.goto(f"{console.origin}/v1/%2F/events?source=queue:c.linked")
        assert answer is not None and answer.status == 403
        # A page of ours that means it still may.
        linked.goto(f"{console.origin}/")
        linked.evaluate("""() => new Promise((open, fail) => {
            const source = new EventSource("/v1/%2F/queues/c.linked/events");
            source.addEventListener("gateway.open", () => { source.close(); open(); });
            source.onerror = fail; })""")
    finally:
        linked.close()


def test_an_invalid_publish_is_reported(console: Console) -> None:
    console.open("publish", query="?queue=c.nowhere")
    console.press("Add property")
    console.page.get_by_label("Property name").fill("n")
    console.page.get_by_label("Property type").select_option("ubyte")
    console.page.get_by_label("Property value").fill("256")
    console.press("Publish")
    console.shows("#published", "n: ubyte goes from 0 to 255")
    console.page.get_by_label("Property value").fill("255")
    console.press("Publish")
    console.shows("#published", "404 No such address")
    console.wrong.clear()


def test_dead_letters_are_shown_and_redriven(console: Console, api: Api, gateway: Server) -> None:
    pika = pytest.importorskip("pika")
    api.exchange("c.dlx", "fanout")
    api.queue("c.dead")
    api.bind("c.dlx", "c.dead")
    api.queue("c.work", arguments={"x-dead-letter-exchange": "c.dlx"})
    for number in (1, 2):
        api.publish("c.work", b'{"n": %d}' % number)
    with pika.BlockingConnection(pika.ConnectionParameters(HOST, gateway.port)) as connection:
        channel = connection.channel()
        for _ in range(2):
            method, _, _ = channel.basic_get("c.work")
            channel.basic_nack(method.delivery_tag, requeue=False)
    console.open("dead-letters")
    console.shows(".suggestions", "c.dead 2 messages, from c.work")
    console.page.get_by_role("link", name="c.dead", exact=True).click()
    console.shows("ol.messages", "rejected in c.work")
    assert console.page.locator("table.deaths").count() == 2
    console.press("Redrive")
    console.fill(limit="1")
    console.press("Redrive", "dialog")
    console.shows("#notices", "1 message redriven from c.dead")
    until(console.page, lambda: console.page.locator("ol.messages > li").count() == 1, "one left")
    assert api.find("vhosts/%2F/queues/c.work")["ready"] == 1
    console.press("Throw away")
    console.press("Throw away", "dialog")
    console.shows(".pages", "No dead letters here.")
    assert api.find("vhosts/%2F/queues/c.dead")["messages"] == 0


def test_users_and_permissions(console: Console, api: Api) -> None:
    console.open("users")
    console.press("Add user")
    console.fill(name="c.dora", password="s3cret")
    console.page.locator("dialog [name=monitoring]").check()
    console.press("Add user", "dialog")
    console.has("users", "c.dora")
    console.has("permissions", "c.dora")
    assert api.find("users/c.dora") == {
        "name": "c.dora", "tags": ["monitoring"], "loopback_only": False,
    }  # fmt: skip
    console.press("Change what c.dora may in /")
    console.fill(configure="^dora-")
    console.press("Set permission", "dialog")
    until(console.page, lambda: console.row("permissions", "c.dora")[2] == "^dora-", "changed")
    assert api.find("users/c.dora/permissions/%2F")["configure"] == "^dora-"
    console.press("Change c.dora")
    console.page.locator("dialog [name=monitoring]").uncheck()
    console.press("Change user", "dialog")
    until(console.page, lambda: console.row("users", "c.dora")[1] == "", "no tags")
    console.press("Remove the permission of c.dora in /")
    console.press("Remove permission", "dialog")
    console.has("permissions", "c.dora", False)
    console.press("Remove c.dora")
    console.press("Remove user", "dialog")
    console.has("users", "c.dora", False)
    assert api.find("users/c.dora") is None


def test_virtual_hosts_are_made_switched_and_deleted(console: Console, api: Api) -> None:
    console.open("vhosts")
    console.press("Add virtual host")
    console.fill(name="c/test")
    console.press("Add virtual host", "dialog")
    console.has("virtual hosts", "c/test")
    api.queue("only-here", vhost="c/test")
    console.page.get_by_label("Virtual host", exact=True).select_option("c/test")
    console.page.wait_for_url("**/#/c%2Ftest/vhosts")
    console.page.get_by_role("link", name="Queues").first.click()
    console.has("queues", "only-here")
    console.open("vhosts")
    console.press("Delete c/test")
    console.press("Delete virtual host", "dialog")
    console.has("virtual hosts", "c/test", False)
    assert api.find("vhosts/c%2Ftest") is None


def test_a_missing_right_is_reported(chrome: Any, gateway: Server, api: Api) -> None:
    """A user without tags sees queues; the rest says what is missing."""
    api.put("users/c.plain", password="plain", tags=[])
    api.put("users/c.plain/permissions/%2F", configure=".*", write=".*", read=".*")
    other = chrome.new_page()
    try:
        other.set_extra_http_headers({"Authorization": "Basic Yy5wbGFpbjpwbGFpbg=="})
        console = Console(other, gateway)
        console.open("users")
        console.shows("main", "403 Not permitted")
        console.open("queues")
        console.shows("h1", "Queues")
        until(other, lambda: bool(console.rows("queues")), "its queues")
    finally:
        other.close()


FOREIGN = """<!doctype html><title>foreign</title>
<form method="post" enctype="text/plain" action="{to}"><input name='{{"a":"' value='"}}'></form>
<script>document.forms[0].submit()</script>"""


@pytest.mark.parametrize(
    "path",
    [
        "/v1/%2F/queues/formed/messages",
        "/api/exchanges/%2F/amq.default/publish",
        "/api/queues/%2F/formed/get",
        "/v1/%2F/queues/formed/deliveries",
    ],
)
def test_a_form_of_a_foreign_page_does_nothing(
    console: Console, api: Api, gateway: Server, path: str
) -> None:
    """The browser has logged in here, and sends the password it remembers with the form."""
    console.open("queues")
    console.has("queues", "amq.none", False)
    httpx.put(
        f"http://{HOST}:{gateway.http_port}/api/queues/%2F/formed",
        json={}, auth=("guest", "guest"), trust_env=False, timeout=60,
    ).raise_for_status()  # fmt: skip
    api.publish("formed")
    before = api.find("vhosts/%2F/queues/formed")
    assert before is not None
    to = f"http://{HOST}:{gateway.http_port}{path}"

    class Foreign(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            octets = FOREIGN.format(to=to).encode()
            self.send_response(200)
            self.send_header("content-type", "text/html")
            self.send_header("content-length", str(len(octets)))
            self.end_headers()
            self.wfile.write(octets)

        def log_message(self, *arguments: Any) -> None:
            """Say nothing."""

    page = console.page.context.new_page()
    answers: list[tuple[int, str]] = []
    page.on(
        "response",
        lambda answer: (
            answers.append((answer.status, answer.request.method)) if answer.url == to else None
        ),
    )
    with ThreadingHTTPServer((HOST, 0), Foreign) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            page.goto(f"http://localhost:{server.server_address[1]}/")
            refused = 401 if path.startswith("/api/") else 403  # as RabbitMQ says it
            until(page, lambda: (refused, "POST") in answers, "answered")
            assert {status for status, _ in answers} <= {401, 403}
        finally:
            server.shutdown()
            page.close()
    found = api.find("vhosts/%2F/queues/formed")
    assert found is not None and found["ready"] == before["ready"] > 0

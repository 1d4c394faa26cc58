"""Every kind of source over a restart of the gateway, polite or not: what a cursor is worth."""

import asyncio
import base64
import json
import signal
import socket
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.config.web import DeclaredRoute
from gateway.http.app import close
from gateway.message import DIALECTS, Essentials, Message, Properties
from tests.drawing import examples
from tests.http.stream_peer import Peer, numbers
from tests.http.stream_peer import publish as put
from tests.http.stream_words import TEXT, publish, texts
from tests.net.running import PATIENCE, Running, until

QUEUE = "source=queue:orders"
ROUTES = (DeclaredRoute(name="feed", exchange="amq.topic", key="#", stream=True),
          DeclaredRoute(name="work", queue="orders", stream=True))  # fmt: skip


def durable(rig: Any, number: int) -> None:
    dialect = DIALECTS["0-9-1"]
    header = dialect.write(Properties(content_type="text/plain", durable=True))
    rig.begin()
    message = Message(dialect, header, b"%d" % number, "", "orders", Essentials(durable=True))
    rig.channel.publish(message)
    rig.end()


async def test_a_route_with_a_durable_journal_is_exact(make_rig: Any, listener: Any) -> None:
    options = {"raw_nodes": True, "routes": ROUTES}
    rig = make_rig(volatile=False, **options)
    query = "source=route:feed&journal=durable"
    async with rig.served() as port, listener(port, query) as reader:
        await reader.opened()
        await publish(rig, "a", b"1", b"2", exchange="amq.topic", **TEXT)
        assert await texts(reader, 1) == ["1"]
        cursor = reader.cursor
    for other in (query, "source=exchange:amq.topic?binding=%23&journal=durable"):
        rig = make_rig(store=rig.store.survivors(), **options)
        async with rig.served() as port, listener(port, other, cursor) as again:
            assert again.headers["amqp-resume"] == "exact"
            assert await texts(again, 1) == ["2"]


@pytest.mark.parametrize("source", [QUEUE, "source=route:work"])
async def test_a_queue_redelivers_unaccepted_messages(
    make_rig: Any, listener: Any, source: str
) -> None:
    """The cursor is of a journal that went with the process, and says so; the queue has what
    nobody has accepted, and marks it."""
    options = {"routes": ROUTES}
    rig = make_rig(volatile=False, **options)
    rig.queue("orders", durable=True)
    for number in range(8):
        durable(rig, number)
    query = f"{source}&ack=on-next&credit=3"
    async with rig.served() as port, listener(port, query) as reader:
        await reader.opened()
        assert await texts(reader, 8) == [str(number) for number in range(8)]
        cursor = reader.cursor
        await rig.until(lambda: rig.depth("orders")[1] <= 3)
        survivors = rig.store.survivors()
    rig = make_rig(store=survivors, **options)
    async with rig.served() as port, listener(port, query, cursor) as again:
        assert again.headers["amqp-resume"] == "gap"
        assert (await again.until("gateway.gap")).data["lost"] is None
        got = [await again.until() for _ in range(3)]
        assert [event.body["text"] for event in got] == ["5", "6", "7"]
        durable(rig, 8)
        assert await texts(again, 1) == ["8"]


@settings(max_examples=examples(30), deadline=None)
@given(
    st.lists(
        st.sampled_from(["publish", "publish", "connect", "hang up", "run", "run", "restart"]),
        max_size=30,
    ),
    st.sampled_from(["none", "on-next"]),
)
def test_a_durable_queue_loses_nothing_over_restarts(
    rig_class: Any, play: list[str], ack: str
) -> None:
    """However often the process dies and the reader goes: in the end it has had everything."""

    async def run() -> None:
        rig = rig_class(volatile=False)
        rig.queue("orders", durable=True)
        more = "&credit=2" if ack == "on-next" else ""
        peer = Peer(rig, f"{QUEUE}&ack={ack}{more}".encode())
        published = 0
        for action in [*play, "restart", "connect"]:
            if action == "publish":
                durable(rig, published)
                published += 1
            elif action == "connect":
                peer.connect()
            elif action == "hang up":
                await peer.hang_up()
            elif action == "restart":
                survivors = rig.store.survivors()
                await peer.hang_up()
                if rig.app.state.hub._ticker is not None:
                    rig.app.state.hub._ticker.cancel()
                peer.rig = rig = rig_class(store=survivors)
            else:
                await asyncio.sleep(0)
        for _ in range(8 + 2 * published):
            await asyncio.sleep(0)
        await peer.hang_up()
        assert set(numbers(peer.got)) == set(range(published)), play
        await rig.app.state.hub.close()

    asyncio.run(run())


async def test_a_drain_loses_nothing_that_was_on_its_way(make_rig: Any, listener: Any) -> None:
    """The goodbye comes behind the events before it, and the cursor in hand is where to go on."""
    rig = make_rig(volatile=False)
    query = "source=exchange:amq.topic?binding=%23&journal=durable"
    async with rig.served() as port, listener(port, query) as reader:
        await reader.opened()
        for number in range(50):
            put(rig, "amq.topic", "a", number)
        await close(rig.app)
        seen = []
        while (event := await reader.event()).kind != "gateway.close":
            if event.kind == "message":
                seen.append(int(event.body["text"]))
        assert event.data["reconnect"] is True and not await reader.chunk()
        cursor = reader.cursor
    rig = make_rig(store=rig.store.survivors())
    async with rig.served() as port, listener(port, query, cursor) as again:
        assert again.headers["amqp-resume"] == "exact"
        rest = [int(text) for text in await texts(again, 50 - len(seen))]
    assert seen + rest == list(range(50))


# --- a whole gateway ----------------------------------------------------------------------------

BASIC = base64.b64encode(b"guest:guest").decode()


class Page:
    """One reader on a thread: everything it hears until the connection ends."""

    def __init__(self, port: int, path: str, cursor: str = "") -> None:
        self.text = b""
        lines = [f"GET {path} HTTP/1.1", "Host: localhost", f"Authorization: Basic {BASIC}"]
        lines += [f"Last-Event-ID: {cursor}"] if cursor else []
        self.peer = socket.create_connection(("127.0.0.1", port), 2 * PATIENCE)
        self.peer.sendall("\r\n".join([*lines, "", ""]).encode())
        self.thread = threading.Thread(target=self.read)
        self.thread.start()

    def read(self) -> None:
        with self.peer:
            while octets := self.peer.recv(1 << 16):
                self.text += octets

    def blocks(self) -> list[dict[str, str]]:
        """Those that are there to their end."""
        whole = self.text.replace(b"\r", b"").split(b"\n\n")[:-1]
        return [
            dict(line.partition(": ")[::2] for line in block.decode().split("\n"))
            for block in whole
        ]

    def told(self, kind: str) -> list[dict[str, Any]]:
        return [json.loads(one["data"]) for one in self.blocks() if one.get("event") == kind]


@pytest.mark.timeout(300)
def test_sigterm_says_goodbye_to_every_stream(tmp_path: Path) -> None:
    """Each with a time of its own to come back, and then the process ends by itself."""
    path = "/v1/%2F/exchanges/amq.topic/events?journal=durable"
    with Running(tmp_path, http__drain_spread_ms=20_000) as gateway:
        pages = [Page(gateway.http_port, path) for _ in range(20)]
        for page in pages:
            until(lambda: page.told("gateway.open"), "the stream opens")  # noqa: B023
        gateway.process.send_signal(signal.SIGTERM)
        for page in pages:
            page.thread.join(2 * PATIENCE)
            assert not page.thread.is_alive()
        assert gateway.process.wait(PATIENCE) == 0
        retries = []
        for page in pages:
            (drained,), (closed,) = page.told("gateway.drain"), page.told("gateway.close")
            assert closed["reconnect"] is True
            retries.append(drained["retry"])
        assert len(set(retries)) > 10 and max(retries) - min(retries) > 2000
        gateway.start()
        cursor = [one["id"] for one in pages[0].blocks() if one.get("id")][-1]
        again = Page(gateway.http_port, path, cursor)
        until(lambda: again.told("gateway.open"), "the stream opens again")
        assert again.told("gateway.open")[0]["resume"] == "exact"
        again.peer.shutdown(socket.SHUT_RDWR)
        again.thread.join(PATIENCE)
        assert not again.thread.is_alive()

"""AMQP over WebSocket at ``/amqp``: the OASIS binding, for all versions."""

import contextlib
import re
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Subprotocol

from gateway.adapters.methods.wire import layouts as w091
from gateway.adapters.segments.wire import layouts as w
from tests.net.running import Running, until
from tests.net.wire import PERSISTENT, Gone, Wire
from tests.net.wire_0_10 import Segments

AMQP = [Subprotocol("amqp")]
LARGE = 3 << 20


class WebSocketSocket:
    """The interface of a socket for ``Wire``, over a WebSocket; ``size`` cuts the output."""

    def __init__(self, web: ClientConnection, size: int) -> None:
        self._web, self._size = web, size

    def sendall(self, octets: bytes) -> None:
        for at in range(0, len(octets), self._size):
            self._web.send(octets[at : at + self._size])

    def recv(self, size: int) -> bytes:
        try:
            data = self._web.recv(60)
        except ConnectionClosed:
            return b""
        assert isinstance(data, bytes)
        return data

    def close(self) -> None:
        self._web.close()

    def shutdown(self, how: int) -> None:
        self._web.close()


class WebWire(Wire):
    """The lean client over a WebSocket."""

    def __init__(self, web: ClientConnection, size: int = 1 << 20) -> None:
        self.version = "0-9-1"
        self.user, self.password, self.heartbeat = "guest", "guest", 0
        self.capabilities = ()
        self.socket = WebSocketSocket(web, size)  # type: ignore[assignment]
        self._held = bytearray()
        self._at = 0
        self.heartbeats = 0


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with Running(tmp_path_factory.mktemp("websocket")) as running:
        yield running


def dial(gateway: Running, **options: Any) -> ClientConnection:
    options = {
        "subprotocols": AMQP,
        "max_size": None,
        "compression": None,
        "open_timeout": 60,
        **options,
    }
    found: ClientConnection = connect(f"ws://127.0.0.1:{gateway.http_port}/amqp", **options)
    return found


@pytest.mark.parametrize("size", [1, 7, 1 << 20])
def test_octets_are_octets(gateway: Running, size: int) -> None:
    with dial(gateway) as web:
        assert web.subprotocol == "amqp"
        wire = WebWire(web, size).opened(1)
        wire.declare("web", durable=True)
        wire.publish("web", b"hello", PERSISTENT)
        assert wire.got("web") == b"hello"


@pytest.mark.parametrize("size", [1, 7, 1 << 20])
def test_segments(gateway: Running, size: int) -> None:
    """0-10 over a WebSocket: a message comes back."""
    with dial(gateway) as web:
        client, name = Segments(WebSocketSocket(web, size)).opened(), f"segments{size}"
        client.does(w.QueueDeclare(name))
        client.subscribes(name)
        client.publishes(name, b"hello")
        assert client.hears("message.transfer").body == b"hello"


def test_large_messages_both_ways(gateway: Running) -> None:
    with dial(gateway) as web:
        wire = WebWire(web).opened(1)
        wire.declare("large")
        wire.publish("large", bytes(LARGE))
        assert wire.got("large") == bytes(LARGE)


def test_text_is_refused(gateway: Running) -> None:
    with dial(gateway) as web:
        web.send("AMQP")
        with pytest.raises(ConnectionClosed) as caught:
            web.recv(60)
        assert caught.value.rcvd is not None
        assert caught.value.rcvd.code == 1003


def test_other_protocols_are_answered_with_a_header_and_closed(gateway: Running) -> None:
    with dial(gateway) as web:
        web.send(b"GET / HTTP/1.1\r\n\r\n")
        assert isinstance(web.recv(60), bytes)
        with pytest.raises(ConnectionClosed):
            web.recv(60)


@pytest.mark.parametrize(
    "options",
    [
        {"subprotocols": None},
        {"subprotocols": [Subprotocol("mqtt")]},
        {"origin": "http://stranger.example"},
    ],
    ids=["no subprotocol", "another subprotocol", "a page of a stranger"],
)
def test_refused(gateway: Running, options: dict[str, Any]) -> None:
    with pytest.raises(InvalidStatus) as caught:
        dial(gateway, **options)
    assert caught.value.response.status_code == 403


def named(gateway: Running, host: str, **options: Any) -> ClientConnection:
    """Dial this machine under another name, as a browser does when a name was pointed here."""
    found: ClientConnection = connect(
        f"ws://{host}:{gateway.http_port}/amqp",
        address=("127.0.0.1", gateway.http_port),
        **{"subprotocols": AMQP, "compression": None, "open_timeout": 60, **options},
    )
    return found


def test_a_page_whose_name_was_pointed_here_is_a_strangers(gateway: Running) -> None:
    host = "rebound.example"
    with pytest.raises(InvalidStatus):
        named(gateway, host, origin=f"http://{host}:{gateway.http_port}")


@pytest.mark.parametrize(
    ("host", "fields"),
    [
        ("127.0.0.1", {"X-Forwarded-For": "192.0.2.7"}),
        ("127.0.0.1", {"Forwarded": "for=192.0.2.7"}),
        ("127.0.0.1", {"Via": "1.1 proxy"}),
        ("gateway.example", {}),
    ],
    ids=["x-forwarded-for", "forwarded", "via", "host"],
)
def test_a_proxied_connection_is_not_of_this_machine(
    gateway: Running, host: str, fields: dict[str, str]
) -> None:
    """guest may only come from this machine."""
    with named(gateway, host, additional_headers=fields) as web, pytest.raises(Gone):
        WebWire(web).opened(1)
    with dial(gateway) as web:
        WebWire(web).opened(1)


def test_no_amqp_where_nodes_cannot_be_named(tmp_path: Path) -> None:
    with Running(tmp_path, http__raw_nodes=False) as hidden, pytest.raises(InvalidStatus):
        dial(hidden)


def test_our_own_pages_may(gateway: Running) -> None:
    with dial(gateway, origin=f"http://127.0.0.1:{gateway.http_port}") as web:
        WebWire(web).opened(1)


def test_other_paths_have_no_websocket(gateway: Running) -> None:
    with pytest.raises(InvalidStatus):
        connect(f"ws://127.0.0.1:{gateway.http_port}/v1/events", subprotocols=AMQP)


def test_a_client_that_vanishes_is_forgotten(gateway: Running) -> None:
    before = len(re.findall("closed: .*lost", gateway.log()))
    with contextlib.suppress(OSError), dial(gateway) as web:
        WebWire(web).opened(1)
        web.socket.shutdown(socket.SHUT_RDWR)
    until(lambda: len(re.findall("closed: .*lost", gateway.log())) > before, "the loss is noticed")


def test_a_websocket_outlives_the_time_for_a_request(tmp_path: Path) -> None:
    """The time-out of request heads ends with the handshake."""
    with Running(tmp_path, http__idle_seconds=0.2) as quick, dial(quick) as web:
        wire = WebWire(web)
        wire.opened(1)
        time.sleep(1)  # several looks of the time-out
        wire.declare("q")
        assert wire.depth("q") == 0


def test_a_frozen_client_is_given_up(gateway: Running) -> None:
    watcher = gateway.wire(1)
    watcher.declare("frozen")
    for _ in range(100):
        watcher.publish("frozen", bytes(100_000))
    with contextlib.suppress(OSError), dial(gateway, max_queue=2) as web:
        frozen = WebWire(web)
        frozen.heartbeat = 2
        frozen.opened(1)
        frozen.consume("frozen")
        until(lambda: watcher.depth("frozen") < 100, "deliveries")
        until(lambda: watcher.depth("frozen") == 100, "given back")
        web.socket.shutdown(socket.SHUT_RDWR)
    watcher.call(1, w091.QueueDelete(queue="frozen"), w091.QueueDeleteOk)

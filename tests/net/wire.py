"""A lean client for tests: methods as records, octets as they are."""

import contextlib
import socket
import ssl
from typing import Any

from gateway.adapters.methods import types as fields
from gateway.adapters.methods.wire import layouts as w
from gateway.adapters.methods.wire.tables import VERSIONS
from tests.talk import body, header, method

PERSISTENT = b"\x10\x00\x02"
TRANSIENT = b"\x10\x00\x01"
PIECE = 131_072 - 8
"""What fits the largest frame."""
HEARTBEAT = b"\x08\0\0\0\0\0\0\xce"


class Gone(Exception):
    """The other side has ended the stream."""


class Wire:
    """One connection. ``hear`` gives ``(channel, record)``, or octets for contents."""

    def __init__(
        self,
        port: int,
        *,
        host: str = "127.0.0.1",
        version: str = "0-9-1",
        tls: ssl.SSLContext | None = None,
        receive_buffer: int | None = None,
        user: str = "guest",
        password: str = "guest",
        heartbeat: int = 0,
        capabilities: tuple[str, ...] = ("authentication_failure_close", "connection.blocked"),
        seconds: float = 30.0,
        source: str = "",
    ) -> None:
        self.version = version
        self.user, self.password, self.heartbeat = user, password, heartbeat
        self.capabilities = capabilities
        self.socket: socket.socket = socket.socket()
        if receive_buffer is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        if source:
            self.socket.bind((source, 0))
        self.socket.settimeout(seconds)
        self.socket.connect((host, port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls is not None:
            self.socket = tls.wrap_socket(self.socket, server_hostname="localhost")
        self._held = bytearray()
        self._at = 0
        self.heartbeats = 0

    # --- octets ---------------------------------------------------------------------------------

    def send(self, octets: bytes) -> None:
        self.socket.sendall(octets)

    def look(self, size: int) -> bytes:
        """The next octets, which stay. Raises ``Gone`` at the end of the stream."""
        while len(self._held) - self._at < size:
            if self._at:
                del self._held[: self._at]
                self._at = 0
            more = self.socket.recv(1 << 18)
            if not more:
                raise Gone
            self._held += more
        return bytes(self._held[self._at : self._at + size])

    def take(self, size: int) -> bytes:
        """So many octets, or none if they do not come in time."""
        taken = self.look(size)
        self._at += size
        return taken

    def rest(self) -> bytes:
        """Everything up to the end of the stream."""
        found = bytes(self._held[self._at :])
        self._held.clear()
        self._at = 0
        while more := self.socket.recv(1 << 18):
            found += more
        return found

    def reset(self) -> None:
        """Hang up without a word."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.socket.close()

    def close(self) -> None:
        self.socket.close()

    def __del__(self) -> None:
        # A test that has failed, or is done with it, need not say so.
        self.socket.close()

    # --- frames ---------------------------------------------------------------------------------

    def say(self, channel: int, *records: Any) -> None:
        self.send(b"".join(method(self.version, channel, record) for record in records))

    def hear(self) -> tuple[int, Any]:
        """The next frame that is no heartbeat. Of one that is half there at a timeout nothing is
        lost."""
        while True:
            head = self.look(7)
            size = int.from_bytes(head[3:7])
            payload = self.take(7 + size + 1)[7:]
            assert payload[-1] == 0xCE
            if head[0] == 8:
                self.heartbeats += 1
                continue
            channel = int.from_bytes(head[1:3])
            if head[0] == 1:
                row = VERSIONS[self.version].methods[int.from_bytes(payload[:4])]
                record, end = row.read(payload[:-1], 4)
                assert end == size
                return channel, record
            return channel, payload[:-1]

    def heard(self, kind: type[Any]) -> Any:
        """The next frame, which is of this kind."""
        _, record = self.hear()
        assert type(record) is kind, record
        return record

    def call(self, channel: int, record: Any, kind: type[Any]) -> Any:
        self.say(channel, record)
        return self.heard(kind)

    # --- steps ----------------------------------------------------------------------------------

    def greeted(self) -> "Wire":
        self.send(VERSIONS[self.version].header)
        self.heard(w.ConnectionStart)
        return self

    def logged_in(self) -> "Wire":
        self.greeted()
        properties = fields.write_table(
            {"product": "wire", "capabilities": dict.fromkeys(self.capabilities, True)}
        )
        response = f"\0{self.user}\0{self.password}".encode()
        self.say(0, w.ConnectionStartOk(properties, "PLAIN", response, "en_US"))
        self.tune = self.heard(w.ConnectionTune)
        return self

    def opened(self, *channels: int) -> "Wire":
        self.logged_in()
        self.say(0, w.ConnectionTuneOk(0, 0, self.heartbeat), w.ConnectionOpen("/"))
        self.heard(w.ConnectionOpenOk)
        for channel in channels:
            self.call(channel, w.ChannelOpen(), w.ChannelOpenOk)
        return self

    def ended(self) -> None:
        """A polite end."""
        self.call(0, w.ConnectionClose(200, "bye", 0, 0), w.ConnectionCloseOk)
        with contextlib.suppress(Gone):
            self.take(1)
            raise AssertionError("something came after close-ok")
        self.socket.close()

    # --- messages -------------------------------------------------------------------------------

    def declare(self, queue: str, durable: bool = False, **more: Any) -> Any:
        record = w.QueueDeclare(queue=queue, durable=durable, **more)
        return self.call(1, record, w.QueueDeclareOk)

    def message(self, key: str, octets: bytes, properties: bytes = TRANSIENT, **to: Any) -> bytes:
        """A publish as octets."""
        channel = to.pop("channel", 1)
        record = w.BasicPublish(routing_key=key, **to)
        start = method(self.version, channel, record) + header(channel, len(octets), properties)
        pieces = [octets[at : at + PIECE] for at in range(0, len(octets), PIECE)]
        return start + b"".join(body(channel, piece) for piece in pieces)

    def publish(self, key: str, octets: bytes, properties: bytes = TRANSIENT, **to: Any) -> None:
        self.send(self.message(key, octets, properties, **to))

    def consume(self, queue: str, no_ack: bool = False, prefetch: int = 0) -> str:
        if prefetch:
            self.call(1, w.BasicQos(prefetch_count=prefetch), w.BasicQosOk)
        record = w.BasicConsume(queue=queue, no_ack=no_ack)
        return str(self.call(1, record, w.BasicConsumeOk).consumer_tag)

    def content(self) -> bytes:
        """The header and body frames that follow; the body."""
        _, head = self.hear()
        size = int.from_bytes(head[4:12])
        octets = b""
        while len(octets) < size:
            octets += self.hear()[1]
        return octets

    def delivered(self) -> tuple[w.BasicDeliver, bytes]:
        record = self.heard(w.BasicDeliver)
        return record, self.content()

    def got(self, queue: str, no_ack: bool = True) -> bytes | None:
        """One message, fetched; ``None`` if there is none."""
        self.say(1, w.BasicGet(queue=queue, no_ack=no_ack))
        _, record = self.hear()
        if type(record) is w.BasicGetEmpty:
            return None
        assert type(record) is w.BasicGetOk, record
        return self.content()

    def depth(self, queue: str) -> int:
        return int(self.declare(queue, passive=True).message_count)

    def everything(self, queue: str) -> list[bytes]:
        """All messages of a queue in order, taken out of it."""
        count = self.depth(queue)
        self.consume(queue, no_ack=True)
        return [self.delivered()[1] for _ in range(count)]

    def heard_among(self, kind: type[Any]) -> Any:
        """The next method of this kind; those before it are dropped."""
        while True:
            _, record = self.hear()
            if type(record) is kind:
                return record

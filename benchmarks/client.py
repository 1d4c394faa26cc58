"""As much of an AMQP 0-9-1 client as setting a measurement up takes: log in, declare, close."""

import socket
import struct

from benchmarks.servers import HOST, Failed

CONNECTION_START, CONNECTION_TUNE, OPEN_OK = (10, 10), (10, 30), (10, 41)


def short(text: str) -> bytes:
    return bytes([len(text)]) + text.encode()


def method(channel: int, kind: tuple[int, int], arguments: bytes = b"") -> bytes:
    payload = struct.pack(">HH", *kind) + arguments
    return struct.pack(">BHI", 1, channel, len(payload)) + payload + b"\xce"


class Client:
    """A logged-in connection with channel 1 open."""

    def __init__(self, port: int, channel: bool = True) -> None:
        self.socket = socket.create_connection((HOST, port), 10)
        self.file = self.socket.makefile("rb")
        self.socket.sendall(b"AMQP\x00\x00\x09\x01")
        self.expect(CONNECTION_START)
        response = b"\x00guest\x00guest"
        start_ok = b"\0\0\0\0" + short("PLAIN") + struct.pack(">I", len(response)) + response
        self.socket.sendall(method(0, (10, 11), start_ok + short("en_US")))
        tune = self.expect(CONNECTION_TUNE)
        channels, frame, _ = struct.unpack_from(">HIH", tune)
        tune_ok = method(0, (10, 31), struct.pack(">HIH", channels, frame, 0))
        self.socket.sendall(tune_ok + method(0, (10, 40), short("/") + b"\0\0"))
        self.expect(OPEN_OK)
        if channel:
            self.ask((20, 10), short(""))

    def expect(self, kind: tuple[int, int]) -> bytes:
        """The arguments of the next method, which must be `kind`."""
        while True:
            frame, _, length = struct.unpack(">BHI", self.exactly(7))
            payload = self.exactly(length + 1)
            if frame == 1:
                break
        if struct.unpack_from(">HH", payload) != kind:
            raise Failed(f"expected method {kind}, got {payload[:80]!r}")
        return payload[4:-1]

    def exactly(self, size: int) -> bytes:
        data = self.file.read(size)
        if len(data) != size:
            raise Failed("the broker hung up")
        return data

    def ask(self, kind: tuple[int, int], arguments: bytes) -> bytes:
        """A request on channel 1 and its answer, whose number is always one higher."""
        self.socket.sendall(method(1, kind, arguments))
        return self.expect((kind[0], kind[1] + 1))

    def declare_queue(self, name: str, durable: bool = False) -> int:
        """How many messages are ready in it."""
        answer = self.ask((50, 10), b"\0\0" + short(name) + bytes([2 * durable]) + b"\0\0\0\0")
        return int(struct.unpack_from(">I", answer, 1 + answer[0])[0])

    def delete_queue(self, name: str) -> None:
        self.ask((50, 40), b"\0\0" + short(name) + b"\0")

    def get(self, queue: str) -> bytes:
        """The body of the next message, which is acknowledged."""
        self.socket.sendall(method(1, (60, 70), b"\0\0" + short(queue) + b"\1"))
        self.expect((60, 71))
        _, _, length = struct.unpack(">BHI", self.exactly(7))
        (size,) = struct.unpack_from(">Q", self.exactly(length + 1), 4)
        body = b""
        while len(body) < size:
            _, _, length = struct.unpack(">BHI", self.exactly(7))
            body += self.exactly(length + 1)[:-1]
        return body

    def close(self) -> None:
        self.file.close()
        self.socket.close()

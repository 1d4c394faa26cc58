"""A lean client of 0-10: controls and commands as records, frames as they are."""

from typing import Any, Protocol

from gateway.adapters.segments import operations as ops
from gateway.adapters.segments.frames import command, control
from gateway.adapters.segments.wire import layouts as w
from gateway.adapters.segments.wire.tables import HEADER
from tests.adapters.segments.serving import Decoder, Said

UNLIMITED = 0xFFFFFFFF


class Octets(Protocol):
    """A socket, or what stands for one."""

    def sendall(self, octets: bytes, /) -> None: ...

    def recv(self, size: int, /) -> bytes: ...


class Segments:
    """One connection with one session on channel 1."""

    def __init__(self, socket: Octets) -> None:
        self.socket = socket
        self._decoder = Decoder()
        self._said: list[Said] = []

    def hears(self, *names: str) -> Said:
        """The next record of the server with one of these names."""
        while True:
            while self._said:
                said = self._said.pop(0)
                if said.name in names:
                    return said
            data = self.socket.recv(1 << 16)
            assert data, f"the server is gone before {names}"
            self._said += self._decoder.read(data)

    def controls(self, channel: int, *records: Any) -> None:
        for record in records:
            self.socket.sendall(control(channel, ops.write_control(record)))

    def opened(self, name: bytes = b"test", heartbeat: int = 0) -> "Segments":
        """Logged in, open, and with a session."""
        self.socket.sendall(HEADER)
        self.hears("connection.start")
        self.controls(0, w.ConnectionStartOk(b"", "PLAIN", b"\0guest\0guest", "en_US"))
        self.hears("connection.tune")
        tuned = w.ConnectionTuneOk(max_frame_size=0xFFFF, heartbeat=heartbeat)
        self.controls(0, tuned, w.ConnectionOpen("/"))
        self.hears("connection.open-ok")
        self.controls(1, w.SessionAttach(name))
        self.hears("session.attached")
        self.controls(1, w.SessionCommandPoint(0, 0))
        return self

    def does(self, *records: Any) -> None:
        """Perform these commands, until they are complete."""
        for record in records:
            self.socket.sendall(command(1, ops.write_command(record, sync=True)))
            self.hears("session.completed")

    def subscribes(self, queue: str, name: str = "d", credit: int = UNLIMITED) -> None:
        """Consume a queue without accepting."""
        self.does(w.MessageSubscribe(queue, name, 1, 0), w.MessageFlow(name, 1, UNLIMITED))
        self.socket.sendall(command(1, ops.write_command(w.MessageFlow(name, 0, credit))))

    def publishes(self, key: str, body: bytes) -> None:
        properties = w.DeliveryProperties(routing_key=key)
        header = ops.coded(0x0401, w.write_delivery_properties(properties))
        transfer = ops.write_command(w.MessageTransfer("", 1))
        self.socket.sendall(command(1, transfer, header, body, 0xFFFF))

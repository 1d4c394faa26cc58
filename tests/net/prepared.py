"""A client that leaves a prepared branch of a distributed transaction behind, over 0-10."""

import socket
from typing import Any

from gateway.adapters.segments import operations as ops
from gateway.adapters.segments.frames import command, control
from gateway.adapters.segments.wire import layouts as w
from gateway.adapters.segments.wire.tables import BY_RECORD, HEADER
from tests.adapters.segments.serving import Decoder, Said

SECONDS = 20.0


class Coordinator:
    """A connection with a session of guest, one command at a time."""

    def __init__(self, port: int, host: str = "127.0.0.1") -> None:
        self._socket = socket.create_connection((host, port), SECONDS)
        self._read = Decoder().read
        self._said: list[Said] = []
        self._socket.sendall(HEADER)
        self._until("connection.start")
        self._control(0, w.ConnectionStartOk(b"", "PLAIN", b"\0guest\0guest", "en_US"))
        self._until("connection.tune")
        self._control(0, w.ConnectionTuneOk())
        self._control(0, w.ConnectionOpen())
        self._until("connection.open-ok")
        self._control(1, w.SessionAttach(b"coordinator"))
        self._control(1, w.SessionCommandPoint(0, 0))
        self._until("session.attached")
        self._number = -1

    def _control(self, channel: int, record: Any) -> None:
        self._socket.sendall(control(channel, ops.write_control(record)))

    def _until(self, name: str) -> Any:
        while True:
            for at, each in enumerate(self._said):
                if each.name == name:
                    del self._said[: at + 1]
                    return each.record
                assert each.name not in ("execution.exception", "connection.close"), each
            data = self._socket.recv(65536)
            assert data, f"the server is gone before {name}"
            self._said += self._read(data)

    def do(self, record: Any) -> Any:
        """The result of a command, or ``None`` for one without."""
        self._socket.sendall(command(1, ops.write_command(record, True)))
        result = None
        if BY_RECORD[record.__class__].result:
            result = ops.read_struct(self._until("execution.result").value)
        self._completed()
        return result

    def _completed(self) -> None:
        """Wait for the completion of the next command."""
        self._number += 1
        while True:
            ranges = self._until("session.completed").commands
            if any(first <= self._number <= last for first, last in ranges):
                return

    def publish(self, key: str, body: bytes) -> None:
        """A durable message to a queue."""
        properties = w.DeliveryProperties(delivery_mode=2, routing_key=key)
        header = ops.coded(0x0401, w.write_delivery_properties(properties))
        record = ops.write_command(w.MessageTransfer(), True)
        self._socket.sendall(command(1, record, header, body))
        self._completed()

    def prepare(self, xid: w.Xid, key: str, body: bytes = b"from a branch") -> None:
        """A branch with one message for a queue is prepared."""
        self.do(w.DtxSelect())
        for step in (w.DtxStart(xid), None, w.DtxEnd(xid), w.DtxPrepare(xid)):
            if step is None:
                self.publish(key, body)
            else:
                assert self.do(step).status == 0

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> "Coordinator":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

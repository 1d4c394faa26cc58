"""What the driver of AMQP 0-10 says, encoded: its handshake, its message, its settlements."""

from typing import Any
from uuid import uuid4

from benchmarks.drivers import Driver
from gateway.adapters.segments import operations as ops
from gateway.adapters.segments.frames import command, control
from gateway.adapters.segments.wire import layouts as w
from gateway.adapters.segments.wire.tables import AcceptMode, CreditUnit

CHANNEL = 1
FRAME = 0xFFFF
UNLIMITED = 0xFFFFFFFF
START, TUNE, OPEN_OK, COMPLETED = "0101", "0105", "0108", "020a"
MARK = b"\xa5\x5a" * 4
"""Stands where the driver writes the number of a message."""


def controls(channel: int, *records: Any) -> bytes:
    return b"".join(control(channel, ops.write_control(record)) for record in records)


def commands(*records: Any) -> bytes:
    """The last asks for its completion."""
    last = len(records) - 1
    return b"".join(
        command(CHANNEL, ops.write_command(record, at == last)) for at, record in enumerate(records)
    )


def steps(*records: Any) -> str:
    """Log in, attach, perform these commands."""
    start = w.ConnectionStartOk(b"\0\0\0\0", "PLAIN", b"\0guest\0guest", "en_US")
    tune = w.ConnectionTuneOk(100, FRAME, 0)
    name = f"bench-{uuid4()}".encode()
    said = {
        START: controls(0, start),
        TUNE: controls(0, tune, w.ConnectionOpen("")),
        OPEN_OK: controls(CHANNEL, w.SessionAttach(name), w.SessionCommandPoint(0, 0))
        + commands(*records),
    }
    return ",".join(f"{code}:{octets.hex()}" for code, octets in said.items())


def publisher(
    port: int, queue: str, size: int, count: int, window: int, seconds: int, unique: bool = True
) -> Driver:
    """Publishes to a queue, which is declared; with a ``window`` at most so many are unconfirmed.
    Each message has another body, and with ``unique`` an identifier of its own."""
    transfer = ops.write_command(w.MessageTransfer("", AcceptMode.NONE))
    delivery = w.DeliveryProperties(delivery_mode=1, routing_key=queue)
    message = w.MessageProperties(
        message_id=bytes(8) + (MARK if unique else bytes(8)), content_type="text/plain"
    )
    header = ops.coded(0x0401, w.write_delivery_properties(delivery)) + ops.coded(
        0x0403, w.write_message_properties(message)
    )
    body = MARK + b"x" * (size - len(MARK))
    octets = command(CHANNEL, transfer, header, body, FRAME)
    declare = w.QueueDeclare(queue, durable=True)
    return Driver(
        "segments", "publish", port, steps(declare), COMPLETED, octets.hex(), octets.index(MARK),
        octets.rindex(MARK), octets.index(transfer) + 3, 1, count, window, seconds,
    )  # fmt: skip


def consumer(
    port: int, queue: str, size: int, count: int, settled: bool, credit: int, every: int,
    seconds: int,
) -> Driver:  # fmt: skip
    """Consumes a queue, which is declared, in window mode."""
    mode = AcceptMode.NONE if settled else AcceptMode.EXPLICIT
    said = steps(
        w.QueueDeclare(queue, durable=True),
        w.MessageSubscribe(queue, "d", mode, 0),
        w.MessageSetFlowMode("d", 1),
        w.MessageFlow("d", CreditUnit.BYTE, UNLIMITED),
        w.MessageFlow("d", CreditUnit.MESSAGE, credit),
        w.ExecutionSync(),
    )
    nothing = ((0, 0),)
    accept = b"" if settled else commands(w.MessageAccept(nothing))
    completed = controls(CHANNEL, w.SessionCompleted(nothing))
    return Driver(
        "segments", "consume", port, said, COMPLETED, accept.hex(), completed.hex(), size, count,
        every, seconds,
    )  # fmt: skip

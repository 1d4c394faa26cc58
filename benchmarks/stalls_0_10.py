"""Requests of AMQP 0-10 that may stall the gateway: scenarios for the canary, as in ``stalls``."""

import contextlib
import socket
from collections.abc import Iterator

from benchmarks.servers import HOST, Server
from benchmarks.stalls import HELD, PATIENCE, Scenario, client, filled, nothing, until
from gateway.adapters.segments import operations as ops
from gateway.adapters.segments.fields import MOST_RANGES
from gateway.adapters.segments.frames import command, control
from gateway.adapters.segments.wire import layouts as w
from tests.net.wire_0_10 import UNLIMITED, Segments

ALL = ((0, 1 << 20),)


@contextlib.contextmanager
def holding(server: Server, queue: str, count: int, acquire: int = 0) -> Iterator[Segments]:
    """A consumer that has got all of a queue, and settled nothing."""
    with socket.create_connection((HOST, server.amqp_port), PATIENCE) as one:
        peer = Segments(one).opened(queue.encode())
        peer.does(w.MessageSubscribe(queue, "d", 0, acquire), w.MessageFlow("d", 1, UNLIMITED))
        peer.socket.sendall(command(1, ops.write_command(w.MessageFlow("d", 0, UNLIMITED))))
        for _ in range(count):
            peer.hears("message.transfer")
        yield peer


def accept(server: Server, scale: float) -> None:
    """By a set of as many ranges as there may be, and by one range."""
    with holding(server, "accepted", int(HELD * scale)) as peer:
        ranges = tuple((at, at) for at in range(1, 4 * MOST_RANGES, 4))
        peer.does(w.MessageAccept(ranges), w.MessageAccept(ALL), w.ExecutionSync())


def acquire(server: Server, scale: float) -> None:
    """What was browsed is taken, and goes back as the session ends."""
    count = int(HELD * scale)
    with holding(server, "acquired", count, acquire=1) as peer:
        peer.does(w.MessageAcquire(ALL))
        peer.controls(1, w.SessionDetach(b"acquired"))
        peer.hears("session.detached")
    with client(server) as other:
        until(lambda: other.declare_queue("acquired") == count, "given back")


def transact(server: Server, scale: float) -> None:
    with holding(server, "transacted", int(HELD * scale)) as peer:
        peer.does(w.TxSelect(), w.MessageAccept(ALL), w.TxRollback())
        peer.does(w.MessageAccept(ALL), w.TxCommit())


def flush(server: Server, scale: float) -> None:
    """Thousands of questions behind thousands of transfers, in one write."""
    with socket.create_connection((HOST, server.amqp_port), PATIENCE) as one:
        peer = Segments(one).opened(b"flush")
        transfer = command(1, ops.write_command(w.MessageTransfer("", 1)), b"", b"")
        asked = control(1, ops.write_control(w.SessionFlush(completed=True)))
        for _ in range(int(20 * scale) + 1):
            one.sendall(transfer * 2000 + asked * 2000)
        peer.does(w.ExecutionSync())


SCENARIOS = [
    Scenario("0-10 accept of 100,000", filled("accepted", HELD, bytes(16)), accept, theirs=False),
    Scenario(
        "0-10 acquire of 100,000, detach", filled("acquired", HELD, bytes(16)), acquire, False
    ),
    Scenario(
        "0-10 rollback, commit of 100,000", filled("transacted", HELD, bytes(16)), transact, False
    ),
    Scenario("0-10 flush of 40,000", nothing, flush, theirs=False),
]

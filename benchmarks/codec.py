"""Reading and writing basic.publish and basic.deliver with their content: ours, pamqp, py-amqp.

Ours is the adapter at work, operations and messages included, as the gateway uses it; the other
two are given the least their API needs to turn the same octets into method, properties and body.
"""

import gc
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from benchmarks.rows import Row, compare
from benchmarks.servers import Failed, Missing

GROUP = "codec"
BODIES = {"256 B": 256, "16 B": 16}
BATCH = 500
AIM = 10.0
COLLECT = (100_000, 50, 50)  # as the gateway sets the collector; the others gain by it too
EXCHANGE, KEY, TAG = "amq.direct", "bench", "bench"

Work = Callable[[], object]  # handles BATCH messages
HEAD = struct.Struct(">BHI")


def frame(kind: int, payload: bytes, channel: int = 1) -> bytes:
    return HEAD.pack(kind, channel, len(payload)) + payload + b"\xce"


def short(text: str) -> bytes:
    return bytes([len(text)]) + text.encode()


def content(body: bytes) -> bytes:
    """Header (delivery-mode 1) and body frames."""
    return frame(2, struct.pack(">HHQHB", 60, 0, len(body), 1 << 12, 1)) + frame(3, body)


def publish_octets(body: bytes) -> bytes:
    method = struct.pack(">HHH", 60, 40, 0) + short(EXCHANGE) + short(KEY) + b"\0"
    return frame(1, method) + content(body)


def deliver_octets(body: bytes) -> bytes:
    method = struct.pack(">HH", 60, 60) + short(TAG) + struct.pack(">QB", 1, 0)
    return frame(1, method + short(EXCHANGE) + short(KEY)) + content(body)


def rate(work: Work, seconds: float) -> float:
    """Messages per second of processor time, the best of the passages that fit into `seconds`."""
    work()
    best, deadline = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < deadline:
        begun = time.process_time()
        work()
        best = min(best, time.process_time() - begun)
    return BATCH / best


@contextmanager
def collector() -> Iterator[None]:
    """The garbage collector as the gateway sets it."""
    before = gc.get_threshold()
    gc.set_threshold(*COLLECT)
    try:
        yield
    finally:
        gc.set_threshold(*before)


def in_turns(found: Row, ours: Work, theirs: Work, seconds: float, repeat: int) -> Row:
    rates: tuple[list[float], list[float]] = ([], [])
    for _ in range(repeat):
        for work, figures in zip((ours, theirs), rates, strict=True):
            figures.append(rate(work, seconds))
    return compare(found, *rates)


# --- the others ---------------------------------------------------------------------------------


def cut(data: bytes) -> list[bytes]:
    """Whole frames, so that other libraries are not charged for finding their end."""
    frames, at = [], 0
    while at < len(data):
        size = HEAD.unpack_from(data, at)[2] + 8
        frames.append(data[at : at + size])
        at += size
    return frames


def pamqp_work(kind: str, body: bytes) -> Work:
    from pamqp import commands, header
    from pamqp.body import ContentBody
    from pamqp.frame import marshal, unmarshal

    publish = kind.endswith("publish")
    frames = cut((publish_octets if publish else deliver_octets)(body) * BATCH)

    def decode() -> None:
        for octets in frames:
            unmarshal(octets)

    def encode() -> None:
        for number in range(1, BATCH + 1):
            properties = commands.Basic.Properties(delivery_mode=1)
            if publish:
                method: Any = commands.Basic.Publish(exchange=EXCHANGE, routing_key=KEY)
            else:
                method = commands.Basic.Deliver(TAG, number, False, EXCHANGE, KEY)
            marshal(method, 1)
            marshal(header.ContentHeader(0, len(body), properties), 1)
            marshal(ContentBody(body), 1)

    return decode if kind.startswith("decode") else encode


class Wire:
    """What py-amqp's framing asks of its connection and transport."""

    frame_max = 131072
    bytes_sent = bytes_recv = 0

    def write(self, data: object) -> None:
        """Taken."""


def py_amqp_work(kind: str, body: bytes) -> Work:
    from amqp import spec
    from amqp.basic_message import Message
    from amqp.method_framing import frame_handler, frame_writer
    from amqp.serialization import dumps, loads

    publish = kind.endswith("publish")
    code = spec.Basic.Publish if publish else spec.Basic.Deliver
    layout = "Bssbb" if publish else "sLbss"
    frames = [
        (*HEAD.unpack_from(octets)[:2], octets[7:-1])
        for octets in cut((publish_octets if publish else deliver_octets)(body) * BATCH)
    ]

    def arrived(channel: int, method: object, arguments: bytes, message: object) -> None:
        loads(layout, arguments, 4)

    def decode() -> None:
        handle = frame_handler(Wire(), arrived, content_methods=frozenset([code]))
        for one in frames:
            handle(one)

    write = frame_writer(Wire(), Wire())

    def encode() -> None:
        for number in range(1, BATCH + 1):
            values: tuple[object, ...] = (TAG, number, False, EXCHANGE, KEY)
            if publish:
                values = (0, EXCHANGE, KEY, False, False)
            write(1, 1, code, dumps(layout, values), Message(body, delivery_mode=1))

    return decode if kind.startswith("decode") else encode


# --- ours ---------------------------------------------------------------------------------------


class Anybody:
    """Accepts every login, which is not measured."""

    def password(self, user: str, password: str, answer: Callable[[bool], None]) -> None:
        answer(True)

    def scram(self, user: str) -> None:
        return None

    def anonymous(self) -> None:
        return None

    def external(self, subject: str) -> None:
        return None


def pair() -> tuple[Any, Any]:
    """A server's and a client's adapter, back to back, with channel 1 open."""
    from gateway.adapters import Role, adapter_for
    from gateway.operations import BeginSession, Done, Open

    server = adapter_for("0-9-1", Role.SERVER, authority=Anybody())
    client = adapter_for("0-9-1", Role.CLIENT)
    for request in (Open(1, "/", "guest"), BeginSession(1, 2)):
        client.send(request)
        answered = False
        for _ in range(10):
            for operation in server.receive(b"".join(client.output())):
                if isinstance(operation, Open | BeginSession):
                    server.send(Done(getattr(operation, "channel", 0), operation.token))
            replies = client.receive(b"".join(server.output()))
            if any(isinstance(reply, Done) for reply in replies):
                answered = True
                break
        if not answered:
            raise Failed(f"the pair of adapters never answered {request}")
    return server, client


def our_work(kind: str, body: bytes) -> Work:
    try:
        from gateway.operations import Publish
        from gateway.sessions.publishes import one_by_one
    except ImportError as why:
        raise Missing(f"the adapter cannot be imported: {why}") from why
    publish = kind.endswith("publish")
    server, client = pair()
    sent = server.receive(publish_octets(body))[0]
    message = sent.message

    if kind.startswith("decode"):
        data = (publish_octets if publish else deliver_octets)(body) * BATCH
        receive = (server if publish else client).receive
        if len(list(one_by_one(receive(data)))) != BATCH:
            raise Failed(f"{kind}: not every message was found")
        return lambda: receive(data)

    def write_deliver() -> list[bytes]:
        deliver = outlet.deliver
        for number in range(1, BATCH + 1):
            deliver(TAG, number, False, message)
        output: list[bytes] = server.output()
        return output

    def write_publish() -> list[bytes]:
        send = client.send
        for _ in range(BATCH):
            send(Publish(1, message, False, False))
        output: list[bytes] = client.output()
        return output

    outlet = server.outlet(1)
    work = write_publish if publish else write_deliver
    if sum(map(len, work())) != BATCH * len((publish_octets if publish else deliver_octets)(body)):
        raise Failed(f"{kind}: not the octets expected")
    return work


# --- rows ---------------------------------------------------------------------------------------

OTHERS: dict[str, Callable[[str, bytes], Work]] = {"pamqp": pamqp_work, "amqp": py_amqp_work}


def row(kind: str, label: str, other: str, seconds: float, repeat: int) -> Row:
    found = Row(GROUP, f"{kind}, {label}", "msg/s", against={"amqp": "py-amqp"}.get(other, other))
    found.aim = AIM if other == "pamqp" else None
    body = bytes(BODIES[label])
    works: list[Work | None] = []
    for name, maker in (("gateway", our_work), (other, OTHERS[other])):
        try:
            works.append(maker(kind, body))
        except ImportError:
            found.note = f"{name} is not installed"
            works.append(None)
        except Exception as why:  # one broken codec must not cost the whole table
            found.note = str(why) if isinstance(why, Missing | Failed) else repr(why)
            works.append(None)
    rates: tuple[list[float], list[float]] = ([], [])
    for _ in range(repeat):
        for work, figures in zip(works, rates, strict=True):
            if work is not None:
                figures.append(rate(work, seconds))
    return compare(found, *rates)


def rows(wanted: Callable[[str], bool], quick: bool, repeat: int) -> Iterator[Row]:
    seconds = 0.1 if quick else 0.5
    with collector():
        yield from all_rows(wanted, seconds, repeat)


def all_rows(wanted: Callable[[str], bool], seconds: float, repeat: int) -> Iterator[Row]:
    for label in BODIES:
        for kind in ("decode publish", "decode deliver", "encode publish", "encode deliver"):
            for other in OTHERS:
                if wanted(f"{GROUP} {kind} {label} {other}"):
                    yield row(kind, label, other, seconds, repeat)

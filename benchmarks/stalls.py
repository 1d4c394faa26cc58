"""Requests that may stall a broker: scenarios for the canary, each with a preparation and a request
that may make others wait. Bounded in count; `scale` makes them smaller."""

import base64
import contextlib
import json
import socket
import struct
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from uuid import UUID

from benchmarks.client import Client, method, short
from benchmarks.servers import HOST, Failed, Server

PATIENCE = 300.0
AUTHORIZATION = "Basic " + base64.b64encode(b"guest:guest").decode()
Step = Callable[[Server, float], None]


@dataclass(frozen=True)
class Scenario:
    """``prepare`` is not watched, ``work`` is. ``theirs``: RabbitMQ can be asked the same."""

    name: str
    prepare: Step
    work: Step
    theirs: bool = True
    durable: bool = False
    """The canary waits for confirms of durable messages."""


def nothing(server: Server, scale: float) -> None:
    """There is nothing to prepare."""


# --- AMQP 0-9-1 by hand -----------------------------------------------------------------------


def long(octets: bytes) -> bytes:
    return struct.pack(">I", len(octets)) + octets


def table(**fields: str | int) -> bytes:
    """A field table; names with dashes for underscores."""
    entries = b""
    for name, value in fields.items():
        entries += short(name.replace("_", "-"))
        if isinstance(value, str):
            entries += b"S" + long(value.encode())
        else:
            entries += b"I" + struct.pack(">i", value)
    return long(entries)


def declare(name: str, durable: bool = False, arguments: bytes = b"\0\0\0\0") -> bytes:
    """Without an answer."""
    return method(1, (50, 10), b"\0\0" + short(name) + bytes([2 * durable | 16]) + arguments)


def publish(
    exchange: str, key: str, body: bytes, durable: bool = False, headers: bytes = b""
) -> bytes:
    """Method, header and body frames of at most 128 KiB."""
    flags = (0x1000 if durable else 0) | (0x2000 if headers else 0)
    properties = headers + (b"\2" if durable else b"")
    head = struct.pack(">HHQH", 60, 0, len(body), flags) + properties
    pieces = [
        method(1, (60, 40), b"\0\0" + short(exchange) + short(key) + b"\0"),
        struct.pack(">BHI", 2, 1, len(head)) + head + b"\xce",
    ]
    for at in range(0, len(body), 130_000):
        part = body[at : at + 130_000]
        pieces.append(struct.pack(">BHI", 3, 1, len(part)) + part + b"\xce")
    return b"".join(pieces)


@contextlib.contextmanager
def client(server: Server) -> Iterator[Client]:
    found = Client(server.amqp_port)
    found.socket.settimeout(PATIENCE)
    try:
        yield found
    finally:
        found.close()


def filled(name: str, count: int, body: bytes, durable: bool = False) -> Step:
    """A queue with so many messages."""

    def step(server: Server, scale: float) -> None:
        with client(server) as peer:
            peer.declare_queue(name, durable)
            one = publish("", name, body, durable)
            wanted = max(1, int(count * scale))
            for first in range(0, wanted, 1000):
                peer.socket.sendall(one * min(1000, wanted - first))
            until(lambda: peer.declare_queue(name, durable) == wanted, f"{wanted} messages")

    return step


def until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            raise Failed(f"never {what}")
        time.sleep(0.05)


def asked(server: Server, verb: str, path: str, body: object = None) -> bytes:
    """An HTTP request and all of its answer."""
    request = urllib.request.Request(
        server.url + path,
        None if body is None else json.dumps(body).encode(),
        {"Authorization": AUTHORIZATION, "Content-Type": "application/json"},
        method=verb,
    )
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            octets: bytes = answer.read()
            return octets
    except urllib.error.HTTPError as error:
        raise Failed(f"{verb} {path}: {error.code} {error.read()[:200]!r}") from None


def void(server: Server, path: str) -> None:
    asked(server, "GET", path)


# --- the scenarios ----------------------------------------------------------------------------

SELECTOR = " OR ".join(f"t LIKE '%_{'a' * 40}b%'" for _ in range(50))


def texts(server: Server, scale: float) -> None:
    """Messages with a text that comes near to the patterns."""
    with client(server) as peer:
        peer.declare_queue("texts")
        count = int(400 * scale)
        peer.socket.sendall(publish("", "texts", b"", headers=table(t="a" * 16_000)) * count)
        until(lambda: peer.declare_queue("texts") == count, "there")


def select(server: Server, scale: float) -> None:
    body = {"max": 1, "wait_ms": 0, "selector": SELECTOR}
    asked(server, "POST", "/v1/%2F/queues/texts/deliveries", body)


def frame_1_0(code: int, *fields: bytes, payload: bytes = b"", sasl: bool = False) -> bytes:
    """A performative, its fields encoded already."""
    items = b"".join(fields)
    body = b"\x00\x53" + bytes([code]) + b"\xd0" + struct.pack(">II", len(items) + 4, len(fields))
    body += items + payload
    return struct.pack(">IBBH", len(body) + 8, 2, int(sasl), 0) + body


def text_1_0(text: str, code: int = 0xA1) -> bytes:
    return bytes([code, len(text)]) + text.encode()


def map_of_one_hash(server: Server, scale: float) -> None:
    """A message whose body is a map with keys that have one hash in CPython."""
    count = int(15_000 * scale)
    keys = b"".join(b"\x98" + UUID(int=n * (2**61 - 1)).bytes + b"\x41" for n in range(1, count))
    value = b"\xd1" + struct.pack(">II", len(keys) + 4, 2 * (count - 1)) + keys
    message = b"\x00\x53\x77" + value
    null, uint = b"\x40", b"\x52"
    target = b"\x00\x53\x29\xc0\x09\x01" + text_1_0("hashes")
    with socket.create_connection((HOST, server.amqp_port), PATIENCE) as peer:
        peer.sendall(b"AMQP\3\1\0\0" + frame_1_0(
            0x41, text_1_0("PLAIN", 0xA3), b"\xa0\x0c\0guest\0guest", sasl=True
        ))  # fmt: skip
        heard = b""
        while b"\x00\x53\x44" not in heard:
            heard += peer.recv(65536)
        attach = frame_1_0(
            0x12, text_1_0("link"), b"\x43", b"\x42", null, null, b"\x00\x53\x28\x45", target,
            null, null, b"\x43",
        )  # fmt: skip
        begin = frame_1_0(0x11, null, b"\x43", uint + b"\xff", uint + b"\xff")
        peer.sendall(b"AMQP\0\1\0\0" + frame_1_0(0x10, text_1_0("canary")) + begin + attach)
        while b"\x00\x53\x13" not in heard:
            heard = heard[-4:] + peer.recv(65536)
        size, begun = 60_000, True
        for at in range(0, len(message), size):
            rest = b"\x41" if at + size < len(message) else b"\x42"
            first = (b"\x43", b"\xa0\x01t", b"\x43") if begun else (null, null, null)
            part = message[at : at + size]
            peer.sendall(frame_1_0(0x14, b"\x43", *first, b"\x42", rest, payload=part))
            begun = False
        while b"\x00\x53\x15" not in heard:
            octets = peer.recv(65536)
            if not octets:
                raise Failed("the broker hung up")
            heard = heard[-4:] + octets


CIRCLE = 7


def circle(server: Server, scale: float) -> None:
    """Queues in which nothing lives, that dead-letter to the exchange which feeds them all."""
    with client(server) as peer:
        peer.ask((40, 10), b"\0\0" + short("circle") + short("fanout") + b"\0\0\0\0\0")
        arguments = table(x_message_ttl=0, x_dead_letter_exchange="circle")
        for number in range(CIRCLE):
            peer.socket.sendall(declare(f"circle{number}", arguments=arguments))
            peer.ask(
                (50, 20),
                b"\0\0" + short(f"circle{number}") + short("circle") + short("") + b"\0\0\0\0\0",
            )


def go_round(server: Server, scale: float) -> None:
    with client(server) as peer:
        peer.socket.sendall(publish("circle", "", b"round"))
        peer.declare_queue("circle-after")
        time.sleep(3 * scale)


def pour(server: Server, scale: float) -> None:
    """Durable messages of one publisher, as fast as they go."""
    count = int(250_000 * scale)
    with client(server) as peer:
        peer.declare_queue("poured", True)
        one = publish("", "poured", bytes(16), True)
        for first in range(0, count, 1000):
            peer.socket.sendall(one * min(1000, count - first))
        peer.declare_queue("poured", True)


def queues(server: Server, scale: float) -> None:
    with client(server) as peer:
        for number in range(int(16_000 * scale)):
            peer.socket.sendall(declare(f"listed-{number}"))
        peer.declare_queue("listed-last")


def definitions(server: Server, scale: float) -> None:
    """Out, and in again."""
    asked(server, "POST", "/api/definitions", json.loads(asked(server, "GET", "/api/definitions")))


def stream(server: Server, scale: float) -> None:
    """One large message to an event stream."""
    path = "/v1/%2F/events?source=queue:streamed&format=json"
    request = urllib.request.Request(server.url + path, None, {"Authorization": AUTHORIZATION})
    body = b"x" * int((76 << 20) * scale)
    with client(server) as peer:
        peer.declare_queue("streamed")
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            peer.socket.sendall(publish("", "streamed", body))
            left = len(body) // 2
            while left > 0:
                octets = answer.read1(1 << 20)
                if not octets:
                    raise Failed("the stream ended")
                left -= len(octets) if len(octets) > 4096 else left * (b"too-large" in octets)


def lease(server: Server, scale: float) -> None:
    if server.name == "rabbitmq":
        body = {"count": 1, "ackmode": "ack_requeue_true", "encoding": "auto"}
        asked(server, "POST", "/api/queues/%2F/leased/get", body)
    else:
        body = {"max": 1, "wait_ms": 0, "lease_ms": 60_000}
        asked(server, "POST", "/v1/%2F/queues/leased/deliveries", body)


def delete(server: Server, scale: float) -> None:
    with client(server) as peer:
        peer.delete_queue("deleted")


def commit(server: Server, scale: float) -> None:
    count = int(100_000 * scale)
    with client(server) as peer:
        peer.declare_queue("committed")
        peer.ask((90, 10), b"")
        one = publish("", "committed", bytes(16))
        for first in range(0, count, 1000):
            peer.socket.sendall(one * min(1000, count - first))
        peer.ask((90, 20), b"")
        until(lambda: peer.declare_queue("committed") == count, "committed")


HELD = 100_000


@contextlib.contextmanager
def holding(server: Server, name: str, count: int, transacted: bool) -> Iterator[Client]:
    """A consumer that holds all of a queue, and settles the next delivery with one method."""
    with client(server) as peer:
        if transacted:
            peer.ask((90, 10), b"")
        peer.socket.sendall(consume(name))
        left = count
        while left:
            kind, _, length = struct.unpack(">BHI", peer.exactly(7))
            left -= peer.exactly(length + 1)[:4] == DELIVER and kind == 1
        for _ in range(2):
            _, _, length = struct.unpack(">BHI", peer.exactly(7))
            peer.exactly(length + 1)
        yield peer


DELIVER = struct.pack(">HH", 60, 60)


def consume(name: str) -> bytes:
    """Without an answer."""
    return method(1, (60, 20), b"\0\0" + short(name) + short("held") + b"\x08\0\0\0\0")


def nack(server: Server, scale: float) -> None:
    """Half is dropped, and the rest goes back to the queue as the channel is closed."""
    count = int(HELD * scale)
    with holding(server, "nacked", count, False) as peer:
        peer.socket.sendall(method(1, (60, 120), struct.pack(">QB", count // 2, 1)))
        peer.ask((20, 40), b"\0\0\0\0\0\0\0")
    with client(server) as peer:
        until(lambda: peer.declare_queue("nacked") == count - count // 2, "given back")


def rollback(server: Server, scale: float) -> None:
    count = int(HELD * scale)
    with holding(server, "rolled", count, True) as peer:
        peer.socket.sendall(method(1, (60, 80), struct.pack(">QB", 0, 1)))
        one = publish("", "rolled", bytes(16))
        for first in range(0, count, 1000):
            peer.socket.sendall(one * min(1000, count - first))
        peer.ask((90, 30), b"")


BINDINGS = 10_000


def bind(queue: str, exchange: str, key: str, arguments: bytes = b"\0\0\0\0") -> bytes:
    """Without an answer."""
    names = short(queue) + short(exchange) + short(key)
    return method(1, (50, 20), b"\0\0" + names + b"\1" + arguments)


def bindings(server: Server, scale: float) -> None:
    """All of one queue, durable, to two exchanges."""
    with client(server) as peer:
        peer.declare_queue("bound", True)
        for kind in ("direct", "topic"):
            flags = b"\2\0\0\0\0"
            peer.ask((40, 10), b"\0\0" + short(f"bound-{kind}") + short(kind) + flags)
            for number in range(int(BINDINGS * scale)):
                peer.socket.sendall(bind("bound", f"bound-{kind}", f"key.{number}"))
        peer.declare_queue("bound", True)


def unbind(server: Server, scale: float) -> None:
    """By deleting an exchange, and the queue."""
    with client(server) as peer:
        peer.ask((40, 20), b"\0\0" + short("bound-topic") + b"\0")
        peer.delete_queue("bound")


def exclusive(server: Server, scale: float) -> None:
    with client(server) as peer:
        for number in range(int(10_000 * scale)):
            name = f"exclusive-{number}"
            peer.socket.sendall(
                method(1, (50, 10), b"\0\0" + short(name) + bytes([4 | 16]) + b"\0\0\0\0")
            )
            peer.socket.sendall(bind(name, "amq.fanout", ""))
        peer.declare_queue("exclusive-last")


def purge(server: Server, scale: float) -> None:
    """One message is unsettled, so that the queue cannot be emptied as a whole."""
    with client(server) as holder, client(server) as peer:
        holder.ask((60, 10), struct.pack(">IHB", 0, 1, 0))
        holder.socket.sendall(consume("purged"))
        until(lambda: peer.declare_queue("purged", True) < int(PURGED * scale), "one is held")
        peer.ask((50, 30), b"\0\0" + short("purged") + b"\0")


PURGED = 200_000


def recover(server: Server, scale: float) -> None:
    count = int(HELD * scale)
    with holding(server, "recovered", count, False) as peer:
        peer.socket.sendall(method(1, (60, 110), b"\1"))
    with client(server) as peer:
        until(lambda: peer.declare_queue("recovered") == count, "given back")


def nack_each(server: Server, scale: float) -> None:
    count = int(HELD * scale)
    with holding(server, "each", count, False) as peer:
        peer.ask((20, 20), b"\0")
        pieces = [method(1, (60, 120), struct.pack(">QB", tag, 2)) for tag in range(1, count + 1)]
        for first in range(0, count, 1000):
            peer.socket.sendall(b"".join(pieces[first : first + 1000]))
        until(lambda: peer.declare_queue("each") == count, "given back")


SELECTORS = 2000


def selectors(server: Server, scale: float) -> None:
    """Bindings of one exchange, each with a condition of its own."""
    with client(server) as peer:
        peer.ask((40, 10), b"\0\0" + short("chosen") + short("fanout") + b"\0\0\0\0\0")
        peer.declare_queue("chosen")
        for number in range(int(SELECTORS * scale)):
            wanted = table(x_selector=f"t = 'x{number}' AND n LIKE '%{number}_y%'")
            peer.socket.sendall(bind("chosen", "chosen", "", wanted))
        peer.declare_queue("chosen")


def choose(server: Server, scale: float) -> None:
    with client(server) as peer:
        headers = table(t="x7", n="a" * 1000)
        peer.socket.sendall(publish("chosen", "", b"", headers=headers) * 100)
        peer.declare_queue("chosen")


FLOWS = 250_000


def flows(server: Server, scale: float) -> None:
    """Bodies of 16 KiB let reads become large; then these are full of the smallest requests."""
    with client(server) as peer:
        peer.declare_queue("flows")
        large, small = publish("", "flows", bytes(16 << 10)), method(1, (20, 20), b"\1")
        requests = small * int(FLOWS * scale)
        sender = threading.Thread(target=peer.socket.sendall, args=[large * 2000 + requests])
        sender.start()
        missing = len(requests)  # an answer has as many octets as its request
        while missing > 0:
            answers = peer.socket.recv(1 << 20)
            if not answers:
                raise Failed("the broker hung up")
            missing -= len(answers)
        sender.join()
        peer.delete_queue("flows")


SCENARIOS = [
    Scenario("selector of 50 LIKE", texts, select, theirs=False),
    Scenario("1.0 map of keys with one hash", nothing, map_of_one_hash, theirs=False),
    Scenario("TTL 0 round a fanout", circle, go_round),
    Scenario("250,000 durable messages", nothing, pour, durable=True),
    Scenario("asyncapi.json", queues, lambda server, scale: void(server, "/asyncapi.json"), False),
    Scenario("listing of 16,000 queues", queues, lambda server, scale: void(server, "/api/queues")),
    Scenario("definitions out and in", queues, definitions),
    Scenario("76 MB in an event stream", nothing, stream, theirs=False),
    Scenario(
        "lease of 15 MB as JSON",
        lambda server, scale: filled("leased", 1, b"x" * int((15 << 20) * scale))(server, 1),
        lease,
    ),
    Scenario("delete of a million", filled("deleted", 1_000_000, bytes(16)), delete),
    Scenario("commit of 100,000", nothing, commit),
    Scenario("nack of 50,000, close with 50,000", filled("nacked", HELD, bytes(16)), nack),
    Scenario("rollback of 100,000", filled("rolled", HELD, bytes(16)), rollback),
    Scenario("delete of 10,000 bindings, twice", bindings, unbind),
    Scenario("close with 10,000 exclusive queues", nothing, exclusive),
    Scenario(
        "purge of 200,000 durable, one held", filled("purged", PURGED, bytes(16), True), purge
    ),
    Scenario("recover of 100,000", filled("recovered", HELD, bytes(16)), recover),
    Scenario("nack of each of 100,000", filled("each", HELD, bytes(16)), nack_each),
    Scenario("2,000 selectors of an exchange", selectors, choose, theirs=False),
    Scenario("250,000 times channel.flow", nothing, flows),
]

"""Clients that send and take bodies larger than anybody wants to hold: unmodified libraries, run
as programs of their own, so that what they hold is not measured.

The octets of a body are told by their place, so that both ends know them without sharing them:
``python -m tests.net.streams ROLE PORT ADDRESS OCTETS`` prints a line of JSON.
"""

import hashlib
import json
import sys
from collections.abc import Callable
from typing import Any

BLOCK = 1 << 20


def blocks(octets: int) -> Any:
    """A body, in blocks; each is unlike the others."""
    for number in range(-(-octets // BLOCK)):
        block = (b"%016d" % number) * (BLOCK // 16)
        yield block[: min(BLOCK, octets - number * BLOCK)]


def digest(octets: int) -> str:
    found = hashlib.sha256()
    for block in blocks(octets):
        found.update(block)
    return found.hexdigest()


def pika_send(port: int, queue: str, octets: int, durable: bool) -> dict[str, Any]:
    import pika

    with pika.BlockingConnection(pika.ConnectionParameters(port=port)) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        properties = pika.BasicProperties(
            content_type="application/octet-stream", delivery_mode=2 if durable else 1
        )
        channel.basic_publish("", queue, b"".join(blocks(octets)), properties, mandatory=True)
    return {"accepted": True}


def pika_take(port: int, queue: str, octets: int, durable: bool) -> dict[str, Any]:
    """One message, with a heartbeat that must not be missed meanwhile."""
    import pika

    parameters = pika.ConnectionParameters(port=port, heartbeat=4)
    with pika.BlockingConnection(parameters) as connection:
        channel = connection.channel()
        channel.basic_qos(prefetch_count=1)
        method, properties, body = next(channel.consume(queue, inactivity_timeout=None))
        channel.basic_ack(method.delivery_tag)
        channel.cancel()
        return {
            "octets": len(body),
            "sha256": hashlib.sha256(body).hexdigest(),
            "redelivered": method.redelivered,
            "headers": json.loads(json.dumps(properties.headers or {}, default=str)),
        }


def proton_send(
    port: int, address: str, octets: int, durable: bool, abort_at: int = 0
) -> dict[str, Any]:
    """Streams: proton never has more than a few blocks."""
    from proton import Message
    from proton.handlers import MessagingHandler
    from proton.reactor import Container

    head = bytes(Message(body=b"", inferred=True, durable=durable).encode())
    assert head.endswith(b"\x00\x53\x75\xa0\x00"), head
    found: dict[str, Any] = {}

    class Sender(MessagingHandler):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__(auto_settle=True)
            self.source = blocks(octets)
            self.sent = 0
            self.delivery: Any = None

        def on_start(self, event: Any) -> None:
            connection = event.container.connect(
                f"127.0.0.1:{port}", user="guest", password="guest", reconnect=False,
                allowed_mechs="PLAIN", allow_insecure_mechs=True, heartbeat=4,
            )  # fmt: skip
            self.sender = event.container.create_sender(connection, address)

        def on_sendable(self, event: Any) -> None:
            if self.delivery is None:
                self.delivery = self.sender.delivery("large")
                self.sender.stream(head[:-2] + b"\xb0" + octets.to_bytes(4, "big"))
                self.push(event)

        def on_timer_task(self, event: Any) -> None:
            self.push(event)

        def push(self, event: Any) -> None:
            """What proton has not written yet is at most some blocks."""
            while self.delivery.pending < 4 * BLOCK:
                if abort_at and self.sent >= abort_at:
                    self.delivery.abort()
                    found["aborted"] = True
                    self.sender.connection.close()
                    return
                block = next(self.source, None)
                if block is None:
                    self.sender.advance()
                    return
                self.sender.stream(block)
                self.sent += len(block)
            event.container.schedule(0.001, self)

        def on_accepted(self, event: Any) -> None:
            found["accepted"] = True
            event.connection.close()

        def on_rejected(self, event: Any) -> None:
            condition = event.delivery.remote.condition
            found["rejected"] = str(condition and condition.name)
            event.connection.close()

        def on_link_error(self, event: Any) -> None:
            found["link"] = str(event.link.remote_condition.name)
            event.connection.close()

    Container(Sender()).run()
    return found


def proton_abort(port: int, address: str, octets: int, durable: bool) -> dict[str, Any]:
    """Half of a message, and then not."""
    return proton_send(port, address, octets, durable, octets // 2)


def proton_take(port: int, address: str, octets: int, durable: bool) -> dict[str, Any]:
    """Reads as it comes, and keeps nothing."""
    from proton.handlers import MessagingHandler
    from proton.reactor import Container

    found: dict[str, Any] = {}
    sums = hashlib.sha256()
    size = 0

    class Taker(MessagingHandler):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__(prefetch=1, auto_accept=False)

        def on_start(self, event: Any) -> None:
            connection = event.container.connect(
                f"127.0.0.1:{port}", user="guest", password="guest", reconnect=False,
                allowed_mechs="PLAIN", allow_insecure_mechs=True, heartbeat=4,
            )  # fmt: skip
            event.container.create_receiver(connection, address)

        def on_delivery(self, event: Any) -> None:
            nonlocal size
            link, delivery = event.link, event.delivery
            if not delivery.readable:
                return
            octets_now = link.recv(delivery.pending) if delivery.pending else b""
            if not size and octets_now:
                start = octets_now.index(b"\x00\x53\x75\xb0") + 8
                octets_now = octets_now[start:]
            size += len(octets_now or b"")
            sums.update(octets_now or b"")
            if not delivery.partial:
                delivery.update(delivery.ACCEPTED)
                delivery.settle()
                found.update(octets=size, sha256=sums.hexdigest())
                event.connection.close()

    Container(Taker()).run()
    return found


ROLES: dict[str, Callable[..., Any]] = {
    "pika-send": pika_send,
    "pika-take": pika_take,
    "proton-send": proton_send,
    "proton-abort": proton_abort,
    "proton-take": proton_take,
}

if __name__ == "__main__":
    role, port, address, octets, *more = sys.argv[1:]
    sys.stdout.write(json.dumps(ROLES[role](int(port), address, int(octets), "durable" in more)))

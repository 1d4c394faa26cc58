"""What Proton's users write first, in both of its styles: one JSON line per check.

Arguments: host, port, pattern of queue addresses ({} stands for the name), checks (default: all).
Each check has a queue named after it.
"""

import json
import sys
import threading
import traceback
from typing import Any

from proton import Delivery, Message, symbol
from proton.handlers import MessagingHandler, TransactionHandler
from proton.reactor import Container, Copy, DynamicNodeProperties, Selector
from proton.utils import BlockingConnection, LinkDetached, SyncRequestResponse

HOST, PORT, PATTERN = sys.argv[1], int(sys.argv[2]), sys.argv[3]
URL = f"amqp://guest:guest@{HOST}:{PORT}"
SECONDS = 15.0


def address(check):
    return PATTERN.replace("{}", f"proton.{check}")


class Program(MessagingHandler):
    """Connects, runs until told to stop, and does not wait for ever."""

    def __init__(self, **options):
        super().__init__(**options)
        self.seen = []

    def on_start(self, event):
        self.container = event.container
        self.connection = event.container.connect(URL, allowed_mechs="PLAIN", reconnect=False)
        self.watch = event.container.schedule(SECONDS, self)
        self.begin(event.container)

    def on_timer_task(self, event):
        self.seen.append("too late")
        self.connection.close()

    def end(self):
        self.watch.cancel()
        self.connection.close()

    def on_transport_error(self, event):
        self.seen.append(str(event.transport.condition))
        self.watch.cancel()

    def play(self):
        Container(self).run()
        return self.seen


class Send(Program):
    """simple_send: unsettled, counting confirmations."""

    def __init__(self, to, messages):
        super().__init__()
        self.to, self.left, self.confirmed = to, list(messages), 0
        self.total = len(self.left)

    def begin(self, container):
        container.create_sender(self.connection, self.to)

    def on_sendable(self, event):
        while event.sender.credit and self.left:
            event.sender.send(self.left.pop(0))

    def on_accepted(self, event):
        self.confirmed += 1
        if self.confirmed == self.total:
            self.seen.append(self.confirmed)
            self.end()


class Receive(Program):
    """simple_recv: so many bodies, accepted by the handler itself."""

    def __init__(self, source, count, options=None, **more):
        super().__init__(**more)
        self.source, self.count, self.options = source, count, options

    def begin(self, container):
        container.create_receiver(self.connection, self.source, options=self.options)

    def on_message(self, event):
        self.seen.append(event.message.body)
        if len(self.seen) == self.count:
            event.receiver.close()
            self.end()


def hello_world():
    """One sender and one receiver on one connection."""

    class Hello(Program):
        def begin(self, container):
            container.create_receiver(self.connection, address("hello_world"))
            container.create_sender(self.connection, address("hello_world"))

        def on_sendable(self, event):
            event.sender.send(Message(body="Hello World!"))
            event.sender.close()

        def on_message(self, event):
            self.seen.append(event.message.body)
            self.end()

    return Hello().play()


def simple():
    bodies = [{"sequence": number} for number in range(100)]
    sent = Send(address("simple"), [Message(id=n, body=one) for n, one in enumerate(bodies)])
    confirmed = sent.play()
    return [confirmed, Receive(address("simple"), 100).play() == bodies]


def request_reply():
    """A server upper-cases; the client has a dynamic queue for its answers."""

    class Server(Program):
        def begin(self, container):
            self.replies = container.create_sender(self.connection, None)
            container.create_receiver(self.connection, address("request_reply"))

        def on_message(self, event):
            asked = event.message
            self.replies.send(
                Message(
                    address=asked.reply_to,
                    body=asked.body.upper(),
                    correlation_id=asked.correlation_id,
                )
            )

    class Both(Server):
        """The client beside the server, on a connection of its own."""

        def begin(self, container):
            super().begin(container)
            self.words = ["twas brillig", "and the slithy toves"]
            self.own = container.connect(URL, allowed_mechs="PLAIN", reconnect=False)
            self.asking = container.create_sender(self.own, address("request_reply"))
            self.answers = container.create_receiver(self.own, None, dynamic=True)

        def ask(self):
            reply_to = self.answers.remote_source.address
            word = self.words[0]
            self.asking.send(Message(reply_to=reply_to, body=word, correlation_id=word))

        def on_link_opened(self, event):
            if event.receiver == self.answers:
                self.ask()

        def on_message(self, event):
            if event.receiver != self.answers:
                super().on_message(event)
                return
            self.seen.append([event.message.correlation_id, event.message.body])
            self.words.pop(0)
            if self.words:
                self.ask()
            else:
                self.own.close()
                self.end()

    return Both().play()


class TransactedSend(Program, TransactionHandler):
    """tx_send: batches in transactions, every other one aborted."""

    def __init__(self, to, batches, size):
        super().__init__()
        self.to, self.batches, self.size = to, batches, size
        self.number, self.transaction = 0, None

    def begin(self, container):
        self.sender = container.create_sender(self.connection, self.to)
        container.declare_transaction(self.connection, handler=self)

    def on_transaction_declared(self, event):
        self.transaction = event.transaction
        self.send()

    def on_sendable(self, event):
        self.send()

    def send(self):
        if self.transaction is None or self.sender.credit < self.size:
            return
        for at in range(self.size):
            self.transaction.send(self.sender, Message(body=f"{self.number}.{at}"))
        transaction, self.transaction = self.transaction, None
        if self.number % 2:
            transaction.abort()
        else:
            transaction.commit()
        self.number += 1

    def ended(self, how):
        self.seen.append(how)
        if self.number == self.batches:
            self.end()
        else:
            self.container.declare_transaction(self.connection, handler=self)

    def on_transaction_committed(self, event):
        self.ended("committed")

    def on_transaction_aborted(self, event):
        self.ended("aborted")

    def on_transaction_commit_failed(self, event):
        self.ended("commit failed")

    def on_transaction_declare_failed(self, event):
        self.seen.append("declare failed")
        self.end()


class TransactedReceive(Program, TransactionHandler):
    """tx_recv: takes a batch in a transaction, then aborts or commits it."""

    def __init__(self, source, size, commit):
        super().__init__(prefetch=0, auto_accept=False)
        self.source, self.size, self.commit = source, size, commit
        self.transaction: Any = None
        self.left = size

    def begin(self, container):
        self.receiver = container.create_receiver(self.connection, self.source)
        container.declare_transaction(self.connection, handler=self)

    def on_transaction_declared(self, event):
        self.transaction = event.transaction
        self.receiver.flow(self.size)

    def on_message(self, event):
        self.seen.append(event.message.body)
        self.transaction.accept(event.delivery)
        self.left -= 1
        if not self.left:
            if self.commit:
                self.transaction.commit()
            else:
                self.transaction.abort()

    def on_transaction_committed(self, event):
        self.end()

    def on_transaction_aborted(self, event):
        self.end()

    def on_transaction_declare_failed(self, event):
        self.seen.append("declare failed")
        self.end()


def transactions():
    name = address("transactions")
    ended = TransactedSend(name, 4, 2).play()
    undone = TransactedReceive(name, 2, commit=False).play()
    taken = TransactedReceive(name, 4, commit=True).play()
    return {"sent": ended, "undone": undone, "taken": sorted(taken), "left": left(name)}


def left(name):
    """Bodies still in a queue, taken out of it."""
    connection = BlockingConnection(URL, timeout=SECONDS, allowed_mechs="PLAIN")
    receiver = connection.create_receiver(name, credit=0)
    found = []
    receiver.drain(100)
    try:
        connection.wait(lambda: receiver.link.credit == 0, timeout=SECONDS)
        while receiver.fetcher.has_message:
            found.append(receiver.receive(0).body)
            receiver.accept()
    finally:
        connection.close()
    return found


def browser():
    """queue_browser: looks at messages without taking them."""
    Send(address("browser"), [Message(body=word) for word in "abc"]).play()
    browsed = [Receive(address("browser"), 3, Copy()).play() for _ in range(2)]
    return [*browsed, left(address("browser"))]


def selected():
    """selected_recv: an SQL selector as a filter."""
    colours = ["green", "red", "blue", "green"]
    Send(
        address("selected"),
        [Message(body=f"{c}{n}", properties={"colour": c}) for n, c in enumerate(colours)],
    ).play()
    chosen = Receive(address("selected"), 2, Selector("colour = 'green'")).play()
    return [chosen, left(address("selected"))]


def outcomes():
    """Released comes again at once, modified counts, rejected goes."""

    class Outcomes(Receive):
        def on_message(self, event):
            message, delivery = event.message, event.delivery
            self.seen.append([message.body, message.first_acquirer, message.delivery_count])
            if len(self.seen) == 1:
                delivery.update(Delivery.RELEASED)
            elif len(self.seen) == 2:
                delivery.local.failed = True
                delivery.update(Delivery.MODIFIED)
            else:
                delivery.update(Delivery.REJECTED)
            delivery.settle()
            if len(self.seen) == self.count:
                event.receiver.close()
                self.end()

    Send(address("outcomes"), [Message(body="again")]).play()
    seen = Outcomes(address("outcomes"), 3, auto_accept=False).play()
    counts = [count for _, _, count in seen]
    return {"bodies": [body for body, _, _ in seen], "counts": counts}


def blocking():
    """helloworld_blocking, and both ends of a request with a dynamic queue for the answer."""
    one, other = (BlockingConnection(URL, timeout=SECONDS, allowed_mechs="PLAIN") for _ in range(2))
    receiver = one.create_receiver(address("blocking"))
    sender = one.create_sender(address("blocking"))
    sender.send(Message(body="Hello World!"))
    heard = receiver.receive().body
    receiver.accept()
    client = SyncRequestResponse(other, address("blocking"))
    answers = []
    asking = threading.Thread(
        target=lambda: answers.append(client.call(Message(body="first")).body), daemon=True
    )
    asking.start()
    asked = receiver.receive()
    receiver.accept()
    replies = one.create_sender(None)
    replies.send(
        Message(
            address=asked.reply_to, body=asked.body.upper(), correlation_id=asked.correlation_id
        )
    )
    asking.join(SECONDS)
    for link in (receiver, sender, replies):
        link.close()
    one.close()
    other.close()
    return [heard, *answers]


def dynamic():
    """A dynamic node with properties, used from another connection, gone with its own."""
    one, other = (BlockingConnection(URL, timeout=SECONDS, allowed_mechs="PLAIN") for _ in range(2))
    lifetime = DynamicNodeProperties({symbol("x-opt-note"): "mine"})
    receiver = one.create_receiver(None, dynamic=True, options=lifetime)
    name = receiver.link.remote_source.address
    other.create_sender(name).send(Message(body="found you"))
    body = receiver.receive().body
    receiver.accept()
    one.close()
    other.close()
    return [bool(name), body]


def detached():
    """A node that is not there: the link is refused, the connection lives."""
    connection = BlockingConnection(URL, timeout=SECONDS, allowed_mechs="PLAIN")
    found: list[str | None] = []
    for create in (connection.create_sender, connection.create_receiver):
        try:
            create(address("none"))
            found.append(None)
        except LinkDetached as error:
            found.append(str(error.condition))
    sender = connection.create_sender(address("detached"))
    sender.send(Message(body="alive"))
    connection.close()
    return [*found, left(address("detached"))]


CHECKS = {
    "hello_world": hello_world,
    "simple": simple,
    "request_reply": request_reply,
    "transactions": transactions,
    "browser": browser,
    "selected": selected,
    "outcomes": outcomes,
    "blocking": blocking,
    "dynamic": dynamic,
    "detached": detached,
}


def main():
    for name in sys.argv[4:] or CHECKS:
        try:
            line = {"check": name, "got": CHECKS[name]()}
        except Exception as error:
            where = traceback.format_exc()[-1500:]
            line = {"check": name, "error": repr(error), "where": where}
        print(json.dumps(line, default=str), flush=True)


if __name__ == "__main__":
    main()

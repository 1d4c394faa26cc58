"""Sender and receiver on Proton's event loop; see `words.py`."""

import sys
from typing import Any

from proton.handlers import MessagingHandler
from proton.reactor import AtLeastOnce, AtMostOnce, Container

from tests.interop.amqp1.clients.proton_values import OUTCOME_NAMES, OUTCOMES, decode, encode
from tests.interop.amqp1.clients.words import arguments, messages, say


class Program(MessagingHandler):
    def __init__(self, words):
        super().__init__(prefetch=0, auto_accept=False, auto_settle=False)
        self.words = words
        self.handlers: list[Any] = [one for one in self.handlers if not hasattr(one, "auto_accept")]
        self.failure = None
        self.watch: Any = None

    def on_start(self, event):
        self.connection = event.container.connect(
            self.words.url, allowed_mechs=self.words.mechanism, reconnect=False, heartbeat=30
        )
        self.watch = event.container.schedule(self.words.seconds, self)
        self.attach(event.container)

    def on_timer_task(self, event):
        self.fail(f"nothing more within {self.words.seconds} s")

    def fail(self, why):
        self.failure = self.failure or why
        self.end()

    def end(self):
        self.watch.cancel()
        self.connection.close()

    def on_transport_error(self, event):
        self.fail(str(event.transport.condition))

    def on_connection_error(self, event):
        self.fail(str(event.connection.remote_condition))

    def on_link_error(self, event):
        self.fail(str(event.link.remote_condition))


class Send(Program):
    def attach(self, container):
        self.waiting = [encode(message) for message in messages()]
        self.outcomes = {}
        self.tags = []
        self.left = len(self.waiting)
        options = AtMostOnce() if self.words.settled else AtLeastOnce()
        container.create_sender(self.connection, self.words.address, options=options)

    def on_sendable(self, event):
        sender = event.sender
        while sender.credit and self.waiting:
            delivery = sender.delivery(sender.delivery_tag())
            self.tags.append(delivery.tag)
            sender.stream(self.waiting.pop(0))
            sender.advance()
            if self.words.settled:
                delivery.settle()
                self.settled(delivery.tag, None)

    def on_delivery(self, event):
        delivery = event.delivery
        if event.link.is_sender and delivery.updated and delivery.remote_state in OUTCOME_NAMES:
            self.settled(delivery.tag, OUTCOME_NAMES[delivery.remote_state])
            delivery.settle()

    def settled(self, tag, outcome):
        self.outcomes[tag] = outcome
        self.left -= 1
        if not self.left:
            for one in self.tags:
                say({"outcome": self.outcomes[one]})
            self.end()


class Receive(Program):
    def attach(self, container):
        self.parts = []
        self.left = self.words.count
        self.receiver = container.create_receiver(self.connection, self.words.address)
        self.given = min(self.words.credit, self.left)
        self.receiver.flow(self.given)

    def on_delivery(self, event):
        delivery = event.delivery
        if not event.link.is_receiver or not delivery.readable:
            return
        while part := event.link.recv(delivery.pending):
            self.parts.append(part)
        if delivery.partial:
            return
        octets, self.parts = b"".join(self.parts), []
        event.link.advance()
        say(decode(octets))
        delivery.update(OUTCOMES[self.words.outcome])
        delivery.settle()
        self.left -= 1
        if not self.left:
            self.end()
        elif self.given < self.words.count:
            self.given += 1
            self.receiver.flow(1)


def main():
    words = arguments()
    program = {"send": Send, "receive": Receive}[words.verb](words)
    Container(program).run()
    if program.failure:
        sys.exit(program.failure)


if __name__ == "__main__":
    main()

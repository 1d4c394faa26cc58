"""Sender and receiver on Proton's blocking connection; see `words.py`."""

import collections

from proton import Endpoint, Handler
from proton.reactor import AtLeastOnce, AtMostOnce
from proton.utils import BlockingConnection, LinkDetached

from tests.interop.amqp1.clients.proton_values import OUTCOME_NAMES, OUTCOMES, decode, encode
from tests.interop.amqp1.clients.words import arguments, messages, say


class Encoded:
    """Octets where the blocking sender expects a message."""

    def __init__(self, octets):
        self.octets = octets

    def send(self, sender, tag=None):
        delivery = sender.delivery(tag or sender.delivery_tag())
        sender.stream(self.octets)
        sender.advance()
        if sender.snd_settle_mode == sender.SND_SETTLED:
            delivery.settle()
        return delivery


class Fetcher(Handler):
    """What the blocking receiver fetches from: messages as octets."""

    def __init__(self):
        self.incoming: collections.deque = collections.deque()
        self.unsettled: collections.deque = collections.deque()
        self.parts = []

    def on_delivery(self, event):
        delivery = event.delivery
        if not delivery.readable:
            return
        while (part := event.link.recv(delivery.pending)) is not None:
            if not part:
                break
            self.parts.append(part)
        if not delivery.partial:
            self.incoming.append((b"".join(self.parts), delivery))
            self.parts = []
            event.link.advance()

    def on_link_remote_close(self, event):
        if event.link.state & Endpoint.LOCAL_ACTIVE:
            raise LinkDetached(event.link)

    @property
    def has_message(self):
        return len(self.incoming)

    def pop(self):
        octets, delivery = self.incoming.popleft()
        if not delivery.settled:
            self.unsettled.append(delivery)
        return octets

    def settle(self, state=None):
        if self.unsettled:
            delivery = self.unsettled.popleft()
            delivery.update(state)
            delivery.settle()


def send(connection, words):
    options = AtMostOnce() if words.settled else AtLeastOnce()
    sender = connection.create_sender(words.address, options=options)
    for message in messages():
        delivery = sender.send(Encoded(encode(message)), error_states=[])
        state = None if words.settled else OUTCOME_NAMES.get(delivery.remote_state)
        say({"outcome": state})
    sender.close()


def receive(connection, words):
    fetcher = Fetcher()
    receiver = connection.create_receiver(
        words.address, credit=min(words.credit, words.count), handler=fetcher
    )
    receiver.fetcher = fetcher
    for number in range(words.count):
        say(decode(receiver.receive()))
        receiver.settle(OUTCOMES[words.outcome])
        # BlockingReceiver gives one more credit when all is used up
        wanted = min(words.credit, words.count - number - 1)
        receiver.flow(max(0, wanted - receiver.credit - len(fetcher.incoming)))
    receiver.close()


def main():
    words = arguments()
    connection = BlockingConnection(
        words.url, timeout=words.seconds, allowed_mechs=words.mechanism, heartbeat=30
    )
    {"send": send, "receive": receive}[words.verb](connection, words)
    connection.close()


if __name__ == "__main__":
    main()

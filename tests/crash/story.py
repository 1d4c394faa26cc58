"""Clients of AMQP 0-9-1 that publish, consume and commit, and what must be there when the gateway
was killed meanwhile."""

import random
from collections.abc import Mapping, Sequence
from typing import Any

from gateway.adapters.methods.wire import layouts as w
from tests.crash.lives import Life
from tests.net.running import Running, until
from tests.net.wire import PERSISTENT, Wire

WINDOW = 200
"""At most so many messages of a publisher are without an outcome."""


class Story:
    """What was said to one gateway, over all its lives. Numbers are the bodies of messages."""

    def __init__(self) -> None:
        self.next = 1
        self.certain: set[int] = set()
        """Confirmed."""
        self.done: set[int] = set()
        """An acknowledgement was sent, and may have arrived."""
        self.settled = 0
        """Everything up to this one is settled for good."""
        self.confirmed = 0
        self.pairs: list[int] = []
        """The transactions that must be there; each is two messages."""
        self.doubtful: tuple[list[int], list[int]] | None = None
        """Before and after a commit that was not answered."""
        self.commits = 0
        self.acked = 0
        self.long_lives = 0


def furnish(gateway: Running) -> None:
    """The durable queues ``orders`` and ``pairs``, each behind an exchange of its name."""
    wire = gateway.wire(1)
    for exchange, kind, key in (("orders", "direct", "k"), ("pairs", "fanout", "")):
        record = w.ExchangeDeclare(exchange=exchange, type=kind, durable=True)
        wire.call(1, record, w.ExchangeDeclareOk)
        wire.declare(exchange, durable=True)
        bind = w.QueueBind(queue=exchange, exchange=exchange, routing_key=key)
        wire.call(1, bind, w.QueueBindOk)
    wire.close()


def publish(
    wire: Wire, story: Story, chance: random.Random, sizes: Sequence[int] = (0, 0, 100, 2000)
) -> None:
    """Persistent messages through the exchange, each numbered, with confirms."""
    wire.call(1, w.ConfirmSelect(), w.ConfirmSelectOk)
    first = story.next
    told = 0
    while True:
        count = chance.choice([1, 7, 40])
        octets = b""
        for _ in range(count):
            padding = b"." * chance.choice(sizes)
            text = b"%d %s" % (story.next, padding)
            octets += wire.message("k", text, PERSISTENT, exchange="orders", mandatory=True)
            story.next += 1
        wire.send(octets)
        while story.next - first - told > WINDOW:
            _, ack = wire.hear()
            assert type(ack) is w.BasicAck, ack
            last = ack.delivery_tag
            assert ack.multiple or last == told + 1
            story.certain |= set(range(first + told, first + last))
            story.confirmed += last - told
            told = last


def consume(wire: Wire, story: Story, chance: random.Random) -> None:
    """Acknowledges about half of what it gets."""
    wire.consume("orders", prefetch=50)
    behind = 0
    while True:
        record, octets = wire.delivered()
        behind += 1
        if chance.random() < 0.5:
            story.acked += 1
            story.done.add(int(octets.split()[0]))
            wire.say(1, w.BasicAck(record.delivery_tag, False))
            behind -= 1
        elif behind > 40:
            behind = 0
            wire.say(1, w.BasicRecover(True))
            wire.heard_among(w.BasicRecoverOk)


def transact(wire: Wire, story: Story, chance: random.Random) -> None:
    """Publishes pairs, and takes the oldest one out again, in transactions."""
    wire.call(1, w.TxSelect(), w.TxSelectOk)
    number = max(story.pairs, default=0)
    while True:
        number += 1
        before = list(story.pairs)
        after = [*before, number]
        for _ in range(2):
            wire.publish("", b"%d" % number, PERSISTENT, exchange="pairs")
        if len(before) > 5:
            after.remove(before[0])
            for _ in range(2):
                wire.say(1, w.BasicGet(queue="pairs"))
                got = wire.heard(w.BasicGetOk)
                assert int(wire.content()) == before[0]
                wire.say(1, w.BasicAck(got.delivery_tag, False))
        story.doubtful = before, after
        wire.call(1, w.TxCommit(), w.TxCommitOk)
        story.doubtful, story.pairs = None, after
        story.commits += 1


def read(wire: Wire, queue: str) -> list[int]:
    """What stands in a queue, left there."""
    count = wire.declare(queue, durable=True).message_count
    wire.consume(queue)
    found = [int(wire.delivered()[1].split()[0]) for _ in range(count)]
    wire.reset()
    return found


def check(gateway: Running, story: Story) -> None:
    """After a restart."""
    wire = gateway.wire(1)
    # Equal declarations succeed, and the binding carries a message.
    record = w.ExchangeDeclare(exchange="orders", type="direct", durable=True)
    wire.call(1, record, w.ExchangeDeclareOk)
    wire.call(1, w.ExchangeDeclare(exchange="orders", passive=True), w.ExchangeDeclareOk)
    found = read(wire, "orders")
    assert found == sorted(set(found)), "out of order, or more than once"
    lost = story.certain - story.done - set(found)
    assert not lost, sorted(lost)[:20]
    assert not found or story.settled < found[0] and found[-1] < story.next
    story.certain, story.done = set(found), set()
    if len(found) > 500:
        # Settled, and then a declaration answered: they must not come back.
        wire = gateway.wire(1)
        # What the connection before held comes back in portions.
        until(lambda: wire.depth("orders") == len(found), "all of it is back")
        assert [int(octets.split()[0]) for octets in wire.everything("orders")] == found
        wire.declare("sync", durable=True)
        wire.close()
        story.certain.clear()
        story.settled = found[-1]

    pairs = read(gateway.wire(1), "pairs")
    choices = [story.pairs] if story.doubtful is None else list(story.doubtful)
    assert pairs in [[n for number in choice for n in (number, number)] for choice in choices]
    story.pairs, story.doubtful = pairs[::2], None


def live(
    gateway: Running,
    story: Story,
    chance: random.Random,
    clients: Mapping[Any, Any],
) -> None:
    """Clients at work until the process is killed: each job, and the connection that it has."""
    life = Life(gateway)
    confirmed, acked, commits = story.confirmed, story.acked, story.commits
    for job, wire in clients.items():
        life.work(job, wire, story, random.Random(chance.random()))
    # Not by the clock alone: on a busy machine nothing would have happened.
    patience = chance.random()
    if patience < 0.8:
        life.until(lambda: story.confirmed > confirmed, "first confirm")
    if patience < 0.5:
        life.until(lambda: story.confirmed > confirmed + 200, "confirms")
        life.until(lambda: story.acked > acked + 20, "acknowledgements")
        life.until(lambda: story.commits > commits + 2, "commits")
        story.long_lives += 1
    life.kill(after=chance.uniform(0, 0.4))
    for wire in clients.values():
        wire.close()

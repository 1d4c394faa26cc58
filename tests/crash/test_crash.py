"""``kill -9`` in the middle of publishing, consuming and committing.

What was confirmed is there in order and once; what was not acknowledged is not lost; a transaction
is there as a whole once it is answered, and as a whole or not at all before.
"""

import contextlib
import random
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from gateway.adapters.v0_9.wire import layouts as w
from tests.drawing import examples
from tests.net.running import Running, until
from tests.net.wire import PERSISTENT, Gone, Wire

KILLS = examples(14, least=3)
WINDOW = 200


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


def publish(wire: Wire, story: Story, chance: random.Random) -> None:
    """Persistent messages through the exchange, each numbered, with confirms."""
    wire.call(1, w.ConfirmSelect(), w.ConfirmSelectOk)
    first = story.next
    told = 0
    while True:
        count = chance.choice([1, 7, 40])
        octets = b""
        for _ in range(count):
            padding = b"." * chance.choice([0, 0, 100, 2000])
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


def live(gateway: Running, story: Story, chance: random.Random) -> None:
    """Three clients at work until the process is killed."""
    errors: list[BaseException] = []

    def work(job: Callable[[Wire, Story, random.Random], None], seed: float) -> None:
        try:
            with contextlib.suppress(Gone, ConnectionError):
                job(wires[job], story, random.Random(seed))
        except BaseException as error:
            errors.append(error)

    wires = {job: gateway.wire(1) for job in (publish, consume, transact)}
    threads = [threading.Thread(target=work, args=(job, chance.random())) for job in wires]
    confirmed, acked, commits = story.confirmed, story.acked, story.commits
    moment = chance.uniform(0, 0.4)
    for thread in threads:
        thread.start()
    # Not by the clock alone: on a busy machine nothing would have happened.
    patience = chance.random()
    if patience < 0.8:
        until(lambda: errors or story.confirmed > confirmed, "first confirm")
    if patience < 0.5:
        until(lambda: errors or story.confirmed > confirmed + 200, "confirms")
        until(lambda: errors or story.acked > acked + 20, "acknowledgements")
        until(lambda: errors or story.commits > commits + 2, "commits")
        story.long_lives += 1
    killer = threading.Timer(moment, gateway.kill)
    killer.start()
    for thread in [killer, *threads]:
        thread.join()
    for wire in wires.values():
        wire.close()
    assert not errors, errors


@pytest.mark.slow
@pytest.mark.thorough
@pytest.mark.timeout(900)
def test_kill_at_any_moment(tmp_path: Path) -> None:
    chance = random.Random(20)
    story = Story()
    with Running(tmp_path) as gateway:
        wire = gateway.wire(1)
        for exchange, kind, key in (("orders", "direct", "k"), ("pairs", "fanout", "")):
            record = w.ExchangeDeclare(exchange=exchange, type=kind, durable=True)
            wire.call(1, record, w.ExchangeDeclareOk)
            wire.declare(exchange, durable=True)
            record = w.QueueBind(queue=exchange, exchange=exchange, routing_key=key)
            wire.call(1, record, w.QueueBindOk)
        wire.close()
        for _ in range(KILLS):
            live(gateway, story, chance)
            gateway.start()
            check(gateway, story)
        # The test has seen something happen in its lives.
        assert story.long_lives > KILLS / 4


def test_killed_right_after_the_answer(tmp_path: Path) -> None:
    """Declared, bound, published, purged, deleted: an answer is a promise."""
    with Running(tmp_path) as gateway:
        wire = gateway.wire(1)
        wire.declare("gone", durable=True)
        wire.declare("passing")
        wire.call(1, w.ConfirmSelect(), w.ConfirmSelectOk)
        wire.publish("gone", b"x", PERSISTENT)
        wire.heard(w.BasicAck)
        wire.call(1, w.QueueDelete(queue="gone"), w.QueueDeleteOk)
        wire.declare("kept", durable=True)
        for number in range(3):
            wire.publish("kept", b"old %d" % number, PERSISTENT)
            wire.heard(w.BasicAck)
        wire.call(1, w.QueuePurge(queue="kept"), w.QueuePurgeOk)
        record = w.QueueBind(queue="kept", exchange="amq.topic", routing_key="a.#")
        wire.call(1, record, w.QueueBindOk)
        wire.publish("a.b", b"new", PERSISTENT, exchange="amq.topic")
        wire.heard(w.BasicAck)
        wire.publish("kept", b"transient")
        wire.heard(w.BasicAck)
        gateway.kill()

        gateway.start()
        wire = gateway.wire(1)
        assert wire.got("kept") == b"new"
        assert wire.got("kept") is None
        wire.publish("a.c", b"again", PERSISTENT, exchange="amq.topic")
        assert wire.got("kept") == b"again"
        for queue in ("gone", "passing"):
            wire = gateway.wire(1)
            close = wire.call(1, w.QueueDeclare(queue=queue, passive=True), w.ChannelClose)
            assert close.reply_code == 404

"""``kill -9`` under clients of AMQP 1.0: senders that wait for outcomes, receivers that settle, a
durable subscription, and transactions that publish and retire."""

import random
from pathlib import Path
from typing import Any

import pytest

from gateway.adapters.performatives.composites import write
from gateway.adapters.performatives.wire import layouts as w
from tests.adapters.performatives.wire import packed
from tests.crash.story import WINDOW, Story, check, furnish, live, read
from tests.drawing import examples
from tests.net.running import Running
from tests.net.wire_1_0 import Wire10, data, durable

KILLS = examples(6, least=3)
SUBSCRIPTION_TOPIC = w.Source("/exchanges/amq.topic/a.#", durable=2, expiry_policy="never")
SUBSCRIPTION = w.Source("/exchanges/orders/k", durable=2, expiry_policy="never")


def text(octets: bytes) -> int:
    """The number in a message of one small data section."""
    return int(octets[octets.index(b"\x00\x53\x75\xa0") + 5 :].split()[0])


def publish(wire: Wire10, story: Story, chance: random.Random) -> None:
    """At least once: unsettled, at most so many without an outcome."""
    wire.sender(0, "/exchanges/orders/k")
    first = story.next
    told = 0
    while True:
        octets = b""
        for _ in range(chance.choice([1, 7, 40])):
            padding = b"." * chance.choice([0, 0, 100, 200])
            octets += wire.transfer(0, durable(b"%d %s" % (story.next, padding)))
            story.next += 1
        wire.send(octets)
        while story.next - first - told > WINDOW:
            said = wire.heard_among(w.Disposition)
            assert said.state == w.ACCEPTED and said.settled
            last = said.first if said.last is None else said.last
            story.certain |= set(range(first + said.first, first + last + 1))
            story.confirmed += last - said.first + 1
            told += last - said.first + 1


def consume(wire: Wire10, story: Story, chance: random.Random) -> None:
    """Accepts about half of what it gets, and releases the rest now and then."""
    wire.receiver(0, "/queues/orders", 50)
    held: list[int] = []
    seen = 0
    while True:
        first, octets = wire.next_message()
        seen += 1
        if chance.random() < 0.5:
            story.acked += 1
            story.done.add(text(octets))
            wire.accept(first.delivery_id)
        else:
            assert first.delivery_id is not None
            held.append(first.delivery_id)
        if len(held) > 20:
            wire.tell(*[w.Disposition(True, n, None, True, w.Released()) for n in held])
            held.clear()
        if seen % 20 == 0:
            wire.tell(wire.credit(0, 50, seen))


def transact(wire: Wire10, story: Story, chance: random.Random) -> None:
    """Publishes pairs, and takes the oldest one out again, in transactions."""
    wire.sender(0, None, target=w.Coordinator())
    wire.sender(1, "/exchanges/pairs/any")
    wire.receiver(2, "/queues/pairs", 0)
    number = max(story.pairs, default=0)
    taken = 0

    def control(record: Any) -> Any:
        wire.send(wire.transfer(0, b"\x00\x53\x77" + write(record)))
        while (said := wire.heard_among(w.Disposition)).first != wire.last:
            pass
        return said.state

    while True:
        number += 1
        before = list(story.pairs)
        after = [*before, number]
        work = control(w.Declare()).txn_id
        state = w.TransactionalState(work)
        for _ in range(2):
            wire.send(wire.transfer(1, durable(b"%d" % number), state=state))
        if len(before) > 5:
            after.remove(before[0])
            wire.tell(wire.credit(2, 2, taken))
            for _ in range(2):
                first, octets = wire.next_message()
                taken += 1
                assert text(octets) == before[0]
                assert first.delivery_id is not None
                retired = w.TransactionalState(work, w.ACCEPTED)
                wire.tell(w.Disposition(True, first.delivery_id, None, True, retired))
        story.doubtful = before, after
        assert control(w.Discharge(work, False)) == w.ACCEPTED
        story.doubtful, story.pairs = None, after
        story.commits += 1


JOBS = (publish, consume, transact)


@pytest.mark.slow
@pytest.mark.thorough
@pytest.mark.timeout(900)
def test_kill_at_any_moment(tmp_path: Path) -> None:
    """What was accepted is in the queue and in the durable subscription, in order and once."""
    chance = random.Random(10)
    story = Story()
    subscribed: set[int] = set()
    with Running(tmp_path) as gateway:
        furnish(gateway)
        subscriber = gateway.wire_1_0(container="subscriber")
        subscriber.receiver(0, None, 0, name="news", source=SUBSCRIPTION)
        subscriber.reset()
        for _ in range(KILLS):
            clients = {job: gateway.wire_1_0(container="life") for job in JOBS}
            live(gateway, story, chance, clients)
            subscribed |= story.certain
            gateway.start()
            check(gateway, story)
        assert story.long_lives > KILLS / 4
        found = read(gateway.wire(1), "subscription:guest:subscriber:news")
        assert found == sorted(set(found)) and subscribed <= set(found)


def decide(wire: Wire10, count: int) -> set[int]:
    """Two of three messages are accepted by a receiver that waits for us to settle (mode "second");
    those for which that was answered by the time of the last answer that is heard."""
    wire.sender(4, "/queues/decided")
    wire.post(4, *[durable(b"%d" % number) for number in range(count)])
    wire.receiver(5, "/queues/decided", count, rcv_settle_mode=1)
    first = [wire.next_message()[0].delivery_id for _ in range(count)][0]
    assert first is not None
    answered: set[int] = set()
    for number in range(first, first + count, 3):
        wire.tell(w.Disposition(True, number, number + 1, None, w.ACCEPTED))
        if number < first + count // 2 or number + 3 >= first + count:
            told = wire.heard_among(w.Disposition)
            assert told.settled and not told.role and told.state == w.ACCEPTED
            answered |= set(range(told.first - first, told.last - first + 1))
    return answered


def test_answered_messages_are_there(tmp_path: Path) -> None:
    """Killed right after the answer: accepted, committed, subscribed, rolled back, settled."""
    with Running(tmp_path) as gateway:
        gateway.wire(1).declare("kept", durable=True)
        gateway.wire(1).declare("decided", durable=True)
        wire = gateway.wire_1_0(container="me")
        wire.receiver(0, None, 0, name="news", source=SUBSCRIPTION_TOPIC)
        wire.sender(1, "/queues/kept")
        wire.post(1, durable(b"1 accepted"), data(b"2 transient"))
        wire.sender(2, "/exchanges/amq.topic/a.b")
        wire.post(2, durable(b"3 news"))
        wire.sender(3, None, target=w.Coordinator())
        for fail, octets in ((False, b"4 committed"), (True, b"5 rolled back")):
            wire.send(wire.transfer(3, b"\x00\x53\x77" + write(w.Declare())))
            work = wire.heard_among(w.Disposition).state.txn_id
            state = w.TransactionalState(work)
            wire.send(wire.transfer(1, durable(octets), state=state))
            assert wire.heard_among(w.Disposition).state == w.TransactionalState(work, w.ACCEPTED)
            wire.send(wire.transfer(3, b"\x00\x53\x77" + write(w.Discharge(work, fail))))
            assert wire.heard_among(w.Disposition).state == w.ACCEPTED
        wire.send(wire.transfer(3, b"\x00\x53\x77" + write(w.Declare())))
        work = wire.heard_among(w.Disposition).state.txn_id
        wire.send(wire.transfer(1, durable(b"6 unfinished"), state=w.TransactionalState(work)))
        wire.heard_among(w.Disposition)
        answered = decide(wire, 60)
        gateway.kill()

        gateway.start()
        assert read(gateway.wire(1), "kept") == [1, 4]
        left = set(read(gateway.wire(1), "decided"))
        assert len(answered) > 20 and not left & answered and left >= set(range(2, 60, 3))
        wire = gateway.wire_1_0(container="me")
        wire.tell(w.Attach("news", 0, True, source=SUBSCRIPTION_TOPIC, target=w.Target()))
        wire.send(packed(wire.credit(0, 10)))
        assert text(wire.next_message()[1]) == 3
        wire.accept(0)
        wire.ended()

"""No message of 1.0 is lost and none is taken twice: on a real broker a consumer with a durable
link settles, retires, detaches, loses its connection and resumes as chance has it."""

import random
from typing import Any

import pytest

from gateway.adapters.performatives.composites import write
from gateway.adapters.performatives.wire import layouts as w
from gateway.operations import DeclareQueue
from tests.adapters.performatives.wire import packed, unpacked
from tests.sessions.test_session import House
from tests.sessions.test_wire_1_0 import Linked

MESSAGES = 25
OUT, CONTROL = 0, 5


def numbered(number: int) -> bytes:
    return b"\x00\x53\x75\xa0\x04%04d" % number


class Consumer:
    """``live``: deliveries by id (tag and message); ``kept``: what it will resume, by tag (message,
    and whether it has accepted it). ``accepted``: messages whose acceptance was applied."""

    def __init__(self, house: House, chance: random.Random) -> None:
        self.house = house
        self.chance = chance
        self.accepted: list[int] = []
        self.kept: dict[bytes, tuple[int, bool]] = {}
        self.peer: Linked | None = None
        self.linked = False

    def connect(self) -> None:
        self.peer = Linked(self.house, "me", self.chance.choice([2, 5, 1000]))
        self.peer.sender(CONTROL, "control", w.Coordinator())
        self.live: dict[int, tuple[bytes, int]] = {}
        self.linked = False
        self.work: bytes | None = None
        self.retired: dict[int, bool] = {}
        self.requests = self.seen = self.count = 0

    def says(self, record: Any, payload: bytes = b"") -> list[Any]:
        assert self.peer is not None
        self.peer.feed(packed(record, 0, payload))
        heard = unpacked(b"".join(self.peer.engine.output()))
        for frame in heard:
            transfer = frame.record
            if isinstance(transfer, w.Transfer):
                self.seen, self.count = self.seen + 1, self.count + 1
                if not transfer.settled:
                    tag = transfer.delivery_tag or b""
                    self.live[transfer.delivery_id or 0] = tag, int(frame.payload[-4:])
        return [frame.record for frame in heard]

    def asks(self, record: Any) -> Any:
        """A request to the coordinator; the state of its outcome."""
        number = self.requests = self.requests + 1
        heard = self.says(
            w.Transfer(CONTROL, number, b"%d" % number, 0), b"\0\x53\x77" + write(record)
        )
        (told,) = [each for each in heard if isinstance(each, w.Disposition) and each.role]
        return told.state

    def attach(self) -> None:
        theirs = {tag: w.ACCEPTED if done else None for tag, (_, done) in self.kept.items()}
        self.accepted += [number for number, done in self.kept.values() if done]
        self.kept, self.count, self.linked = {}, 0, True
        source = w.Source("/queues/q", durable=2, expiry_policy="never")
        self.says(w.Attach("out", OUT, True, source=source, unsettled=theirs))

    def leave(self) -> None:
        """What it remembers of its deliveries: some it has accepted, some it has forgotten."""
        for tag, number in self.live.values():
            remembers = self.chance.random()
            if remembers < 0.7:
                self.kept[tag] = number, remembers < 0.2
        self.live = {}

    def step(self) -> None:
        free = [each for each in getattr(self, "live", {}) if each not in self.retired]
        if self.peer is None:
            self.connect()
        elif not self.linked:
            self.attach()
        else:
            match self.chance.randrange(12):
                case 0 | 1 | 2 | 3:
                    credit = self.chance.randrange(1, 6)
                    self.says(w.Flow(self.seen, 5, 1000, 100, OUT, self.count, credit))
                case 4 | 5 | 6 if free:
                    self.settle(self.chance.choice(free))
                case 7:
                    self.transact()
                case 8 if free and self.work:
                    self.retire(self.chance.choice(free))
                case 9 if self.work is None:
                    self.leave()
                    self.says(w.Detach(OUT))
                    self.linked = False
                case 10 if self.chance.random() < 0.5:
                    for number in self.retired:
                        del self.live[number]
                    self.leave()
                    self.peer.disconnect()
                    self.peer = None

    def settle(self, number: int) -> None:
        _, message = self.live.pop(number)
        state = self.chance.choice([w.ACCEPTED, w.ACCEPTED, w.Released(), w.Modified(True), None])
        if state == w.ACCEPTED:
            self.accepted.append(message)
        settled = state is None or self.chance.random() < 0.7
        self.says(w.Disposition(True, number, None, settled, state))

    def retire(self, number: int) -> None:
        settled = self.retired[number] = self.chance.random() < 0.5
        state = w.TransactionalState(self.work, w.ACCEPTED)
        self.says(w.Disposition(True, number, None, settled, state))

    def transact(self) -> None:
        if self.work is None:
            self.work = self.asks(w.Declare()).txn_id
            return
        fail = self.chance.random() < 0.4
        assert self.asks(w.Discharge(self.work, fail)) == w.ACCEPTED
        for number, settled in self.retired.items():
            if not fail:
                self.accepted.append(self.live[number][1])
            if settled or not fail:
                del self.live[number]
        self.retired, self.work = {}, None


@pytest.mark.parametrize("seed", range(25))
def test_every_message_is_somewhere_once(seed: int) -> None:
    house = House()
    owner = Linked(house, "owner")
    owner.session.channels[0].topology.declare_queue(DeclareQueue(0, None, "q", durable=True))
    house.commit()
    owner.sender(0, "in", w.Target("/queues/q"))
    for number in range(MESSAGES):
        owner.says(w.Transfer(0, number, b"t%d" % number, 0), numbered(number))
    chance = random.Random(seed)
    consumer = Consumer(house, chance)
    for _ in range(chance.randrange(20, 200)):
        consumer.step()
    if consumer.peer is not None:
        consumer.peer.disconnect()
    accepted = sorted(consumer.accepted)
    rest = Consumer(house, chance)  # of the same name: what is unsettled comes anew
    rest.connect()
    rest.attach()
    for _ in range(MESSAGES):
        rest.says(w.Flow(rest.seen, 1000, 1000, 100, OUT, rest.count, 100))
    left = [message for _, message in rest.live.values()]
    assert sorted(accepted + left) == list(range(MESSAGES))

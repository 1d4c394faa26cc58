"""Credit, windows and frames under pressure: proton takes messages when it wants them, and in
the end every message was accepted once."""

import random
from collections import Counter
from typing import Any

import pytest

from gateway.adapters.performatives.sending_link import SendingLink
from tests.adapters.performatives.stranger import Stranger, body, message, proton

pytestmark = pytest.mark.interop

MESSAGES = 120


class Taker:
    """Receivers on a session with little room, which settle as chance has it."""

    def __init__(self, stranger: Stranger, chance: random.Random, links: int) -> None:
        self.stranger = stranger
        self.chance = chance
        self.accepted: Counter[str] = Counter()
        self.session = stranger.connection.session()
        self.session.incoming_capacity = 512 * chance.randrange(2, 6)
        self.session.open()
        self.links = [self._link(str(number)) for number in range(links)]
        self.held: list[tuple[Any, str]] = []
        self.read: dict[str, bytes] = {}
        stranger.talk()

    def _link(self, name: str) -> Any:
        link = self.session.receiver(name)
        link.source.address = "q"
        link.rcv_settle_mode = self.chance.choice([proton.Link.RCV_FIRST, proton.Link.RCV_SECOND])
        link.open()
        return link

    def step(self) -> None:
        link = self.chance.choice(self.links)
        match self.chance.randrange(6):
            case 0:
                link.drain_mode = False
                link.flow(self.chance.randrange(1, 8))
            case 1:
                link.drain_mode = True
                link.flow(self.chance.randrange(0, 5))
            case 2 | 3:
                self._take(link)
            case _:
                self._settle()
        self.stranger.talk()

    def _take(self, link: Any) -> None:
        """Read the octets that are there, which makes room for the rest."""
        delivery = link.current
        if delivery is None:
            return
        whole = not delivery.partial
        self.read[link.name] = self.read.get(link.name, b"") + bytes(
            link.recv(delivery.pending) or b""
        )
        if whole:
            link.advance()
            self.held.append((delivery, body(self.read.pop(link.name))[:4]))

    def _settle(self) -> None:
        if not self.held:
            return
        delivery, name = self.held.pop(self.chance.randrange(len(self.held)))
        if self.chance.random() < 0.3:
            delivery.update(proton.Delivery.RELEASED)
        else:
            delivery.update(proton.Delivery.ACCEPTED)
            self.accepted[name] += 1
        if delivery.link.rcv_settle_mode == proton.Link.RCV_SECOND:
            self.stranger.talk()
            assert delivery.settled
        delivery.settle()


@pytest.mark.parametrize("seed", range(6))
def test_every_message_is_accepted_once(seed: int) -> None:
    chance = random.Random(seed)
    stranger = Stranger(frame=512, cut=chance.choice([1 << 30, 11]))
    senders = [stranger.sender("q", f"in{number}") for number in range(2)]
    wanted = Counter(f"{number:04}" for number in range(MESSAGES))
    for number in range(MESSAGES):
        octets = message(f"{number:04}" + "x" * chance.choice([0, 10, 300, 600, 2500]))
        stranger.send(senders[number % 2], octets, str(number))
        if number % 7 == 0:
            stranger.talk()
    stranger.talk()
    taker = Taker(stranger, chance, 3)
    for _ in range(20_000):
        taker.step()
        if taker.accepted.total() == MESSAGES:
            break
    assert taker.accepted == wanted
    place = stranger.engine.connection.sessions[1]
    assert place.number == 1 and not taker.held and not place.unsettled.sent
    assert not stranger.broker.queue("q") and not stranger.broker.unsettled
    outgoing = [link for link in place.links.values() if isinstance(link, SendingLink)]
    assert len(outgoing) == 3 and not any(link.held for link in outgoing)

"""Messages of a facade are recorded when the upstream has taken them."""

from pathlib import Path

import pytest

from gateway.broker.confirms import Confirms
from gateway.broker.outbound import Outbound, PublishFate
from gateway.errors import Condition
from gateway.message import Message
from tests.journal.recording import Recording
from tests.store.samples import message


class OnePath:
    """The publish path of a channel, as the outbound messages know it."""

    closed = False
    returning = 0

    def __init__(self, origin: object, confirms: Confirms) -> None:
        self.origin = origin
        self.decide = confirms.decide

    def give_back(self, message: Message, condition: Condition, text: str) -> None: ...


class Sender:
    """Remembers the messages that it was to send."""

    def __init__(self) -> None:
        self.sent: list[int] = []

    def publish(self, number: int, message: Message) -> None:
        self.sent.append(number)

    def relieved(self) -> None: ...


@pytest.mark.parametrize("durable", [True, False])
@pytest.mark.parametrize("fate", list(PublishFate))
def test_recorded_with_its_fate(tmp_path: Path, fate: PublishFate, durable: bool) -> None:
    recording = Recording(tmp_path)
    sender, confirms = Sender(), Confirms()
    outbound = Outbound(sender, recording.broker.vhosts["/"].recorder)
    path, sequence = OnePath(recording.client, confirms), confirms.wait()
    published = message(b"x", b"", "x", "k")
    published.essentials = published.essentials._replace(durable=durable)
    outbound.publish(path, sequence, published, False)
    recording.commit()
    assert confirms.decided == {} and recording.entries() == []
    outbound.conclude(sender.sent[0], fate, "")
    waiting: list[tuple[int, bool, bool]] = []
    taken = fate is PublishFate.TAKEN
    safe = recording.store.mark - 1
    waits = taken and durable
    assert confirms.tell(safe, 0, lambda *told: waiting.append(told)) is not waits
    recording.commit()
    assert [one.address for one in recording.entries()] == ["/exchanges/x"] * taken
    assert confirms.tell(recording.store.mark - 1, 0, lambda *told: waiting.append(told))
    assert [accepted for _, _, accepted in waiting] == [fate is not PublishFate.REFUSED]

"""Messages on their way to an upstream, and their fates."""

from gateway.adapters.methods.content import BASIC
from gateway.broker.confirms import Confirms
from gateway.broker.outbound import Outbound, PublishFate
from gateway.errors import Condition
from gateway.message import NO_ESSENTIALS, Message


class Path:
    """A publish path with confirms."""

    returning = 0
    origin: object = None

    def __init__(self) -> None:
        self.closed = False
        self.confirms = Confirms()
        self.decisions = 0

    def give_back(self, message: Message, condition: Condition, text: str) -> None: ...

    def decide(self, first: int, last: int, mark: int, accepted: bool) -> None:
        self.decisions += 1
        self.confirms.decide(first, last, mark, accepted)

    def told(self) -> list[tuple[int, bool, bool]]:
        found: list[tuple[int, bool, bool]] = []
        self.confirms.tell(0, 0, lambda *one: found.append(one))
        return found


class Sender:
    """Remembers the numbers of the messages that it was to send."""

    def __init__(self) -> None:
        self.sent: list[int] = []
        self.reliefs = 0

    def publish(self, number: int, message: Message) -> None:
        self.sent.append(number)

    def relieved(self) -> None:
        self.reliefs += 1


def publish(outbound: Outbound, path: Path, count: int, confirmed: bool = True) -> None:
    for _ in range(count):
        message = Message(BASIC, b"\0\0", b"body", "", "q", NO_ESSENTIALS)
        outbound.publish(path, path.confirms.wait() if confirmed else 0, message, False)


def test_a_confirm_of_many_is_one_decision_for_each_publisher() -> None:
    sender = Sender()
    outbound = Outbound(sender, None)
    one, other = Path(), Path()
    publish(outbound, one, 100)
    publish(outbound, other, 50)
    publish(outbound, one, 10)
    publish(outbound, one, 5, confirmed=False)
    outbound.taken([*sender.sent, 4711])
    assert (one.decisions, other.decisions) == (2, 1)
    assert one.told() == [(110, True, True)] and other.told() == [(50, True, True)]
    assert (outbound.published, outbound.octets, outbound.under_way) == (165, 0, {})


def test_a_refusal_in_the_middle() -> None:
    sender, path = Sender(), Path()
    outbound = Outbound(sender, None)
    publish(outbound, path, 5)
    outbound.taken(sender.sent[3:])
    outbound.conclude(sender.sent[2], PublishFate.REFUSED, "")
    assert path.told() == []
    outbound.taken(sender.sent[:2])
    assert path.told() == [(2, True, True), (3, False, False), (5, True, True)]
    assert (outbound.published, outbound.refused) == (4, 1)


def test_publishers_are_relieved_once() -> None:
    sender, path = Sender(), Path()
    outbound = Outbound(sender, None)
    outbound.full = True
    publish(outbound, path, 3)
    path.closed = True
    outbound.taken(sender.sent[:2])
    outbound.taken(sender.sent[2:])
    assert sender.reliefs == 1 and path.decisions == 0

"""The credit of a subscription while the broker has not heard of all of it yet."""

from gateway.adapters.segments.completion import SentCommands
from gateway.adapters.segments.subscriptions import Subscription
from gateway.adapters.segments.wire.tables import CreditUnit
from gateway.operations import Credit


def test_credit_in_many_steps_is_their_sum() -> None:
    """The flows of one read reach the broker one after the other, which delivers in between."""
    subscription = Subscription(1, "d", 0, 0, SentCommands())
    subscription.add(CreditUnit.BYTE, 0xFFFFFFFF)
    told: list[Credit] = [subscription.tell()]
    for _ in range(5):
        subscription.add(CreditUnit.MESSAGE, 1)
        told.append(subscription.tell())
    delivered = 0
    for credit in told:
        for _ in range(credit.count or 0):
            subscription.spend(100)
            delivered += 1
    assert delivered == 5 and subscription.messages == 0


def test_octets_in_many_steps_are_their_sum() -> None:
    subscription = Subscription(1, "d", 0, 0, SentCommands())
    subscription.add(CreditUnit.MESSAGE, 0xFFFFFFFF)
    told: list[Credit] = []
    for _ in range(5):
        subscription.add(CreditUnit.BYTE, 100)
        told.append(subscription.tell())
    delivered = 0
    for credit in told:
        for _ in range((credit.octets or 0) // 100):
            subscription.spend(100)
            delivered += 1
    assert delivered == 5

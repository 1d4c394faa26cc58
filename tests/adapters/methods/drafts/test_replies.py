"""What a peer of a draft does wrong is told behind the answers to what it asked before, whether it
costs the channel or the connection."""

from typing import Any

import pytest

from gateway.adapters.methods.drafts.versions import DRAFTS
from gateway.operations import BeginSession
from tests.adapters.methods.drafts.house import Guest, House, named


def declared(guest: Guest) -> Any:
    """A durable queue, whose answer waits for the store."""
    if guest.version.startswith("0-9a0"):
        return guest.w.DestinationDefine(0, 1, "q", "", True)
    return guest.w.QueueDeclare(0, "", "q", durable=True)


def hasty(guest: Guest, *octets: bytes) -> list[tuple[str, Any]]:
    """One read. What is said of it before the store has it, and then."""
    asked = guest.client.encoded(1, declared(guest))
    guest.session.perform(guest.server.receive(asked + b"".join(octets)))
    guest.session.perform(guest.server.found())
    assert not guest.server.output(), "nothing overtakes the answer"
    assert not guest.server.closing
    return guest.hears()


@pytest.fixture(params=DRAFTS)
def guest(request: pytest.FixtureRequest) -> Guest:
    return Guest(House(), request.param)


def test_what_costs_the_channel(guest: Guest) -> None:
    wrong = guest.client.encoded(1, guest.w.JmsConsume(9, *consumed(guest)))
    after = guest.client.encoded(1, declared(guest))
    heard = hasty(guest, wrong, after)
    ok = "destination.define-ok" if guest.version.startswith("0-9a0") else "queue.declare-ok"
    assert [name for name, _ in heard] == [ok, "channel.close"]
    assert heard[1][1].reply_code == 403
    close_ok = guest.says(guest.w.ChannelCloseOk())
    assert close_ok == [] and not guest.session.closed


def consumed(guest: Guest) -> tuple[Any, ...]:
    return (1, "q") if guest.version.startswith("0-9a0") else ("", "q")


def test_their_close_meets_ours(guest: Guest) -> None:
    wrong = guest.client.encoded(1, guest.w.JmsConsume(9, *consumed(guest)))
    close = guest.client.encoded(1, guest.w.ChannelClose(200, "bye"))
    heard = hasty(guest, wrong, close)
    assert [name for name, _ in heard][1:] == ["channel.close", "channel.close-ok"]


def test_what_costs_the_connection(guest: Guest) -> None:
    octets = guest.client.encoded(9, declared(guest))  # that channel is not open
    heard = hasty(guest, octets)
    assert len(heard) == 2 and named(heard, "connection.close")[0].reply_code == 504
    assert guest.session.closed and not guest.session.peer_closed


def test_what_is_no_frame_ends_it_without_a_word_of_its_own(guest: Guest) -> None:
    heard = hasty(guest, guest.client.frames.frame(12, 1, b""))
    assert len(heard) == 1 and heard[0][0].endswith("-ok")
    assert guest.server.closing and guest.session.closed


@pytest.mark.parametrize("subscription", [False, True])
def test_cancelling_a_missing_consumer(subscription: bool) -> None:
    """It costs the connection (0-9a0 §4.5.7, §4.6.7): behind the answers of other channels too."""
    guest = Guest(House(), "0-9a0")
    guest.client.send(BeginSession(2, "begin"))
    guest.carry()
    name: Any = guest.w.DestinationCancel(0, 1, "none")
    if subscription:
        name = guest.w.SubscriptionCancel(0, "none")
    heard = hasty(guest, guest.client.encoded(2, name))
    assert [name for name, _ in heard] == ["destination.define-ok", "connection.close"]
    assert heard[1][1].reply_code == 404
    assert guest.session.closed and not guest.session.peer_closed

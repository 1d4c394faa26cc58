"""Proton talks to our server engine: everything a stranger does with sessions and links."""

from typing import Any

import pytest

from gateway.adapters.options import Limits
from gateway.operations import DetachLink, Modify, Outcome, Publish, Settle
from tests.adapters.performatives.stranger import Stranger, body, message, proton

pytestmark = pytest.mark.interop

CUTS = pytest.mark.parametrize("cut", [1 << 30, 7, 1])


@CUTS
def test_messages_in_and_out(cut: int) -> None:
    stranger = Stranger(cut=cut)
    sender = stranger.sender("q")
    assert sender.credit == 1000
    sent = [stranger.send(sender, message(f"m{n}"), f"t{n}") for n in range(20)]
    stranger.talk()
    assert all(each.settled and each.remote_state == proton.Delivery.ACCEPTED for each in sent)
    receiver = stranger.receiver("q", credit=30)
    for n in range(20):
        delivery, octets = stranger.take(receiver)
        assert body(octets) == f"m{n}"
        delivery.update(proton.Delivery.ACCEPTED)
        delivery.settle()
    assert receiver.credit == 10
    stranger.talk()
    settled = [op for op in stranger.broker.heard if isinstance(op, Settle)]
    assert [op.delivery for op in settled] == list(range(1, 21))
    assert (
        not stranger.broker.unsettled and not stranger.engine.connection.sessions[0].unsettled.sent
    )


@pytest.mark.parametrize("size", [0, 1, 255, 256, 511, 512, 5000, 300_000])
@pytest.mark.parametrize("frame", [512, 65536])
def test_messages_of_any_size(size: int, frame: int) -> None:
    stranger = Stranger(frame=frame, limits=Limits(frame_max=1024))
    sender, receiver = stranger.sender("q"), stranger.receiver("q", credit=2)
    octets = message(bytes(range(256)) * (size // 256) + bytes(size % 256))
    stranger.send(sender, octets, "t")
    stranger.talk()
    _, came = stranger.take(receiver)
    assert came == octets


def test_settled_before_sending() -> None:
    stranger = Stranger()
    sender = stranger.sender("q", snd_settle_mode=proton.Link.SND_SETTLED)
    delivery = stranger.send(sender, message("m"), "t")
    delivery.settle()
    stranger.talk()
    receiver = stranger.receiver("q", credit=1, snd_settle_mode=proton.Link.SND_SETTLED)
    assert receiver.remote_snd_settle_mode == proton.Link.SND_SETTLED
    delivery, _ = stranger.take(receiver)
    assert delivery.settled and not stranger.engine.connection.sessions[0].unsettled.sent


def test_exactly_once_both_ways() -> None:
    """rcv-settle-mode second: the sender settles first."""
    stranger = Stranger()
    second = {"rcv_settle_mode": proton.Link.RCV_SECOND}
    sender = stranger.sender("q", **second)
    assert sender.remote_rcv_settle_mode == proton.Link.RCV_SECOND
    delivery = stranger.send(sender, message("m"), "t")
    stranger.talk()
    assert delivery.remote_state == proton.Delivery.ACCEPTED and not delivery.settled
    assert len(stranger.engine.connection.sessions[0].unsettled.received) == 1
    delivery.settle()
    stranger.talk()
    assert not stranger.engine.connection.sessions[0].unsettled.received
    receiver = stranger.receiver("q", credit=1, **second)
    delivery, _ = stranger.take(receiver)
    delivery.update(proton.Delivery.ACCEPTED)
    stranger.talk()
    assert delivery.settled and delivery.remote_state == proton.Delivery.ACCEPTED
    delivery.settle()
    stranger.talk()
    assert stranger.broker.heard[-2] == Settle(0, 1, False, Outcome.ACCEPT)


@pytest.mark.parametrize(
    ("state", "outcome"),
    [
        (proton.Delivery.ACCEPTED, Outcome.ACCEPT),
        (proton.Delivery.REJECTED, Outcome.REJECT),
        (proton.Delivery.RELEASED, Outcome.RELEASE),
        (proton.Delivery.MODIFIED, Modify(0, 1, True, True, {"why": "late"})),
        (None, Outcome.RELEASE),
    ],
)
def test_outcomes(state: Any, outcome: Any) -> None:
    stranger = Stranger()
    stranger.send(stranger.sender("q"), message("m"), "t")
    receiver = stranger.receiver("q", credit=1)
    delivery, _ = stranger.take(receiver)
    if state == proton.Delivery.MODIFIED:
        delivery.local.failed = delivery.local.undeliverable = True
        delivery.local.annotations = {proton.symbol("why"): "late"}
    if state is not None:
        delivery.update(state)
    delivery.settle()
    stranger.talk()
    said = [op for op in stranger.broker.heard if isinstance(op, (Settle, Modify))]
    assert said == [outcome if isinstance(outcome, Modify) else Settle(0, 1, False, outcome)]


def test_what_is_released_comes_again() -> None:
    stranger = Stranger()
    stranger.send(stranger.sender("q"), message("m"), "t")
    receiver = stranger.receiver("q", credit=2)
    delivery, first = stranger.take(receiver)
    delivery.update(proton.Delivery.RELEASED)
    delivery.settle()
    stranger.talk()
    _, again = stranger.take(receiver)
    decoded = proton.Message()
    decoded.decode(again)
    assert decoded.body == "m" and not decoded.first_acquirer


def test_drain() -> None:
    stranger = Stranger()
    sender = stranger.sender("q")
    for n in range(3):
        stranger.send(sender, message(n), f"t{n}")
    stranger.talk()
    receiver = stranger.receiver("q")
    receiver.drain_mode = True
    receiver.flow(10)
    stranger.talk()
    assert receiver.queued == 3
    for _ in range(3):
        stranger.take(receiver)
    assert receiver.credit == 0  # ten were given


def test_credit_comes_again_and_again() -> None:
    stranger = Stranger()
    sender = stranger.sender("q")
    for n in range(5000):
        if sender.credit <= 0:
            stranger.talk()
        assert sender.credit > 0
        stranger.send(sender, message("x"), str(n)).settle()
    stranger.talk()
    assert len(stranger.broker.queue("q")) == 5000


def test_a_message_without_a_route_is_released() -> None:
    stranger = Stranger()
    sender = stranger.sender("nowhere")
    delivery = stranger.send(sender, message("m"), "t")
    stranger.talk()
    assert delivery.settled and delivery.remote_state == proton.Delivery.RELEASED


@pytest.mark.parametrize("kind", ["sender", "receiver"])
def test_a_link_to_nowhere_is_refused(kind: str) -> None:
    stranger = Stranger()
    link = getattr(stranger, kind)("missing")
    assert link.state & proton.Link.REMOTE_CLOSED
    assert link.remote_condition.name == "amqp:not-found"
    assert "no queue missing" in link.remote_condition.description
    mine = link.remote_target if kind == "sender" else link.remote_source
    assert mine.address is None
    link.close()
    stranger.talk()
    assert not stranger.engine.connection.sessions[0].handles


def test_a_dynamic_node() -> None:
    stranger = Stranger()
    link = stranger.session.receiver("out")
    link.source.dynamic = True
    link.open()
    stranger.talk()
    assert link.remote_source.dynamic and link.remote_source.address.startswith("dynamic-")


def test_the_anonymous_terminus() -> None:
    stranger = Stranger()
    sender = stranger.sender(None)
    good = stranger.send(sender, message("m", address="q"), "1")
    bad = stranger.send(sender, message("m", address="missing"), "2")
    stranger.talk()
    assert good.remote_state == proton.Delivery.ACCEPTED
    assert bad.remote_state == proton.Delivery.REJECTED
    assert bad.remote.condition.name == "amqp:not-found"
    assert len(stranger.broker.queue("q")) == 1


def test_closing_a_link_returns_its_deliveries() -> None:
    stranger = Stranger()
    stranger.send(stranger.sender("q"), message("m"), "t")
    receiver = stranger.receiver("q", credit=1)
    assert receiver.queued == 1
    receiver.close()
    stranger.talk()
    assert receiver.state & proton.Link.REMOTE_CLOSED
    assert len(stranger.broker.queue("q")) == 1


def test_detaching_keeps_it() -> None:
    stranger = Stranger()
    stranger.send(stranger.sender("q"), message("m"), "t")
    receiver = stranger.receiver("q", credit=1)
    receiver.detach()
    stranger.talk()
    (said,) = [op for op in stranger.broker.heard if isinstance(op, DetachLink)]
    assert not said.closed and said.unsettled == {1: bytes(7) + b"\1"}


def test_ending_the_session() -> None:
    stranger = Stranger()
    stranger.sender("q")
    stranger.receiver("q")
    stranger.session.close()
    stranger.talk()
    assert stranger.session.state & proton.Session.REMOTE_CLOSED
    assert not stranger.engine.connection.sessions


def test_many_sessions_and_links() -> None:
    stranger = Stranger()
    senders = []
    for n in range(20):
        session = stranger.connection.session()
        session.open()
        for k in range(5):
            link = session.sender(f"{n}/{k}")
            link.target.address = f"q{n}"
            link.open()
            senders.append(link)
    stranger.talk()
    sent = [stranger.send(link, message("m"), "t") for link in senders]
    stranger.talk()
    assert all(each.settled for each in sent)
    assert sum(isinstance(op, Publish) for op in stranger.broker.heard) == 100


def test_a_small_window_of_the_peer_holds_deliveries() -> None:
    stranger = Stranger(frame=512)
    session = stranger.connection.session()
    session.incoming_capacity = 512 * 4
    session.open()
    sender = stranger.sender("q")
    for n in range(40):
        stranger.send(sender, message("x" * 300), str(n))
    stranger.talk()
    receiver = session.receiver("out")
    receiver.source.address = "q"
    receiver.open()
    receiver.flow(100)
    stranger.talk()
    got = 0
    while receiver.queued:
        delivery, _ = stranger.take(receiver)
        delivery.update(proton.Delivery.ACCEPTED)
        delivery.settle()
        got += 1
        stranger.talk()
    assert got == 40

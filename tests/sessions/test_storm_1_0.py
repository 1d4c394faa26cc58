"""Frames of 1.0 that make no sense, on a real session and broker: two peers, sometimes of one name.
Nothing escapes, and when all is over nothing is held by anybody."""

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.adapters.performatives.wire import layouts as w
from gateway.operations import DeclareQueue
from tests.adapters.performatives.test_storm import steps
from tests.drawing import examples
from tests.sessions.test_session import House
from tests.sessions.test_wire_1_0 import MESSAGE, Linked


def filled() -> House:
    house = House()
    owner = Linked(house, "owner")
    for name in ("q", "r"):
        owner.session.channels[0].topology.declare_queue(DeclareQueue(0, None, name, durable=True))
    house.commit()
    owner.sender(0, "in", w.Target("/queues/q"))
    for number in range(6):
        owner.says(w.Transfer(0, number, b"t%d" % number, 0), MESSAGE)
    owner.disconnect()
    return house


def entered(house: House, container: str, window: int) -> Linked:
    peer = Linked(house, container, window)
    peer.says(w.Attach("a", 0, False, target=w.Target("q"), initial_delivery_count=0))
    source = w.Source("q", durable=2, expiry_policy="never")
    peer.says(w.Attach("b", 1, True, source=source))
    peer.says(w.Attach("c", 2, False, target=w.Coordinator(), initial_delivery_count=0))
    peer.says(w.Flow(0, window, 0, 100, 1, 0, 5))
    return peer


@settings(max_examples=examples(120), deadline=None, suppress_health_check=list(HealthCheck))
@given(steps, st.integers(1, 6), st.sampled_from(["one", "other"]))
def test_frames_in_any_order(said: list[tuple[Any, bytes]], window: int, name: str) -> None:
    house = filled()
    peers = [entered(house, "one", window), entered(house, name, window)]
    for turn, (record, payload) in enumerate(said):
        peer = peers[turn % 2]
        if not peer.engine.closing:
            peer.says(record, payload if isinstance(record, w.Transfer) else b"")
    for peer in peers:
        if not peer.engine.closing:
            peer.disconnect()
        assert peer.engine.connection.under_way == 0
    for link in list(house.registry.links.by_key.values()):
        house.registry.links.forget(link)
    for queue in house.broker.vhosts["/"].queues.values():
        assert queue.unsettled == 0, queue.name

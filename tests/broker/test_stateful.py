"""The broker against a model of one durable queue: nothing lost, nothing doubled, order kept."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from gateway.broker.browsing import discard as discard_at
from gateway.broker.channel import Channel
from gateway.operations import Outcome
from tests import in_memory
from tests.broker.fakes import Heard, House, declare, message, purge
from tests.drawing import examples

SETTLED = (Outcome.ACCEPT, Outcome.RELEASE, Outcome.REJECT)
"""Exclusions, which the others lead to, have a model of their own (test_selective_stateful.py)."""


class OneQueue(RuleBasedStateMachine):
    """The model: ``ready`` in order of publishing, ``held`` by channel and tag. Messages are
    numbers, so that their order is theirs."""

    @initialize(
        budget=st.sampled_from([None, 0, 100]),
        keep=st.sampled_from([0, 1, 5]),
        ttl=st.sampled_from([None, 1000]),
    )
    def begin(self, budget: int | None, keep: int, ttl: int | None) -> None:
        self.limits = {"page_after_octets": budget, "keep_in_memory": keep}
        self.arguments = {} if ttl is None else {"x-message-ttl": ttl}
        self.ttl = ttl
        self.house = House(**self.limits)  # type: ignore[arg-type]
        self.number = 0
        self.ready: list[int] = []
        self.expires: dict[int, int] = {}
        self.durable: set[int] = set()
        self.done: set[int] = set()
        self.open()

    def open(self) -> None:
        self.channels: list[tuple[Channel, Heard]] = [self.house.channel() for _ in range(2)]
        self.held: dict[tuple[int, int], int] = {}
        self.consuming: dict[int, tuple[bool, int]] = {}
        self.heard_before = [0, 0]
        declare(self.channels[0][0], durable=True, arguments=self.arguments)

    def settle_model(self) -> None:
        """Take over what recipients have heard, checking it against the model.

        Across two consumers, only which messages went out is certain, and to each in order.
        """
        for index, (_, heard) in enumerate(self.channels):
            fresh = heard.deliveries[self.heard_before[index] :]
            self.heard_before[index] = len(heard.deliveries)
            for _, tag, _, received in fresh:
                number = int(in_memory.octets(received))
                assert number in self.ready, f"{number} was delivered but is not ready"
                assert self.expires.get(number, 1 << 60) > self.house.broker.state.now
                self.ready.remove(number)
                if self.consuming[index][0]:
                    self.done.add(number)
                else:
                    self.held[index, tag] = number

    @rule(durable=st.booleans(), count=st.integers(1, 8))
    def publish(self, durable: bool, count: int) -> None:
        for _ in range(count):
            self.number += 1
            self.ready.append(self.number)
            if durable:
                self.durable.add(self.number)
            if self.ttl is not None:
                self.expires[self.number] = self.house.broker.state.now + self.ttl
            body = str(self.number)
            self.channels[0][0].publish(message(body, "q", durable=durable))
        self.settle_model()

    @rule(index=st.sampled_from([0, 1]), no_ack=st.booleans())
    def fetch(self, index: int, no_ack: bool) -> None:
        fetched = self.channels[index][0].fetch("q", no_ack)
        if not self.ready:
            assert fetched is None
            return
        assert fetched is not None
        number = int(in_memory.octets(fetched.message))
        assert number == min(self.ready)
        self.ready.remove(number)
        if no_ack:
            self.done.add(number)
        else:
            self.held[index, fetched.delivery] = number

    @precondition(lambda self: self.ready)
    @rule(index=st.sampled_from([0, 1]), data=st.data(), discard=st.booleans())
    def take_out_of_the_middle(self, index: int, data: st.DataObject, discard: bool) -> None:
        channel = self.channels[index][0]
        queue = channel.readable("q")
        seen = channel.browse("q")
        assert [int(in_memory.octets(one.message)) for one in seen] == sorted(self.ready)
        one = data.draw(st.sampled_from(seen))
        number = int(in_memory.octets(one.message))
        self.ready.remove(number)
        if discard:
            assert discard_at(queue, one.place, "delivery_limit")
            self.done.add(number)
        else:
            picked = channel.pick(queue, one.place)
            assert picked is not None and int(in_memory.octets(picked.message)) == number
            assert picked.redelivered == (one.deliveries > 0)
            assert channel.settlements.delivery_count(picked.delivery) == one.deliveries
            self.held[index, picked.delivery] = number
        assert channel.pick(queue, one.place) is None

    @rule(index=st.sampled_from([0, 1]), no_ack=st.booleans(), limit=st.integers(0, 4))
    def subscribe(self, index: int, no_ack: bool, limit: int) -> None:
        if index in self.consuming:
            return
        channel, _ = self.channels[index]
        self.consuming[index] = (no_ack, limit)
        channel.prefetch(limit)
        channel.start(channel.subscribe("q", "c", no_ack))
        self.settle_model()

    @rule(index=st.sampled_from([0, 1]))
    def unsubscribe(self, index: int) -> None:
        self.channels[index][0].unsubscribe("c")
        self.consuming.pop(index, None)

    @precondition(lambda self: self.held)
    @rule(data=st.data(), outcome=st.sampled_from(SETTLED), multiple=st.booleans())
    def settle(self, data: st.DataObject, outcome: Outcome, multiple: bool) -> None:
        index, tag = data.draw(st.sampled_from(sorted(self.held)))
        wanted = [key for key in self.held if key == (index, tag) or (multiple and key[0] == index)]
        for key in wanted:
            if key[1] <= tag:
                number = self.held.pop(key)
                if outcome is Outcome.RELEASE:
                    self.ready.append(number)
                else:
                    self.done.add(number)
        self.forget_expired()
        self.channels[index][0].settlements.settle(tag, multiple, outcome)
        self.settle_model()

    @rule(index=st.sampled_from([0, 1]))
    def recover(self, index: int) -> None:
        for key in [key for key in self.held if key[0] == index]:
            self.ready.append(self.held.pop(key))
        self.forget_expired()
        self.channels[index][0].settlements.recover(True)
        self.settle_model()

    @rule(index=st.sampled_from([0, 1]))
    def pause(self, index: int) -> None:
        channel, _ = self.channels[index]
        if channel.window.paused:
            channel.resume()
        else:
            channel.pause()
        self.settle_model()

    @rule(index=st.sampled_from([0, 1]))
    def reopen(self, index: int) -> None:
        for key in [key for key in self.held if key[0] == index]:
            self.ready.append(self.held.pop(key))
        self.forget_expired()
        self.consuming.pop(index, None)
        self.channels[index][0].close()
        self.settle_model()
        self.channels[index] = self.house.channel()
        self.heard_before[index] = 0

    def forget_expired(self) -> None:
        now = self.house.broker.state.now
        for number in [n for n in self.ready if self.expires.get(n, 1 << 60) <= now]:
            self.ready.remove(number)
            self.done.add(number)

    @rule(milliseconds=st.integers(1, 700))
    def time_passes(self, milliseconds: int) -> None:
        self.house.broker.state.now += milliseconds
        self.forget_expired()
        self.house.broker.state.tick(self.house.broker.state.now)
        self.settle_model()

    @rule()
    def empty(self) -> None:
        assert purge(self.channels[0][0], "q") == len(self.ready)
        self.done.update(self.ready)
        self.ready.clear()

    @rule()
    def restart(self) -> None:
        left = [n for n in [*self.ready, *self.held.values()] if n in self.durable]
        self.house.commit()
        self.house = self.house.restart(**self.limits)
        self.ready = sorted(left)
        self.forget_expired()
        self.open()

    @invariant()
    def nothing_lost(self) -> None:
        queue = self.house.client.vhost.queues["q"]
        now = self.house.broker.state.now
        assert queue.depth == len(self.ready)
        assert queue.unsettled == len(self.held)
        octets = sum(len(str(n)) for n in self.ready)
        paged = sum(lane.paged for lane in queue.backlog.lanes)
        assert queue.backlog.octets == octets or (paged and queue.backlog.octets > octets)
        assert all(self.expires.get(n, 1 << 60) > now for n in self.ready)
        in_memory = sum(len(lane.ready) for lane in queue.backlog.lanes)
        assert in_memory + paged == queue.depth

    @invariant()
    def nobody_waits_in_vain(self) -> None:
        if not self.ready:
            return
        for index, (no_ack, limit) in self.consuming.items():
            channel, _ = self.channels[index]
            if channel.window.paused:
                continue
            (consumer,) = channel.window.consumers.values()
            assert not no_ack
            assert 0 < limit <= consumer.held

    def teardown(self) -> None:
        if not hasattr(self, "house"):
            return
        for channel, _ in self.channels:
            channel.unsubscribe("c")
        for channel, _ in self.channels:
            channel.close()
        self.ready.extend(self.held.values())
        self.forget_expired()
        channel, _ = self.house.channel()
        rest = []
        while (fetched := channel.fetch("q", True)) is not None:
            rest.append(int(in_memory.octets(fetched.message)))
        assert rest == sorted(self.ready)
        assert self.house.broker.state.octets == 0
        assert self.house.store.depths() == {}


OneQueue.TestCase.settings = settings(
    max_examples=examples(60), stateful_step_count=30, deadline=None
)
TestOneQueue = OneQueue.TestCase

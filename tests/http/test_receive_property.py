"""Any order of receiving, settling, renewing and waiting: every message is in one place."""

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

import gateway.adapters  # noqa: F401  (registers the dialects)
from gateway.broker.broker import Broker
from gateway.broker.limits import Limits
from gateway.broker.memory_store import MemoryStore
from gateway.http.leases import Lease, LeaseState, LeaseTable
from gateway.http.publish.templates import encode
from gateway.http.receive.channels import ReceiveChannels
from gateway.message import DIALECTS, Message, Properties
from gateway.operations import DeclareQueue, Outcome
from tests import in_memory
from tests.broker.fakes import Heard
from tests.drawing import examples

OWNERS = [("alice", ""), ("bob", "")]
FATES = {
    LeaseState.ACCEPTED: Outcome.ACCEPT,
    LeaseState.RELEASED: Outcome.RELEASE,
    LeaseState.REJECTED: Outcome.REJECT,
}


class Leases(RuleBasedStateMachine):
    """The model: what each message's fate is, and until when it is held."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1_000_000
        self.broker = Broker(MemoryStore(), Limits(), self.now)
        for user, _ in OWNERS:
            self.broker.access.iterations = 4096
            self.broker.access.add_user(user, "x", ())
            self.broker.access.set_permissions(user, "/", ".*", ".*", ".*")
        self.channel = self.broker.attach("/", "alice", "test").channel(1, Heard())
        dead = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
        self.channel.topology.declare_queue(DeclareQueue(1, None, "dead"))
        self.channel.topology.declare_queue(DeclareQueue(1, None, "q", arguments=dead))
        self.table = LeaseTable(self.broker.state, b"s" * 32)
        self.receive_channels = ReceiveChannels(self.broker)
        self.ready: list[int] = []
        self.held: dict[int, tuple[Lease, int]] = {}
        """By body: the lease and its end."""
        self.dead: list[int] = []
        self.over: list[tuple[Lease, LeaseState, int]] = []
        """Leases, what became of them, and until when that must be known."""
        self.next = 0

    def body(self, lease: Lease) -> int:
        message = lease.message
        assert message is not None
        return int(in_memory.octets(message))

    def end(self, body: int, fate: LeaseState) -> None:
        lease, _ = self.held.pop(body)
        self.over.append((lease, fate, self.now + 2 * lease.length))
        if fate in (LeaseState.RELEASED, LeaseState.EXPIRED):
            self.ready = sorted([*self.ready, body])
        elif fate is LeaseState.REJECTED:
            self.dead.append(body)

    @rule()
    def publish(self) -> None:
        header, essentials = encode(Properties())
        message = Message(DIALECTS["0-9-1"], header, b"%d" % self.next, "", "q", essentials)
        self.channel.publish(message)
        self.ready.append(self.next)
        self.next += 1

    @rule(owner=st.sampled_from(OWNERS), most=st.integers(1, 3), length=st.integers(1, 50))
    def receive(self, owner: Any, most: int, length: int) -> None:
        receive_channel = self.receive_channels.of("/", owner[0])
        for taken in receive_channel.fetch("q", most, 1000):
            delivery, count = taken.delivery, taken.count
            lease = Lease(self.table, receive_channel, "/", "q", owner, delivery, count, length)
            self.table.grant(lease)
            body = self.body(lease)
            assert body == self.ready.pop(0)
            self.held[body] = (lease, self.now + length)

    @precondition(lambda self: self.held)
    @rule(data=st.data(), fate=st.sampled_from(list(FATES)))
    def settle(self, data: Any, fate: LeaseState) -> None:
        body = data.draw(st.sampled_from(sorted(self.held)))
        self.table.settle(self.held[body][0], fate, FATES[fate], None)
        self.end(body, fate)

    @precondition(lambda self: self.held)
    @rule(data=st.data(), length=st.integers(1, 50))
    def renew(self, data: Any, length: int) -> None:
        body = data.draw(st.sampled_from(sorted(self.held)))
        lease = self.held[body][0]
        self.table.renew(lease, length)
        self.held[body] = (lease, self.now + length)

    @rule(ms=st.integers(0, 60))
    def wait(self, ms: int) -> None:
        self.now += ms
        for body, (_, until) in sorted(self.held.items()):
            if until <= self.now:
                self.end(body, LeaseState.EXPIRED)
        self.broker.state.tick(self.now)

    @invariant()
    def counts_agree(self) -> None:
        queue = self.broker.vhosts["/"].queues["q"]
        assert [
            int(in_memory.octets(one.message)) for one in self.channel.browse("q")
        ] == self.ready
        assert (queue.depth, queue.unsettled) == (len(self.ready), len(self.held))
        assert self.table.open() == len(self.held)
        assert self.broker.vhosts["/"].queues["dead"].depth == len(self.dead)
        per_owner = dict.fromkeys(OWNERS, 0)
        for lease, until in self.held.values():
            per_owner[lease.owner] += 1
            assert lease.until == until and self.table.find(lease.number) is lease
        assert {owner: self.table.per_owner[owner] for owner in OWNERS} == per_owner

    @invariant()
    def what_became_of_a_lease_is_known_as_long_as_promised(self) -> None:
        for lease, fate, until in self.over:
            assert lease.state is fate
            found = self.table.find(lease.number)
            assert found is (lease if self.now < until else None)


Leases.TestCase.settings = settings(
    max_examples=examples(60), stateful_step_count=30, deadline=None
)
TestLeases = Leases.TestCase

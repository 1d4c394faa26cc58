"""Branches of distributed transactions over the store on disk, against a model in plain Python: two
channels work in them, time passes, the process dies."""

import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from gateway.broker.branches import REMEMBERED, Completing
from gateway.broker.channel import Channel
from gateway.errors import Condition, Refusal
from gateway.operations import BranchStatus, Outcome, Xid
from tests.broker.fakes import Heard
from tests.crash.branching import Moving
from tests.drawing import examples
from tests.store.samples import message

XIDS = [Xid(0, b""), Xid(1, b"x", b"y"), Xid(2**32 - 1, b"\xff" * 64, b"\0" * 64)]
HOUR = 3_600_000
QUEUE = "from"

OK, ROLLBACK, TIMEOUT = BranchStatus.OK, BranchStatus.ROLLBACK, BranchStatus.ROLLBACK_TIMEOUT
ILLEGAL, NOT_ALLOWED, UNKNOWN = (
    Condition.CHANNEL_ERROR,
    Condition.NOT_ALLOWED,
    Condition.NOT_FOUND,
)
Result = BranchStatus | Condition


@dataclass
class Known:
    """A branch of the model: its status, the channels that are associated with it, and whether they
    have suspended it; the work that waits for its end; when its time is over."""

    status: BranchStatus = OK
    prepared: bool = False
    suspended: dict[int, bool] = field(default_factory=dict)
    published: list[tuple[int, int]] = field(default_factory=list)
    settled: list[tuple[int, int]] = field(default_factory=list)
    """Number of the channel, and of the message."""
    deadline: int | None = None
    over: bool = False
    """It was rolled back without its coordinator."""

    @property
    def decided(self) -> bool:
        return self.status in (BranchStatus.HEURISTIC_COMMIT, BranchStatus.HEURISTIC_ROLLBACK)


class OneHost(RuleBasedStateMachine):
    """The model: ``ready`` messages with their mark of redelivery, and ``known`` branches."""

    @initialize()
    def begin(self) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.now = 1_000_000
        self.number = 0
        self.ready: dict[int, bool] = {}
        self.known: dict[Xid, Known] = {}
        self.open()

    def open(self) -> None:
        self.house = Moving(self.folder)
        self.house.broker.state.tick(self.now)
        self.channels = [self.opened() for _ in range(2)]

    def opened(self) -> Channel:
        client = self.house.client
        channel = client.channel(2 + len(client.channels) + self.number, Heard())
        self.number += 1
        channel.select_branches()
        return channel

    def settle(self) -> None:
        """What was done is on disk."""
        for _ in range(2):
            self.house.turn()

    def active(self, index: int) -> Known | None:
        for branch in self.known.values():
            if branch.suspended.get(index) is False:
                return branch
        return None

    def give_back(self, branch: Known, index: int | None = None) -> None:
        """The work of a branch, or that of one channel, is rolled back."""
        gone = [one for one in branch.settled if index in (None, one[0])]
        self.ready.update((number, True) for _, number in gone)
        branch.settled = [one for one in branch.settled if one not in gone]
        branch.published = [one for one in branch.published if index not in (None, one[0])]

    def drop(self, xid: Xid) -> None:
        self.give_back(self.known.pop(xid))

    def remember(self, xid: Xid) -> None:
        """It is rolled back, and known for some time."""
        branch = self.known[xid]
        self.give_back(branch)
        branch.deadline, branch.over = self.now + REMEMBERED, True

    def outcome(self, act: Callable[[], Result]) -> Result:
        """A status, or the condition of a refusal."""
        try:
            return act()
        except Refusal as refusal:
            return refusal.condition

    def completed(self, work: Callable[[], tuple[bool, Completing]]) -> Result:
        return self.outcome(lambda: self.house.complete(work()))

    # --- work ------------------------------------------------------------------------------------

    @rule(index=st.sampled_from([0, 1]))
    def publish(self, index: int) -> None:
        self.number += 1
        self.channels[index].publish(message(b"%d" % self.number, b"", "", QUEUE))
        branch = self.active(index)
        if branch is None:
            self.ready[self.number] = False
        else:
            branch.published.append((index, self.number))
        self.settle()

    @rule(index=st.sampled_from([0, 1]))
    def take(self, index: int) -> None:
        """Receive and accept the first message."""
        got = self.channels[index].fetch(QUEUE)
        assert (got is None) is (not self.ready)
        if got is None:
            return
        number = int(bytes(got.message.body[:]))
        assert got.redelivered is self.ready.pop(number)
        self.channels[index].settlements.settle(got.delivery, False, Outcome.ACCEPT)
        branch = self.active(index)
        if branch is not None:
            branch.settled.append((index, number))
        self.settle()

    @rule(
        index=st.sampled_from([0, 1]),
        xid=st.sampled_from(XIDS),
        work=st.lists(st.sampled_from(["publish", "take"]), max_size=3),
        then=st.sampled_from(
            ["", "suspend", "other joins", "end", "prepare", "prepare", "prepare"]
        ),
    )
    def work_in(self, index: int, xid: Xid, work: list[str], then: str) -> None:
        """What programs do, as these steps are rare otherwise."""
        for each, branch in list(self.known.items()):
            if branch.suspended.get(index) is False:
                self.end(index, each, "")
        self.start(index, xid, "join" if xid in self.known else "")
        if then == "other joins":
            self.start(1 - index, xid, "join")
        for word in work:
            getattr(self, word)(index)
            if then == "other joins":
                getattr(self, word)(1 - index)
        if then:
            self.end(index, xid, "suspend" if then == "suspend" else "")
        if then == "prepare":
            self.prepare(xid)

    # --- association -----------------------------------------------------------------------------

    @rule(
        index=st.sampled_from([0, 1]),
        xid=st.sampled_from(XIDS),
        flags=st.sampled_from(["", "", "", "join", "resume", "join resume"]),
    )
    def start(self, index: int, xid: Xid, flags: str) -> None:
        join, resume = "join" in flags, "resume" in flags
        mine = self.channels[index].needed_branches()
        result = self.outcome(lambda: mine.start(xid, join, resume))
        branch = self.known.get(xid)
        wanted: Result = OK
        if join and resume:
            wanted = NOT_ALLOWED
        elif self.active(index) is not None:
            wanted = ILLEGAL
        elif (branch is None) is (join or resume):
            wanted = NOT_ALLOWED
        elif branch is None:
            deadline = self.now + HOUR
            self.known[xid] = Known(suspended={index: False}, deadline=deadline)
        elif branch.prepared or (index in branch.suspended) is not resume:
            wanted = ILLEGAL
        else:
            wanted = branch.status
            if wanted is OK:
                branch.suspended[index] = False
        assert result is wanted

    @rule(
        index=st.sampled_from([0, 1]),
        xid=st.sampled_from(XIDS),
        flags=st.sampled_from(["", "", "", "suspend", "fail", "suspend fail"]),
    )
    def end(self, index: int, xid: Xid, flags: str) -> None:
        fail, suspend = "fail" in flags, "suspend" in flags
        mine = self.channels[index].needed_branches()
        result = self.outcome(lambda: mine.end(xid, fail, suspend))
        branch = self.known.get(xid)
        state = None if branch is None else branch.suspended.get(index)
        wanted: Result = ILLEGAL
        if fail and suspend:
            wanted = NOT_ALLOWED
        elif branch is not None and state is not None and not (state and suspend):
            if suspend:
                branch.suspended[index] = True
            else:
                del branch.suspended[index]
                if fail and branch.status is OK:
                    branch.status = ROLLBACK
            wanted = branch.status
        assert result is wanted

    @rule(index=st.sampled_from([0, 1]))
    def close(self, index: int) -> None:
        """The channel is over, and another is opened."""
        self.channels[index].close()
        for xid, branch in list(self.known.items()):
            if branch.suspended.pop(index, None) is not None:
                if branch.status is OK:
                    branch.status = ROLLBACK
                self.give_back(branch, index)
                if not branch.suspended:
                    self.remember(xid)
        self.channels[index] = self.opened()
        self.settle()

    # --- completion ------------------------------------------------------------------------------

    def refused(self, xid: Xid) -> Condition | None:
        branch = self.known.get(xid)
        if branch is None:
            return UNKNOWN
        return ILLEGAL if branch.suspended else None

    @rule(xid=st.sampled_from(XIDS))
    def prepare(self, xid: Xid) -> None:
        result = self.completed(lambda: self.house.branches.prepare(xid, "guest"))
        wanted: Result | None = self.refused(xid)
        if wanted is None:
            branch = self.known[xid]
            wanted = branch.status
            if branch.prepared:
                wanted = ILLEGAL
            elif wanted is OK:
                branch.prepared, branch.deadline = True, None
            else:
                self.told(xid)
        assert result is wanted

    @rule(xid=st.sampled_from(XIDS), one_phase=st.booleans())
    def commit(self, xid: Xid, one_phase: bool) -> None:
        result = self.completed(lambda: self.house.branches.commit(xid, "guest", one_phase))
        wanted: Result | None = self.refused(xid)
        if wanted is None:
            branch = self.known[xid]
            wanted = branch.status
            if wanted is OK and branch.prepared is one_phase:
                wanted = ILLEGAL
            elif wanted is OK:
                self.ready.update((number, False) for _, number in branch.published)
                del self.known[xid]
            elif not branch.decided:
                self.told(xid)
        assert result is wanted

    def told(self, xid: Xid) -> None:
        """Its coordinator wanted to prepare or commit it, and heard that it is rolled back."""
        if self.known[xid].status is ROLLBACK:
            self.remember(xid)
        else:
            self.drop(xid)

    @rule(xid=st.sampled_from(XIDS))
    def rollback(self, xid: Xid) -> None:
        result = self.completed(lambda: self.house.branches.rollback(xid, "guest"))
        wanted: Result | None = self.refused(xid)
        if wanted is None:
            branch = self.known[xid]
            wanted = OK if branch.status is ROLLBACK else branch.status
            if not branch.decided:
                self.drop(xid)
        assert result is wanted

    @rule(xid=st.sampled_from(XIDS), commit=st.booleans())
    def decide(self, xid: Xid, commit: bool) -> None:
        result = self.completed(lambda: self.house.branches.decide(xid, commit))
        branch = self.known.get(xid)
        if branch is None:
            assert result is UNKNOWN
        elif not branch.prepared or branch.decided:
            assert result is ILLEGAL
        else:
            if commit:
                self.ready.update((number, False) for _, number in branch.published)
                branch.status = BranchStatus.HEURISTIC_COMMIT
            else:
                self.give_back(branch)
                branch.status = BranchStatus.HEURISTIC_ROLLBACK
            branch.published, branch.settled = [], []
            assert result is branch.status

    @rule(xid=st.sampled_from(XIDS))
    def forget(self, xid: Xid) -> None:
        def act() -> Result:
            self.house.branches.forget(xid, "guest")
            return OK

        result = self.outcome(act)
        branch = self.known.get(xid)
        if branch is None:
            assert result is UNKNOWN
        elif branch.decided:
            assert result is OK
            del self.known[xid]
        else:
            assert result is ILLEGAL
        self.settle()

    # --- time and crashes ------------------------------------------------------------------------

    @rule(xid=st.sampled_from(XIDS), seconds=st.sampled_from([0, 1, 10]))
    def set_timeout(self, xid: Xid, seconds: int) -> None:
        branch = self.known.get(xid)
        if branch is None:
            return
        found = self.house.branches.find(xid, "guest")
        found.set_timeout(seconds)
        assert found.seconds == seconds
        if not branch.prepared and not branch.over:
            branch.deadline = self.now + 1000 * seconds if seconds else None

    @rule(milliseconds=st.sampled_from([500, 1000, 9000, HOUR]))
    def wait(self, milliseconds: int) -> None:
        self.now += milliseconds
        self.house.broker.state.tick(self.now)
        for xid, branch in list(self.known.items()):
            if branch.deadline is None or branch.deadline > self.now:
                continue
            if branch.over and not branch.suspended:
                self.drop(xid)
                continue
            branch.status = TIMEOUT
            self.remember(xid)
        self.settle()

    @rule()
    def crash(self) -> None:
        """What was answered is there: prepared branches and ready messages."""
        self.house.store.abandon()
        for xid, branch in list(self.known.items()):
            if not branch.prepared:
                self.drop(xid)
        self.open()

    # --- agreement -------------------------------------------------------------------------------

    @invariant()
    def agrees(self) -> None:
        if not hasattr(self, "house"):
            return
        house, known = self.house, self.known
        assert house.branches.known.keys() == known.keys()
        prepared = {xid for xid, branch in known.items() if branch.prepared}
        assert set(house.branches.recover("guest")) == prepared
        for xid in prepared:
            shown = house.branches.known[xid].snapshot()
            counts = len(known[xid].published), len(known[xid].settled)
            assert (shown.publishes, shown.settlements) == counts
        queue = house.client.vhost.queues[QUEUE]
        assert queue.depth == len(self.ready)
        assert queue.unsettled == sum(len(branch.settled) for branch in known.values())
        assert set(house.numbers(QUEUE)) == self.ready.keys()

    def teardown(self) -> None:
        if not hasattr(self, "house"):
            return
        try:
            self.finish()
        finally:
            self.house.store.abandon()
            shutil.rmtree(self.folder)

    def finish(self) -> None:
        """End everything: nothing stays behind, in memory or on disk."""
        for index in (0, 1):
            self.close(index)
        for xid, branch in list(self.known.items()):
            if branch.decided:
                self.forget(xid)
            else:
                self.rollback(xid)
        self.agrees()
        while self.ready:
            self.take(0)
        while self.house.store.dirty:
            self.settle()
        assert self.house.broker.state.octets == self.house.branches.octets == 0
        self.house.store.abandon()
        self.house = Moving(self.folder)  # which counts what is there
        assert not self.house.store.records("branch")
        assert self.house.store.depths() == {}


OneHost.TestCase.settings = settings(
    max_examples=examples(60), stateful_step_count=40, deadline=None
)
TestOneHost = OneHost.TestCase

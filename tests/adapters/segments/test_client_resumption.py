"""A client of 0-10 whose connection is cut, anywhere: its session goes on over another one."""

import os
from typing import Any

import pytest

from gateway.adapters import Credentials, Role
from gateway.adapters.methods.content import BASIC
from gateway.adapters.options import Limits
from gateway.adapters.segments.engine import Engine
from gateway.errors import Condition
from gateway.message import Message, Properties
from gateway.operations import (
    AttachSession,
    BeginSession,
    Closed,
    Confirm,
    DeclareQueue,
    Deliver,
    Done,
    FindQueue,
    KeepSession,
    Open,
    Operation,
    Outcome,
    Publish,
    Refused,
    Returned,
    SelectConfirms,
    SessionLost,
    Settle,
    Subscribe,
)
from tests.adapters.segments.serving import LIMITS, Served
from tests.in_memory import octets

STEP = 1 if os.environ.get("THOROUGH") else 11
"""Octets between two cuts."""
BODIES = [b"one", b"", b"three" * 200, b"four"]


def message(body: bytes, key: str) -> Message:
    header = BASIC.write(Properties(content_type="text/plain"))
    return Message(BASIC, header, body, "", key, BASIC.essentials(header))


class Line:
    """A client and a server, and octets between them until a number of them have passed."""

    def __init__(self, beside: Served | None = None) -> None:
        self.client = Engine(
            "0-10",
            Role.CLIENT,
            credentials=Credentials("guest", "guest"),
            limits=Limits(heartbeat=0),
        )
        self.served = Served(LIMITS, beside=beside)
        self.found: list[Operation] = []
        self.client.send(Open("open", "/", "guest"))
        self.passed = 0
        self.pump()
        assert self.take(Done)[0].token == "open"

    def take(self, *kinds: type[Operation]) -> list[Any]:
        """Operations of the client of these kinds, taken out."""
        taken = [each for each in self.found if isinstance(each, kinds)]
        self.found = [each for each in self.found if not isinstance(each, kinds)]
        return taken

    def pump(self, until: int | None = None) -> bool:
        """Exchange octets until both are silent; false if the line was cut meanwhile."""
        while True:
            up = self._some(b"".join(self.client.output()), until)
            down = self.served.octets(up) if up else self.served.output()
            self.client.refill()
            if until is not None and self.passed >= until:
                return False
            down = self._some(down, until)
            if down:
                self.found += self.client.receive(down)
            self.found += self.client.found()
            if until is not None and self.passed >= until:
                return False
            if not up and not down:
                return True

    def _some(self, data: bytes, until: int | None) -> bytes:
        if until is not None:
            data = data[: until - self.passed]
            self.passed += len(data)
        return data

    def cut(self) -> Any:
        """Both lose the connection; the state of the session."""
        self.served.lose()
        self.found += self.client.lost()
        kept = self.take(KeepSession)
        (closed,) = self.take(Closed)
        assert closed.condition is Condition.CONNECTION_FORCED
        return kept[0].state if kept else None


class Application:
    """Publishes and consumes over a session; cares for no connection."""

    def __init__(self) -> None:
        self.steps: list[Any] = [
            DeclareQueue(1, "declared", "q"),
            SelectConfirms(1, "confirms"),
            Subscribe(1, "subscribed", "q", "c"),
            *(Publish(1, message(body, key="q"), False, False) for body in BODIES[:2]),
            Publish(1, message(b"lost", key="nowhere"), True, False),
            *(Publish(1, message(body, key="q"), False, False) for body in BODIES[2:]),
            FindQueue(1, "found", "q"),
        ]
        self.awaited: set[Any] = set()
        self.answers: dict[Any, Any] = {}
        self.confirmed: list[tuple[int, bool]] = []
        self.returned: list[bytes] = []
        self.received: list[bytes] = []

    @property
    def done(self) -> bool:
        return (
            not self.steps
            and not self.awaited
            and len(self.confirmed) == len(BODIES) + 1
            and len(self.received) == len(BODIES)
        )

    def act(self, line: Line) -> None:
        """React, and go on."""
        for each in line.take(Done, Deliver, Confirm, Returned):
            if isinstance(each, Done):
                assert each.token not in self.answers, "answered twice"
                self.answers[each.token] = each.result
                self.awaited.discard(each.token)
            elif isinstance(each, Deliver):
                self.received.append(octets(each.message))
                assert not each.redelivered
                line.client.send(Settle(1, each.delivery, False, Outcome.ACCEPT))
            elif isinstance(each, Returned):
                self.returned.append(octets(each.message))
            else:
                first = each.sequence
                if each.multiple:
                    first = self.confirmed[-1][0] + 1 if self.confirmed else 1
                self.confirmed += [(n, each.accepted) for n in range(first, each.sequence + 1)]
        assert not line.found, line.found
        while self.steps and not self.awaited:
            step = self.steps.pop(0)
            if not isinstance(step, Publish):
                self.awaited.add(step.token)
            line.client.send(step)


def attached(line: Line) -> None:
    line.client.send(AttachSession(1, "attach", seconds=60))
    line.pump()
    (done,) = line.take(Done)
    assert done.result == 60


def settled(line: Line) -> None:
    """Everything is delivered and accepted."""
    queue = line.served.broker.vhosts["/"].queues["q"]
    assert (queue.depth, queue.unsettled) == (0, 0)


def run(*cuts: int) -> int:
    """The application with cuts after so many octets, each counted from the last; the octets of the
    last line."""
    app, line = Application(), Line()
    attached(line)
    left, ready = [*cuts, 1 << 40], True
    line.passed = 0
    for _ in range(1000):
        if ready:
            app.act(line)
        if not line.pump(left[0]):
            left.pop(0)
            state, found = line.cut(), line.found
            line = Line(line.served)
            line.found += found
            line.client.send(AttachSession(1, "again", state=state))
            line.passed, ready = 0, False
            continue
        answers = [each for each in line.found if getattr(each, "token", "") == "again"]
        line.found = [each for each in line.found if each not in answers]
        ready = ready or any(isinstance(each, Done) for each in answers)
        if app.done and not line.found:
            break
    else:
        raise AssertionError((app.steps, app.awaited, app.confirmed, app.received))
    app.act(line)
    line.pump(1 << 40)
    assert app.received == BODIES
    assert app.returned == [b"lost"]
    assert sorted(app.confirmed) == [(number, True) for number in range(1, len(BODIES) + 2)]
    assert app.answers.keys() == {"declared", "confirms", "subscribed", "found"}
    settled(line)
    return line.passed


def test_without_a_cut() -> None:
    assert run() > 1000


LENGTH = run()


@pytest.mark.parametrize("part", range(4))
def test_cut_after_every_octet(part: int) -> None:
    for cut in range(1 + part * STEP, LENGTH, 4 * STEP):
        run(cut)


def test_cut_again_and_again() -> None:
    """Also while the session is being attached."""
    for count in range(23, 400, 7 if STEP > 1 else 1):
        run(*[count] * 30)


def test_a_server_that_has_forgotten_the_session() -> None:
    line = Line()
    attached(line)
    line.client.send(FindQueue(1, "under way", "q"))
    state = line.cut()
    line = Line()
    line.client.send(AttachSession(1, "again", state=state))
    line.pump()
    refused = line.take(Refused)
    assert {each.token for each in refused} == {"under way", "again"}
    assert {each.condition for each in refused} == {Condition.NOT_FOUND}
    (lost,) = line.take(SessionLost)
    assert lost.condition is Condition.NOT_FOUND and not line.found
    line.pump()
    line.client.send(BeginSession(2, "new"))
    line.pump()
    assert line.take(Done)


def test_a_session_without_a_timeout_is_not_kept() -> None:
    line = Line()
    line.client.send(BeginSession(1, "begin"))
    line.pump()
    line.take(Done)
    line.client.send(FindQueue(1, "under way", "q"))
    assert line.cut() is None
    (refused,) = line.take(Refused)
    assert refused.token == "under way"


def test_names_are_chosen_by_the_application() -> None:
    line = Line()
    line.client.send(AttachSession(1, "attach", b"mine", seconds=5))
    line.pump()
    other = Line(line.served)
    other.client.send(AttachSession(1, "attach", b"mine"))
    other.pump()
    (refused,) = other.take(Refused)
    assert refused.condition is Condition.RESOURCE_LOCKED
    other.take(SessionLost)
    other.client.send(AttachSession(2, "attach", b"mine", force=True))
    other.pump()
    assert other.take(Done)
    line.pump()
    (lost,) = line.take(SessionLost)
    assert lost.condition is Condition.RESOURCE_LOCKED

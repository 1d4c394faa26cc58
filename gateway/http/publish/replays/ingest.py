"""Publishing the messages of a replay: in their order, each once, no faster than it may be."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple

from gateway.bridge.pacing import Pace
from gateway.broker.local import MEMORY
from gateway.config.shovel_steps import RateSettings
from gateway.errors import Refusal
from gateway.http import problems
from gateway.http.access.principal import Principal
from gateway.http.context import Context
from gateway.http.portions import SLICE_SECONDS
from gateway.http.problems import Problem
from gateway.http.publish.addresses import Target
from gateway.http.publish.idempotency import KeyedPublish
from gateway.http.publish.replays.keys import KIND, Key, ReplayKeys, Scope, Source
from gateway.http.publish.results import problem_of
from gateway.http.publish.sending import Sender
from gateway.message import Message

BURST_SECONDS = 0.5
"""Messages of so many seconds may go at once after a pause."""
LEAST_PAUSE = 0.02
"""Seconds, in which the next few messages gather rather than one."""
MOST_PACES = 1000


class Replayed(NamedTuple):
    """A message of a replay, or its problem, and its target."""

    source: Source
    target: Target
    message: Message | Problem


class Replay(NamedTuple):
    """The caller of a request, and what it wants. ``rate``: messages per second, of all requests of
    this replay together. ``stop``: at the first message that is rejected."""

    caller: Principal
    vhost: str
    scope: Scope
    rate: float | None = None
    stop: bool = False


class Outcome:
    """What has become of the messages of a request, by their numbers in it. Those from
    ``attempted`` on are to be sent again; ``reason`` is why, if their time has not just run out."""

    def __init__(self, attempted: int) -> None:
        self.published: list[int] = []
        self.duplicates: list[int] = []
        self.rejected: dict[int, Problem] = {}
        self.attempted = attempted
        self.reason: Problem | None = None

    def end(self, attempted: int, reason: Problem | None = None) -> None:
        """Messages from ``attempted`` on are to be sent again."""
        if attempted < self.attempted:
            self.attempted, self.reason = attempted, reason

    def document(self) -> dict[str, Any]:
        rejected = sorted(self.rejected.items())
        shown: dict[str, Any] = {
            "attempted": self.attempted,
            "published": sum(at < self.attempted for at in self.published),
            "duplicates": [at for at in self.duplicates if at < self.attempted],
            "rejected": [
                {"index": at, "problem": one.document()}
                for at, one in rejected
                if at < self.attempted
            ],
        }
        if self.reason is not None:
            shown["reason"] = self.reason.document()
        return shown


class Started(NamedTuple):
    """A message that was handed to the broker."""

    number: int
    target: Target
    pending: KeyedPublish[Key]


class Ingest:
    """All replays. ``clock`` returns seconds."""

    def __init__(self, context: Context, sender: Sender) -> None:
        self.publisher = context.publisher
        self.broker = broker = context.broker
        self.counters = context.counters
        self.sender = sender
        self.settings = context.settings
        store = broker.state.store
        self.keys = ReplayKeys(
            store, lambda scope: store.forget_under(KIND, scope), self.settings.max_replay_blocks
        )
        self.keys.load(store.records(KIND))
        context.on_reload.append(self.take_settings)
        self.paces: dict[Scope, tuple[float, Pace]] = {}
        self.clock: Callable[[], float] = time.monotonic
        self.sleep: Callable[[float], Awaitable[None]] = asyncio.sleep

    def take_settings(self) -> None:
        self.keys.most = self.settings.max_replay_blocks

    def pace(self, replay: Replay) -> Pace | None:
        """The bucket that all requests of a replay share."""
        rate, pace = self.paces.pop(replay.scope, (0.0, None))
        if replay.rate is None:
            return None
        if pace is None or rate != replay.rate:
            settings = RateSettings(messages=replay.rate, burst_seconds=BURST_SECONDS)
            pace = Pace(settings, lambda: self.clock())
        if len(self.paces) >= MOST_PACES:
            del self.paces[next(iter(self.paces))]
        self.paces[replay.scope] = replay.rate, pace
        return pace

    async def run(self, replay: Replay, messages: Sequence[Replayed]) -> Outcome:
        """Publish the messages that were not published yet, in their order, until one has to
        wait for longer than the request may take."""
        outcome = Outcome(len(messages))
        if replay.vhost in self.broker.facades:
            for target in dict.fromkeys(one.target for one in messages):
                await self.sender.know(replay.vhost, target)
        started: list[Started] = []
        pace = self.pace(replay)
        until = self.clock() + self.settings.confirm_seconds / 2
        at = 0
        while at < outcome.attempted:
            at, pause = self.turn(replay, messages, at, pace, started, outcome)
            if pause and self.clock() + pause > until:
                outcome.end(at)
            elif at < outcome.attempted:
                await self.sleep(pause)
        await self.finish(replay, started, outcome)
        return outcome

    def turn(
        self,
        replay: Replay,
        messages: Sequence[Replayed],
        at: int,
        pace: Pace | None,
        started: list[Started],
        outcome: Outcome,
    ) -> tuple[int, float]:
        """As many messages as one turn of the broker may take, from ``at`` on. Where to go on, and
        the pause until then, in seconds."""
        first, pause = len(started), 0.0
        until = time.monotonic() + SLICE_SECONDS
        self.publisher.begin()
        try:
            while at < outcome.attempted and time.monotonic() < until:
                one = messages[at]
                if self.keys.published(replay.scope, one.source):
                    outcome.duplicates.append(at)
                    at += 1
                    continue
                if pace is not None:
                    admitted, pause = pace.admit([one.message])  # type: ignore[list-item]
                    if not admitted:
                        pause = max(pause, LEAST_PAUSE)
                        break
                self.start(replay, at, one, started, outcome)
                at += 1
        finally:
            self.keys.flush()
            if not self.is_forwarded(replay):
                waiting = [one.pending for one in started[first:]]
                self.broker.when_safe(lambda: all_safe(waiting))
            self.publisher.end()
        return at, pause

    def is_forwarded(self, replay: Replay) -> bool:
        """Whether an upstream has the queues."""
        return replay.vhost in self.broker.facades

    def start(
        self, replay: Replay, at: int, one: Replayed, started: list[Started], outcome: Outcome
    ) -> None:
        """Within a turn."""
        try:
            self.publisher.check_open(replay.vhost)
            message = self.checked(replay, one)
            pending = self.publish(replay, one, message)
        except Problem as problem:
            if problem.row.retry_after:
                outcome.end(at, problem)
                return
            outcome.rejected[at] = problem
        except Refusal as refusal:
            outcome.rejected[at] = one.target.refused(refusal)
        else:
            started.append(Started(at, one.target, pending))
            if pending.taken:
                return
            if pending.condition is None:  # nothing may overtake it
                outcome.end(at, problem_of_full())
        if replay.stop:
            outcome.end(at + 1)

    def checked(self, replay: Replay, one: Replayed) -> Message:
        """The message, if this caller may publish it. Raises ``Problem``."""
        message = one.message
        if isinstance(message, Problem):
            raise message
        one.target.permit(replay.caller, replay.vhost, message)
        expiry = message.essentials.expiry
        if expiry is not None and expiry <= self.broker.state.now:
            text = "the absolute expiry time of the message has passed"
            raise Problem(problems.REFUSED, text)
        return message

    def publish(self, replay: Replay, one: Replayed, message: Message) -> KeyedPublish[Key]:
        """Raises ``Problem`` and ``Refusal``: its key is free then."""
        forwarded = self.is_forwarded(replay)
        channel = self.publisher.channel(replay.vhost, replay.caller.user)
        key = self.keys.claim(replay.scope, one.source)
        meter = self.publisher.meter
        pending = KeyedPublish(self.keys, key, meter, self.record if forwarded else None)
        try:
            channel.publish(message, pending)
        except BaseException:
            self.keys.abandon(key)
            raise
        if not pending.taken:
            pending.refused()
        elif pending.durability != MEMORY and not forwarded:
            self.keys.sent(key)
        return pending

    def record(self, pending: KeyedPublish[Key]) -> None:
        """An upstream has confirmed a message: save its key."""
        self.keys.sent(pending.entry)
        self.keys.flush()
        self.broker.when_safe(pending.record_safe)

    async def finish(self, replay: Replay, started: list[Started], outcome: Outcome) -> None:
        """Wait for the outcomes."""
        until = self.clock() + self.settings.confirm_seconds
        for index, target, pending in started:
            if not pending.taken and pending.accepted is None:
                pending.accepted = False  # its confirm waits for those of others
            await self.publisher.wait(pending, max(0.0, until - self.clock()))
            problem = problem_of(pending, target, self.settings.confirm_seconds, True)
            if problem is None:
                outcome.published.append(index)
            elif pending.condition is None:
                outcome.end(index, problem)
            else:
                outcome.rejected[index] = problem
                self.counters.returned[replay.vhost] += 1
        self.counters.published[replay.vhost] += len(outcome.published)


def problem_of_full() -> Problem:
    return Problem(problems.FULL, "a queue is full and rejects new messages")


def all_safe(waiting: list[KeyedPublish[Key]]) -> None:
    for pending in waiting:
        pending.record_safe()

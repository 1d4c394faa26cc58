"""The order of what one connection says: on a channel, answers come in the order of the requests.

An answer that waits for the store holds back the answers behind it on its channel. Requests whose
only effect that the peer can see is their answer are performed meanwhile, so that declarations that
come together share one commit. All others are deferred: a fetch takes a message, a confirm may not
overtake what was returned, the end of the channel silences it.
"""

from collections import deque
from collections.abc import Callable
from functools import partial

from gateway.broker.broker import Broker
from gateway.broker.channel import Channel
from gateway.operations import (
    Acknowledge,
    Assure,
    AttachSource,
    AttachTarget,
    Bind,
    CloseDestination,
    Commit,
    Continue,
    Credit,
    DeclareExchange,
    DeclareQueue,
    DeclareTransaction,
    DeleteExchange,
    DeleteQueue,
    DetachLink,
    Discharge,
    EndSubscription,
    EnterRealm,
    FindQueue,
    GiveBack,
    Listen,
    Manage,
    Modify,
    OpenDestination,
    Operation,
    Post,
    Prefetch,
    Prepare,
    Publish,
    PurgeQueue,
    Retire,
    RetireMany,
    Rollback,
    Select,
    SelectConfirms,
    SendTo,
    SessionLost,
    Settle,
    SettleMany,
    Subscribe,
    Synchronize,
    Unbind,
    Unsubscribe,
)

Say = Callable[[], None]

PERFORMED: frozenset[type[Operation]] = frozenset(
    [
        Acknowledge, Assure, AttachSource, AttachTarget, Bind, CloseDestination, Commit, Continue,
        DeclareExchange, DeclareQueue, DeclareTransaction, DeleteExchange, DeleteQueue, DetachLink,
        Discharge, EndSubscription, EnterRealm, FindQueue, GiveBack, Listen, Manage, Modify,
        OpenDestination, Post, Prefetch, Prepare, PurgeQueue, Retire, RetireMany,
        Rollback, Select, SelectConfirms, SendTo, SessionLost, Settle, SettleMany, Subscribe,
        Synchronize, Unbind, Unsubscribe,
    ]
)  # fmt: skip
"""Performed while earlier answers of their channel wait. Deliveries to a consumer begin with the
answer to its request, and what comes back keeps its place among the answers."""

MOST_OCTETS = 8 << 20
"""Octets of messages that came back and wait behind an answer, after which publishes wait too."""


class PendingAnswer:
    """Something to be said when its turn comes. ``safe``: it does not wait for the store;
    ``holds``: operations behind it may have to wait for it."""

    __slots__ = ("say", "safe", "holds")

    def __init__(self, say: Say, safe: bool, holds: bool) -> None:
        self.say = say
        self.safe = safe
        self.holds = holds


class ChannelReplies:
    """One channel on which an answer waits: the answers, and the deferred operations behind.
    ``holding``: answers that operations may have to wait for."""

    __slots__ = ("answers", "deferred", "holding", "octets", "kept")

    def __init__(self) -> None:
        self.answers: deque[PendingAnswer] = deque()
        self.deferred: list[Operation] = []
        self.holding = 0
        self.octets = 0
        self.kept = False
        """A request is being performed over several turns: all others wait."""

    def defers(self, operation: Operation, channel: Channel | None) -> bool:
        """Whether this operation waits for the answers."""
        kind = operation.__class__
        if isinstance(operation, SessionLost) and operation.token is None:
            return False
        if self.deferred or self.kept:
            return True
        if not self.holding:
            return False
        if kind is Publish:
            # A confirm may not overtake what comes back, which keeps its place.
            confirmed = channel is not None and channel.publish_path.confirms is not None
            return confirmed or self.octets > MOST_OCTETS
        if isinstance(operation, Credit):
            return operation.drain
        return kind not in PERFORMED


class Replies:
    """Answers and deferred operations of one connection.

    ``ready`` is called when deferred operations may be performed: soon, ``take`` gives them, or
    when the last answer is said and nothing is deferred any more."""

    def __init__(self, broker: Broker, ready: Callable[[], None]) -> None:
        self.lines: dict[int, ChannelReplies] = {}
        """By channel; only those on which an answer waits or an operation is deferred."""
        self.deferred = 0
        """Operations, over all channels."""
        self._broker = broker
        self._ready = ready

    # --- answers --------------------------------------------------------------------------------

    def when_safe(self, channel: int, say: Say, holds: bool = True) -> None:
        """Say it when the store has all that was done so far, behind what waits on the channel.
        ``holds``: operations that come later may have to wait for it."""
        line = self.lines.get(channel)
        if line is None:
            line = self.lines[channel] = ChannelReplies()
        answer = PendingAnswer(say, False, holds)
        line.holding += holds
        line.answers.append(answer)
        self._broker.when_safe(partial(self._safe, channel, line, answer))

    def keep(self, channel: int) -> Callable[[], None]:
        """All operations on this channel wait, until what is given here is called."""
        line = self.lines.get(channel)
        if line is None:
            line = self.lines[channel] = ChannelReplies()
        line.kept = True
        return partial(self._free, channel, line)

    def _free(self, channel: int, line: ChannelReplies) -> None:
        line.kept = False
        if self.lines.get(channel) is not line or line.answers:
            return
        if not line.deferred:
            del self.lines[channel]
        if line.deferred or not self.lines:
            self._ready()

    def in_order(self, channel: int, say: Say, octets: int = 0) -> None:
        """Say it behind what waits on the channel: now, if nothing does. ``octets``: what it keeps
        in memory."""
        line = self.lines.get(channel)
        if line is None or not line.answers:
            say()
        else:
            line.answers.append(PendingAnswer(say, True, False))
            line.octets += octets

    def _safe(self, channel: int, line: ChannelReplies, answer: PendingAnswer) -> None:
        answer.safe = True
        answers = line.answers
        if self.lines.get(channel) is not line or answers[0] is not answer:
            return
        while answers and answers[0].safe:
            # It stays in its place while it is said: what saying it brings about comes behind it.
            answers[0].say()
            if self.lines.get(channel) is not line:
                return
            line.holding -= answers.popleft().holds
        if answers:
            return
        line.octets = 0
        if line.kept:
            return
        if not line.deferred:
            del self.lines[channel]
        if line.deferred or not self.lines:
            self._ready()

    # --- operations -----------------------------------------------------------------------------

    def defer(self, operation: Operation, channels: dict[int, Channel]) -> bool:
        """Whether this operation has to wait, and will be among those that ``take`` gives."""
        number = getattr(operation, "channel", None)
        line = None if number is None else self.lines.get(number)
        if line is None or number is None or not line.defers(operation, channels.get(number)):
            return False
        line.deferred.append(operation)
        self.deferred += 1
        return True

    def put_off(self, channel: int, operation: Operation) -> Callable[[], None]:
        """An operation whose turn it is, and all that follow on its channel, wait until what is
        given here is called."""
        free = self.keep(channel)
        self.lines[channel].deferred.insert(0, operation)
        self.deferred += 1
        return free

    def take(self) -> list[Operation]:
        """Deferred operations of the channels on which no answer waits any more, in their order."""
        found: list[Operation] = []
        for channel, line in list(self.lines.items()):
            if not line.answers and not line.kept:
                found += self.forget(channel)
        return found

    def forget(self, channel: int) -> list[Operation]:
        """The channel is over: its answers can not be said any more. Gives what was deferred."""
        line = self.lines.pop(channel, None)
        if line is None:
            return []
        self.deferred -= len(line.deferred)
        return line.deferred

    def forget_all(self) -> list[Operation]:
        """The connection is over: likewise, of all channels."""
        return [operation for channel in list(self.lines) for operation in self.forget(channel)]

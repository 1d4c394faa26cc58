"""Taking messages for callers: at once, after a wait, or again for an attempt that is repeated."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

from starlette.types import Scope

from gateway.broker.broker import Broker
from gateway.broker.local import LocalChannel, LocalClient
from gateway.errors import Condition, Refusal
from gateway.http import problems
from gateway.http.access.principal import Action, Principal
from gateway.http.context import Context
from gateway.http.leases import Lease, LeaseState, Owner
from gateway.http.path_segments import decode_segment
from gateway.http.problems import Problem
from gateway.http.receive.channels import (
    ReceiveChannel,
    ReceiveChannels,
    TakenMessage,
    Wait,
)
from gateway.http.receive.requests import Receive
from gateway.http.request_parameters import read_caller
from gateway.operations import Outcome

Key = tuple[str, str, Owner, str]
"""Virtual host, queue, owner, and the value of ``Receive-Attempt-Id``."""


@dataclass(slots=True, eq=False)
class ReceiveAttempt:
    """A receive that may be repeated while one of its leases runs. ``round`` counts answers."""

    attempts: "dict[Key, ReceiveAttempt]"
    key: Key
    leases: list[Lease] = field(default_factory=list)
    round: int = 0
    waiting: Wait | None = None
    due: int | None = None

    def open_leases(self) -> list[Lease]:
        for lease in self.leases:
            lease.table.look_at(lease)
        return [lease for lease in self.leases if lease.state is LeaseState.OPEN]

    def end(self) -> None:
        if self.attempts.get(self.key) is self:
            del self.attempts[self.key]

    def on_due(self) -> None:
        open_leases = self.open_leases()
        if open_leases:
            first = open_leases[0]
            first.table.state.schedule(self, max(lease.until for lease in open_leases) + 1)
        elif self.waiting is None:
            self.end()


class ReceiveRequest(NamedTuple):
    """One receive. ``attempt_id`` is "" unless it may be repeated."""

    principal: Principal
    vhost: str
    queue: str
    asked: Receive
    attempt_id: str


@dataclass(slots=True, eq=False)
class Batch:
    """The deliveries of one receive: ``leases`` in mode "lease"; in mode "auto" ``taken``, which
    are accepted when the answer has been written. ``written`` or ``hang_up`` ends it."""

    call: ReceiveRequest
    receive_channel: ReceiveChannel
    leases: list[Lease] = field(default_factory=list)
    taken: list[TakenMessage] = field(default_factory=list)
    attempt: ReceiveAttempt | None = None
    round: int = 0

    def written(self) -> None:
        """The answer has left. Within a turn."""
        for taken in self.taken:
            self.receive_channel.settle(taken.delivery, Outcome.ACCEPT)
        self.taken.clear()

    def give_back(self, found: list[TakenMessage]) -> None:
        for taken in found:
            self.receive_channel.settle(taken.delivery, Outcome.RELEASE)
        found.clear()

    def hang_up(self) -> None:
        """The answer was not delivered: everything goes back, unless a later round of the same
        attempt answers with it. Within a turn."""
        self.give_back(self.taken)
        attempt = self.attempt
        if attempt is not None and attempt.round != self.round:
            return
        for lease in self.leases:
            if lease.state is LeaseState.OPEN:
                lease.table.settle(lease, LeaseState.LOST, Outcome.RELEASE, None)
        if attempt is not None:
            attempt.end()


class Receiver:
    """Made once per gateway."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.dependencies = context.dependencies
        self.broker: Broker = context.broker
        self.settings = context.settings
        self.leases = context.leases
        self.receive_channels = ReceiveChannels(self.broker)
        self.attempts: dict[Key, ReceiveAttempt] = {}
        self.closing = False
        self.hang_ups = 0
        """Answers whose caller had disconnected."""

    async def close(self) -> None:
        """Everything leased goes back to its queue."""
        self.closing = True
        with self.dependencies.turn():
            self.receive_channels.close()

    # --- access to queues -----------------------------------------------------------------------

    async def authorize(self, scope: Scope, action: Action) -> tuple[Principal, str, str]:
        """The caller, virtual host and queue of a request. Raises ``Problem``, also if the caller
        may not do this."""
        principal, vhost = await read_caller(self.context, scope)
        queue = decode_segment(scope["path_params"]["queue"])
        principal.need(self.broker, action, vhost, "queue", queue)
        return principal, vhost, queue

    @contextmanager
    def reading(self, vhost: str, user: str) -> Iterator[LocalChannel]:
        """A channel within one turn. Raises ``Refusal``."""
        client = LocalClient(self.broker, vhost, user, f"HTTP reader of {user}")
        try:
            yield client.channel()
        finally:
            client.close()

    # --- receiving ------------------------------------------------------------------------------

    def begin(self, call: ReceiveRequest) -> tuple[Batch, Wait | None]:
        """The deliveries at hand, or a wait for some. Within a turn. Raises ``Problem`` and
        ``Refusal``."""
        owner = call.principal.identity
        most = self.room(owner, call.asked)
        batch = Batch(call, self.receive_channels.of(call.vhost, call.principal.user))
        attempt = None
        if call.attempt_id:
            attempt = self.attempt((call.vhost, call.queue, owner, call.attempt_id))
            batch.attempt, batch.round = attempt, attempt.round
            batch.leases = attempt.open_leases()
            if batch.leases:
                return batch, None
        try:
            found, waiting = self.take(batch, most)
            if waiting is None:
                self.hold(batch, found)
                return batch, None
        except (Problem, Refusal):
            if attempt is not None:
                attempt.end()
            raise
        if attempt is not None:
            attempt.waiting = waiting
        return batch, waiting

    def take(self, batch: Batch, most: int) -> tuple[list[TakenMessage], Wait | None]:
        """The messages at hand, or a wait if there are none. Raises ``Problem`` and ``Refusal``."""
        call, asked, receive_channel = batch.call, batch.call.asked, batch.receive_channel
        queue, octets = call.queue, self.settings.receive_octets
        wanted = asked.wanted()
        if wanted or asked.max_deliveries is not None:
            self.check_waits(call.principal)
            seeking = receive_channel.seek(queue, wanted, asked, most, octets)
            if seeking.taken or not (seeking.searching or asked.wait_ms):
                return receive_channel.stop(seeking), None
            return [], seeking
        found = receive_channel.fetch(queue, most, octets)
        if found or not asked.wait_ms:
            return found, None
        self.check_waits(call.principal)
        return [], receive_channel.wait(queue, most, octets, self.broker.state.now + asked.wait_ms)

    def check_waits(self, principal: Principal) -> None:
        """Raises ``Problem``."""
        if self.receive_channels.waiting(principal.user) >= self.settings.max_receives_per_user:
            raise Problem(problems.QUOTA, "this user has too many receives waiting")

    def room(self, owner: Owner, asked: Receive) -> int:
        """How many this caller may still have. Raises ``Problem``."""
        if self.closing:
            raise Problem(problems.DRAINING, "the gateway is shutting down")
        left = self.settings.max_leases_per_user - self.leases.per_owner[owner]
        if left <= 0:
            raise Problem(
                problems.QUOTA,
                f"{self.settings.max_leases_per_user} deliveries are leased already",
            )
        return min(asked.max, left)

    def attempt(self, key: Key) -> ReceiveAttempt:
        """The attempt as it stands, one round further: an earlier one that still waits ends."""
        attempt = self.attempts.get(key)
        if attempt is None:
            attempt = self.attempts[key] = ReceiveAttempt(self.attempts, key)
        attempt.round += 1
        if attempt.waiting is not None:
            attempt.waiting.alarm.ring()
            attempt.waiting = None
        return attempt

    def finish(self, batch: Batch, waiting: Wait) -> None:
        """The wait is over. Within a turn. Raises ``Problem`` and ``Refusal``."""
        attempt = batch.attempt
        if attempt is not None and attempt.waiting is waiting:
            attempt.waiting = None
        found = batch.receive_channel.stop(waiting)
        try:
            if self.closing:
                raise Problem(problems.DRAINING, "the gateway is shutting down")
            if waiting.gone or batch.receive_channel.dead:
                raise Refusal(Condition.NOT_FOUND, f"queue '{batch.call.queue}' was deleted")
            self.may_still(batch.call)
        except (Problem, Refusal):
            batch.give_back(found)
            raise
        if attempt is not None and attempt.round != batch.round:
            # A later round has taken over, and it is the one that answers.
            batch.give_back(found)
            return
        self.hold(batch, found)

    def may_still(self, call: ReceiveRequest) -> None:
        """A long wait outlives credentials and permissions. Raises ``Problem``."""
        principal = call.principal
        principal.need(self.broker, Action.RECEIVE, call.vhost, "queue", call.queue)
        if not self.context.authenticator.still_good(principal, self.broker.state.now / 1000):
            raise problems.challenge("The credentials have ended meanwhile.")

    def abandon(self, batch: Batch, waiting: Wait) -> None:
        """The caller hung up while waiting. Within a turn."""
        if batch.attempt is not None and batch.attempt.waiting is waiting:
            batch.attempt.end()
        batch.give_back(batch.receive_channel.stop(waiting))
        self.hang_ups += 1

    def hold(self, batch: Batch, found: list[TakenMessage]) -> None:
        """Lease the messages, or (mode "auto") keep them until the answer is written."""
        call, attempt = batch.call, batch.attempt
        if call.asked.mode == "auto":
            batch.taken = found
            return
        owner, lease_ms = call.principal.identity, call.asked.lease_ms
        # Several waits may have been let in for the last free places.
        left = max(0, self.settings.max_leases_per_user - self.leases.per_owner[owner])
        batch.give_back(found[left:])
        batch.leases += [
            self.leases.grant(
                Lease(
                    self.leases,
                    batch.receive_channel,
                    call.vhost,
                    call.queue,
                    owner,
                    taken.delivery,
                    taken.count,
                    lease_ms,
                )
            )
            for taken in found[:left]
        ]
        if attempt is None:
            return
        attempt.leases = list(batch.leases)
        if batch.leases:
            self.broker.state.schedule(attempt, self.broker.state.now + lease_ms + 1)
        else:
            attempt.end()

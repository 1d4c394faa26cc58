"""``POST /v1/{vhost}/requests``: publish a request, wait for its reply, answer with it.

Each request has a channel with a direct reply address of its own (``broker.replies``): a message
there is the reply, whatever its correlation id, and the caller's own id travels untouched. The
address outlives its caller for a while, to count late replies.

With ``Prefer: respond-async`` the answer is an operation, which holds the reply when it has come.
"""

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from starlette.types import Receive, Scope, Send

from gateway.bodies import Body
from gateway.bridge.waiting import Turn, until_answered
from gateway.broker.local import LocalChannel, LocalClient
from gateway.broker.replies import REPLY_TO
from gateway.errors import Condition, Refusal
from gateway.http import prepared_bodies, problems
from gateway.http.fields import READERS, BadField, read_properties, write_identifier
from gateway.http.identifiers import uuid7
from gateway.http.leases import tally
from gateway.http.observe.trace import stamp
from gateway.http.octets import Octets, send_answer
from gateway.http.problems import Problem
from gateway.http.publish.addresses import Target, read_address
from gateway.http.publish.form_reader import FORM
from gateway.http.publish.operations import Operations
from gateway.http.publish.preferences import read_preferences
from gateway.http.publish.results import Answer, answer_of, problem_answer
from gateway.http.publish.templates import DIALECT, encode
from gateway.http.receive.deliveries import hung_up
from gateway.http.receive.receiver import Receiver
from gateway.http.receive.requests import Query
from gateway.http.receive.views import encoded_fields, message_json, raw_fields
from gateway.http.receive.waiting import Alarm
from gateway.http.request_parameters import read_caller, read_limited, read_query
from gateway.message import DIALECTS, Message

MOST_LINGERING = 10_000
"""Reply addresses whose caller has gone, of all users."""
LONGEST_WAIT = 120
REPLY = f"{FORM}; view=simple"
"""How an operation shows its reply."""


@dataclass(slots=True, eq=False)
class PendingRequest:
    """One request: its channel, the outcome of its publish, and its reply. ``due`` is the time
    at which the reply address of a caller that has gone is removed."""

    calls: "PendingRequests"
    client: LocalClient
    alarm: Alarm
    channel: LocalChannel = field(init=False)
    reply: Message | None = None
    accepted: bool | None = None
    condition: Condition | None = None
    prepared: bool = False
    """It has a place for its reply."""
    late: bool = False
    lost: bool = False
    due: int | None = None

    def __post_init__(self) -> None:
        self.channel = self.client.channel(self)

    def publish(self, message: Message) -> None:
        """May raise ``AwaitsUpstream``; then it is to be called again."""
        if not self.prepared:
            self.channel.start(self.channel.subscribe(REPLY_TO, no_ack=True))
            self.prepared = True
        self.channel.publish(message, self)

    def on_due(self) -> None:
        self.calls.clear(self)

    # --- subscriber and outcome -----------------------------------------------------------------

    def deliver(self, consumer: str, delivery: int, redelivered: bool, message: Message) -> None:
        if self.late:
            self.calls.late += 1
        elif self.reply is None:
            self.reply = message
            self.alarm.ring()

    def settle(self, accepted: bool) -> None:
        self.accepted = accepted
        if not accepted:
            self.alarm.ring()

    def returned(self, condition: Condition, text: str) -> None:
        self.condition = condition
        self.alarm.ring()

    def lose(self) -> None:
        self.lost = True
        self.alarm.ring()

    def cancelled(self, tag: str) -> None:
        self.alarm.ring()


class SentRequest(NamedTuple):
    """A call, where its request went, the id of the request as a field value, and the time limit
    for the reply."""

    call: PendingRequest
    target: Target
    shown: str
    seconds: float

    @property
    def header(self) -> tuple[bytes, bytes]:
        """Of every answer."""
        return b"amqp-request-id", self.shown.encode("latin-1")


class PendingRequests:
    """All requests of this gateway."""

    def __init__(self, receiver: Receiver) -> None:
        self.broker = receiver.broker
        self.settings = receiver.settings
        self.clients: dict[tuple[str, str], LocalClient] = {}
        self.waiting: Counter[str] = Counter()
        self.open: dict[PendingRequest, None] = {}
        """Those whose caller waits."""
        self.lingering: dict[PendingRequest, None] = {}
        self.late = 0
        """Replies that came too late."""
        self.timeouts = 0
        self.replied = 0

    async def begin(
        self, turn: Turn, vhost: str, user: str, message: Message, seconds: float
    ) -> PendingRequest:
        """Publish it. Raises ``Problem`` and ``Refusal``; then nothing was sent."""
        if self.waiting[user] >= self.settings.max_requests_per_user:
            raise Problem(problems.QUOTA, "this user has too many requests waiting for replies")
        with turn():
            client = self.clients.get((vhost, user))
            if client is None or client.closed:
                client = LocalClient(self.broker, vhost, user, f"HTTP requests of {user}")
                self.clients[vhost, user] = client
                client.ended = partial(self.lose, client)
            until = self.broker.state.now + int(seconds * 1000)
            call = PendingRequest(self, client, Alarm(self.broker.state, until))
            stamp(message)
        self.waiting[user] += 1
        self.open[call] = None
        try:
            await until_answered(turn, lambda: call.publish(message), lambda: call.channel)
        except BaseException:
            tally(self.waiting, user, -1)
            self.open.pop(call, None)
            with turn():
                call.channel.close()
            raise
        return call

    def lose(self, client: LocalClient) -> None:
        """Its virtual host is gone, or the gateway stops: no reply will come."""
        for call in self.open:
            if call.client is client:
                call.lose()

    def end(self, call: PendingRequest) -> None:
        """The caller waits no longer. Within a turn."""
        user = call.client.user
        tally(self.waiting, user, -1)
        self.open.pop(call, None)
        call.late = True
        known = call.reply is not None or call.condition is not None or call.accepted is False
        if known or call.lost:
            call.channel.close()
            return
        self.lingering[call] = None
        self.broker.state.schedule(
            call, self.broker.state.now + int(self.settings.late_reply_seconds * 1000)
        )
        if len(self.lingering) > MOST_LINGERING:
            self.clear(next(iter(self.lingering)))

    def clear(self, call: PendingRequest) -> None:
        if self.lingering.pop(call, call) is None:
            call.channel.close()

    def close(self) -> None:
        """Within a turn."""
        for client in list(self.clients.values()):
            client.close()
        self.clients.clear()
        self.lingering.clear()


class TargetQuery(Query):
    """``to``: the target of the request."""

    to: str


class RequestReplyEndpoint:
    def __init__(self, receiver: Receiver, calls: PendingRequests, operations: Operations) -> None:
        self.receiver = receiver
        self.calls = calls
        self.context = receiver.context
        self.dependencies = receiver.dependencies
        self.operations = operations
        self.__name__ = "request_reply"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        principal, vhost = await read_caller(self.context, scope)
        target = read_address(read_query(scope["query_string"], TargetQuery).to)
        target.permit(principal, vhost)
        given = [value for name, value in scope["headers"] if name == b"prefer"]
        preferences = read_preferences(b", ".join(given))
        later = "respond-async" in preferences
        self.check_open()
        if later:
            self.operations.check_room(principal, vhost)
        self.dependencies.begin_turn()  # for the time in the id
        try:
            shown, header = self.prepare(scope)
        except BadField as error:
            raise Problem(problems.INVALID_FIELD, str(error), field=error.name) from None
        body = await read_limited(scope, receive, self.dependencies.settings.max_body_octets)
        dialect = DIALECTS[DIALECT]
        message = Message(
            dialect, header, body, target.exchange, target.key, dialect.essentials(header)
        )
        target.permit(principal, vhost, message)
        wait = preferences.get("wait")
        patience = float(min(wait, LONGEST_WAIT)) if isinstance(wait, int) else None
        settings = self.dependencies.settings
        if later:
            seconds = settings.async_reply_seconds
        else:
            seconds = settings.reply_seconds if patience is None else patience
        turn = self.dependencies.turn
        call = await self.calls.begin(turn, vhost, principal.user, message, seconds)
        asked = SentRequest(call, target, shown, seconds)
        if later:
            applied = "respond-async" + ("" if patience is None else f", wait={patience:g}")
            work = self.reply_later(asked, scope["path"])
            more = [asked.header, (b"preference-applied", applied.encode())]
            answer = await self.operations.run(principal, vhost, work, patience or 0.0, more)
            await send_answer(send, *answer)
            return
        gone = asyncio.create_task(hung_up(receive))
        try:
            await self.wait(call, gone)
        finally:
            gone.cancel()
        if call.alarm.future.done():
            await send_answer(send, *await self.reply_now(asked))

    # --- the request ----------------------------------------------------------------------------

    def check_open(self) -> None:
        broker = self.context.broker
        if self.receiver.closing:
            raise Problem(problems.DRAINING, "the gateway is shutting down")
        if broker.blocked is not None:
            raise Problem(problems.BACKPRESSURE, f"publishers are paused: {broker.blocked}")

    def prepare(self, scope: Scope) -> tuple[str, bytes]:
        """The id as a field value, and the encoded properties. Raises ``BadField``, ``Problem``."""
        given = [
            pair for pair in scope["headers"] if pair[0] in READERS or pair[0].startswith(b"amqp-")
        ]
        properties = read_properties(given)
        if properties.reply_to is not None:
            raise BadField("amqp-reply-to", "is the gateway's own here: it waits for the reply")
        if properties.message_id is None:
            properties.message_id = uuid7(self.context.broker.state.now)
        if properties.correlation_id is None:
            properties.correlation_id = properties.message_id
        properties.reply_to = REPLY_TO
        return write_identifier(properties.message_id), encode(properties)[0]

    async def wait(self, call: PendingRequest, *others: "asyncio.Task[None]") -> None:
        """Until its alarm rings, or one of the others is done."""
        try:
            if not call.alarm.future.done():
                await asyncio.wait(
                    (call.alarm.future, *others), return_when=asyncio.FIRST_COMPLETED
                )
        finally:
            with self.dependencies.turn():
                self.calls.end(call)

    # --- the reply ------------------------------------------------------------------------------

    async def reply_later(self, asked: SentRequest, instance: str) -> Answer:
        """The reply as JSON, or a problem document."""
        await self.wait(asked.call)
        reply = asked.call.reply
        if reply is None:
            return problem_answer(self.no_reply(asked), instance)
        self.calls.replied += 1
        async with prepared_bodies.ready([reply]):
            body = message_json(reply, "simple", "auto", 1)
        return answer_of(200, REPLY, body, [asked.header])

    async def reply_now(
        self, asked: SentRequest
    ) -> tuple[int, list[tuple[bytes, bytes]], Body | Octets]:
        """The body of the reply as it is, or its full view in JSON. Raises ``Problem``."""
        reply = asked.call.reply
        if reply is None:
            raise self.no_reply(asked)
        self.calls.replied += 1
        pairs = raw_fields(reply, 1)
        body: Body | Octets = reply.body
        if pairs is None:
            pairs = [("content-type", "application/json"), ("amqp-view", "full")]
            async with prepared_bodies.ready([reply], "full"):
                body = message_json(reply, "full", "auto", 1)
        return 200, [*encoded_fields(pairs, body), asked.header], body

    def no_reply(self, asked: SentRequest) -> Problem:
        """The reason why there is no reply, and the outcome of the request."""
        call, target, shown, seconds = asked
        if call.condition is Condition.NO_ROUTE:
            return target.missing() if target.queue else target.unrouted()
        if call.condition is not None:
            return problems.of_refusal(Refusal(call.condition, call.condition.name))
        if call.accepted is False:
            return Problem(problems.FULL, "a queue is full and rejects new messages")
        if self.receiver.closing:
            return Problem(problems.DRAINING, "the gateway is shutting down",
                           outcome="accepted" if call.accepted else "unknown",
                           safe_to_retry=False)  # fmt: skip
        headers = {"amqp-request-id": shown}
        if call.lost:
            row = problems.LOST._replace(
                outcome="accepted" if call.accepted else "unknown", safe_to_retry=False
            )
            return Problem(row, "the virtual host was deleted", headers=headers)
        self.calls.timeouts += 1
        if call.accepted:
            text = f"the request was accepted, and no reply came within {seconds:g} s"
            return Problem(problems.REPLY_TIMEOUT, text, headers=headers)
        text = f"no reply came within {seconds:g} s, and whether the request is stored is unknown"
        row = problems.REPLY_TIMEOUT._replace(outcome="unknown")
        return Problem(row, text, headers=headers)

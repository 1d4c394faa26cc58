"""Dead letters that go back: chosen, at a pace, each one in one step.

A message is published where it goes and taken out of here in one batch of the store: after a crash
it is in one place or the other. A message that a consumer takes meanwhile is not sent.
"""

import asyncio
from dataclasses import dataclass, field
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from gateway.broker.browsing import Place, Seen
from gateway.broker.local import LocalChannel
from gateway.errors import Refusal
from gateway.http import problems
from gateway.http.access.principal import Action, Principal
from gateway.http.message_json import readable_properties
from gateway.http.problems import Problem
from gateway.http.receive.browsing import NO_STORE, read_place, write_place
from gateway.http.receive.receiver import Receiver
from gateway.http.receive.requests import (
    DeadLetterFilter,
    Query,
    Redrive,
    Target,
    read_request,
)
from gateway.http.receive.views import dead_letter, plain
from gateway.http.receive.waiting import Alarm, stored_turn
from gateway.http.request_parameters import read_query
from gateway.message import Message, Properties

PORTION = 100
"""Messages looked at in one turn."""
PORTION_OCTETS = 4 * 1024 * 1024
MOST_NAMED = 100
"""Failures that an answer names one by one."""


Address = tuple[str, str]
"""Exchange and routing key."""


def matches(message: Message, which: DeadLetterFilter, deaths: list[dict[str, Any]]) -> bool:
    """Whether this is one of those asked for. Its last death counts."""
    last = deaths[0] if deaths else {}
    if which.reason is not None and last.get("reason") != which.reason:
        return False
    if which.queue is not None and last.get("queue") != which.queue:
        return False
    if not which.properties:
        return True
    properties = readable_properties(message)
    headers = (properties.application if properties is not None else None) or {}
    return all(same(headers.get(name), wanted, name in headers)
               for name, wanted in which.properties.items())  # fmt: skip


def same(found: Any, wanted: Any, present: bool) -> bool:
    if isinstance(found, bytes):
        found = found.decode("utf-8", "replace")
    if isinstance(found, bool) is not isinstance(wanted, bool):
        return False
    return present and bool(found == wanted)


def address_of(
    properties: Properties | None, deaths: list[dict[str, Any]], to: str | Target
) -> Address | None:
    """Where it goes; ``None`` if nothing says where it came from."""
    if isinstance(to, Target):
        return to.exchange, to.routing_key
    if not deaths:
        return None
    # The list is by the latest death of each kind; these headers name the very first.
    headers = (properties.application if properties is not None else None) or {}
    born = plain(headers.get("x-first-death-queue")), plain(headers.get("x-first-death-reason"))
    known = [death for death in deaths if (death["queue"], death["reason"]) == born]
    first = known[0] if known else deaths[-1]
    if to == "queue":
        return "", first["queue"]
    keys = first["routing_keys"]
    return first["exchange"], keys[0] if keys else ""


@dataclass(slots=True)
class RedriveRun:
    """One redrive under way."""

    principal: Principal
    vhost: str
    queue: str
    asked: Redrive
    after: Place | None
    left: int
    """Messages that stood there when it began and have not been looked at."""
    redriven: int = 0
    skipped: int = 0
    failed: int = 0
    failures: list[dict[str, str]] = field(default_factory=list)

    @property
    def done(self) -> bool:
        return self.left <= 0 or self.redriven >= self.asked.limit

    def fail(self, seen: Seen, why: str) -> None:
        self.failed += 1
        if len(self.failures) < MOST_NAMED:
            self.failures.append({"position": write_place(seen.place), "reason": why})


class RedriveEndpoints:
    """``POST .../dead-letters/{queue}/redrive`` and ``DELETE .../dead-letters/{queue}``."""

    def __init__(self, receiver: Receiver) -> None:
        self.receiver = receiver
        self.dependencies = receiver.dependencies
        self.broker = receiver.broker
        self.busy: set[tuple[str, str]] = set()
        self.redriven = 0

    async def authorize(self, request: Request) -> tuple[Principal, str, str]:
        found = await self.receiver.authorize(request.scope, Action.RECEIVE)
        read_query(request.scope["query_string"], Query)
        return found

    async def on_purge(self, request: Request) -> Response:
        """Drop all that stands ready."""
        principal, vhost, queue = await self.authorize(request)
        async with stored_turn(self.dependencies, "the purge"):
            with self.receiver.reading(vhost, principal.user) as channel:
                purged = channel.readable(queue).purge()
        return JSONResponse({"purged": purged}, headers=NO_STORE)

    async def on_redrive(self, request: Request) -> Response:
        """Send dead letters back. One redrive of a queue at a time."""
        principal, vhost, queue = await self.authorize(request)
        asked = await read_request(request, Redrive)
        if (vhost, queue) in self.busy:
            raise Problem(problems.CONFLICT, f"queue '{queue}' is being redriven", retry_after=5)
        self.busy.add((vhost, queue))
        try:
            drive = await self.drive(request, principal, vhost, queue, asked)
        finally:
            self.busy.discard((vhost, queue))
        shown = {
            "redriven": drive.redriven,
            "skipped": drive.skipped,
            "failed": drive.failed,
            "failures": drive.failures,
            "complete": drive.left <= 0,
            "next": None if drive.left <= 0 or not drive.after else write_place(drive.after),
        }
        return JSONResponse(shown, headers=NO_STORE)

    async def drive(
        self, request: Request, principal: Principal, vhost: str, queue: str, asked: Redrive
    ) -> RedriveRun:
        dependencies, broker = self.dependencies, self.broker
        with dependencies.turn(), self.receiver.reading(vhost, principal.user) as channel:
            started = broker.state.now
            depth = channel.readable(queue).depth
            after = read_place(asked.after) if asked.after else None
            drive = RedriveRun(principal, vhost, queue, asked, after, depth)
        deadline = started + dependencies.settings.redrive_seconds * 1000
        while True:
            async with stored_turn(dependencies, "the redrive so far"):
                due = self.allowance(asked, broker.state.now - started) - drive.redriven
                if due > 0:
                    self.portion(drive, due)
                over = drive.done or broker.state.now >= deadline or self.receiver.closing
                alarm = None
                if (
                    not over
                    and asked.rate
                    and drive.redriven >= self.allowance(asked, broker.state.now - started)
                ):
                    when = started + drive.redriven * 1000 / asked.rate
                    alarm = Alarm(broker.state, int(min(max(when, broker.state.now + 1), deadline)))
            if over or await request.is_disconnected():
                return drive
            if alarm is not None:
                await alarm.future
            else:
                await asyncio.sleep(0)  # others want their turn, too

    def allowance(self, asked: Redrive, elapsed: int) -> int:
        """How many may have gone by now."""
        if asked.rate is None:
            return asked.limit
        return min(asked.limit, 1 + int(elapsed * asked.rate / 1000))

    def portion(self, drive: RedriveRun, due: int) -> None:
        """Look at some, and send those that are due. Within a turn. Raises ``Refusal``."""
        with self.receiver.reading(drive.vhost, drive.principal.user) as channel:
            most = min(PORTION, drive.left)
            seen = channel.browse(drive.queue, drive.after, most, PORTION_OCTETS)
            if not seen:
                drive.left = 0
            for one in seen:
                if due <= 0 or drive.done:
                    return
                drive.after = one.place
                drive.left -= 1
                due -= self.send(drive, channel, one)

    def send(self, drive: RedriveRun, channel: LocalChannel, seen: Seen) -> int:
        """How many went: 1 or 0."""
        properties = readable_properties(seen.message)
        deaths = dead_letter(properties)
        if not matches(seen.message, drive.asked.filter, deaths):
            drive.skipped += 1
            return 0
        to = address_of(properties, deaths, drive.asked.to)
        if to is None:
            drive.fail(seen, "not-a-dead-letter")
            return 0
        try:
            exchange, key = to
            kind = "exchange" if exchange else "queue"
            drive.principal.need(self.broker, Action.PUBLISH, drive.vhost, kind, exchange or key)
            what = channel.move(drive.queue, seen.place, exchange, key)
        except (Problem, Refusal) as error:
            refused = error if isinstance(error, Problem) else problems.of_refusal(error)
            drive.fail(seen, refused.row.kind)
            return 0
        if what == "moved":
            drive.redriven += 1
            self.redriven += 1
            return 1
        if what == "gone":
            drive.skipped += 1
        else:
            drive.fail(seen, "destination-full" if what == "full" else what)
        return 0

"""What callers do with what they hold: look, accept, give back, reject, modify, renew; one by one
or many at once. An answer says what is safe on disk."""

from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from gateway.errors import Refusal
from gateway.http import prepared_bodies, problems
from gateway.http.access.principal import Action, Principal
from gateway.http.large import linked
from gateway.http.lease_tokens import owner_of
from gateway.http.leases import Fate, Lease
from gateway.http.portions import Whole
from gateway.http.problems import Problem
from gateway.http.receive.receiver import Receiver
from gateway.http.receive.requests import (
    Modify,
    Reject,
    Release,
    Renew,
    SettleItem,
    check,
    read_json,
    read_query,
    read_request,
)
from gateway.http.receive.views import message_json
from gateway.http.receive.waiting import safely, until_safe
from gateway.http.redaction import redacted
from gateway.http.request_parameters import authenticate, vhost_of
from gateway.http.sealing import Foreign, Forged
from gateway.http.typed import moment
from gateway.message import Table
from gateway.operations import Outcome

MOST_ITEMS = 1000
NO_STORE = {"cache-control": "no-store"}
NOWHERE = (
    "undeliverable_here: this queue has no dead letter exchange that leads somewhere, and receives "
    "of one user are one receiver to the queue, so the next receive could be given the message "
    "again. Give the queue an x-dead-letter-exchange, or read it with an event stream with "
    "ack=explicit, which is a receiver of its own; or release the message, or reject it"
)


class Settlements:
    """The endpoints of ``/v1/{vhost}/deliveries``."""

    def __init__(self, receiver: Receiver) -> None:
        self.receiver = receiver
        self.context = receiver.context
        self.dependencies = receiver.dependencies
        self.leases = receiver.leases

    # --- which lease ----------------------------------------------------------------------------

    def find(self, principal: Principal, vhost: str, token: str) -> Lease:
        """The lease of a token, open or remembered. Within a turn. Raises ``Problem``."""
        try:
            claim = self.receiver.leasing.tokens.open(token)
        except Foreign:
            raise lost("the gateway has been restarted; the message went back") from None
        except Forged:
            raise Problem(problems.INVALID_TOKEN, "this token was not made here") from None
        if claim.owner != owner_of(principal.identity):
            raise unknown()
        if claim.epoch != self.receiver.leasing.tokens.epoch:
            raise lost("the gateway has been restarted; the message went back to its queue")
        lease = self.leases.find(claim.number)
        if lease is None:
            raise lost("the lease is long over")
        if lease.vhost != vhost:
            raise unknown()
        broker, queue = self.context.broker, lease.queue
        if lease.route:
            principal.need(broker, Action.SETTLE, vhost, "route", lease.route, queue)
        else:
            principal.need(broker, Action.SETTLE, vhost, "queue", queue)
        if lease.fate is Fate.EXPIRED:
            raise lost("the lease ran out; the message went back to its queue")
        if lease.fate is Fate.LOST:
            raise lost("the message went back, or is gone with its queue")
        return lease

    def end(
        self, lease: Lease, fate: Fate, outcome: Outcome, notes: Table | None = None
    ) -> dict[str, Any]:
        """Settle, or find it settled so. Within a turn. Raises ``Problem``."""
        repeated = lease.fate is not Fate.OPEN
        if not repeated:
            self.leases.settle(lease, fate, outcome, notes)
        elif lease.fate is not fate:
            raise Problem(
                problems.ALREADY_SETTLED,
                f"this delivery is {lease.fate.value} already",
                settled=lease.fate.value,
            )
        return {"outcome": fate.value, "confirmed": True, "repeated": repeated}

    # --- what to do -----------------------------------------------------------------------------

    def accept(self, lease: Lease) -> dict[str, Any]:
        return self.end(lease, Fate.ACCEPTED, Outcome.ACCEPT)

    def release(self, lease: Lease) -> dict[str, Any]:
        return self.end(lease, Fate.RELEASED, Outcome.RELEASE)

    def reject(self, lease: Lease, asked: Reject) -> dict[str, Any]:
        notes = {
            name: value
            for name, value in (
                ("x-opt-reject-reason", asked.reason),
                ("x-opt-reject-description", asked.description),
            )
            if value is not None
        }
        return self.end(lease, Fate.REJECTED, Outcome.REJECT, notes)

    def modify(self, lease: Lease, asked: Modify) -> dict[str, Any]:
        notes: Table = dict(asked.annotations)
        if not asked.undeliverable_here:
            return self.end(lease, Fate.MODIFIED, Outcome.RELEASE, notes)
        if lease.fate is not Fate.OPEN:
            return self.end(lease, Fate.MODIFIED, Outcome.RELEASE, notes)
        try:
            outcome = lease.holder.elsewhere(lease.delivery)
        except Refusal as refusal:
            raise Problem(problems.OUTCOME_UNSUPPORTED, refusal.text) from None
        if outcome is None:
            raise Problem(problems.OUTCOME_UNSUPPORTED, NOWHERE)
        return self.end(lease, Fate.MODIFIED, outcome, notes)

    def renew(self, lease: Lease, length: int) -> dict[str, Any]:
        if lease.fate is not Fate.OPEN:
            raise Problem(
                problems.ALREADY_SETTLED,
                f"this delivery is {lease.fate.value} already",
                settled=lease.fate.value,
            )
        self.leases.renew(lease, length)
        return {"outcome": "renewed", "lock_until": moment(lease.until)}

    def apply(self, lease: Lease, asked: Any) -> dict[str, Any]:
        """Do what was asked of one lease. Within a turn. Raises ``Problem``."""
        if isinstance(asked, SettleItem):
            outcome = asked.outcome
            if outcome == "accepted":
                return self.accept(lease)
            if outcome == "released":
                return self.release(lease)
            if outcome == "rejected":
                return self.reject(lease, asked)
            if outcome == "modified":
                return self.modify(lease, asked)
            return self.renew(lease, asked.lease_ms)
        if isinstance(asked, Renew):
            return self.renew(lease, asked.lease_ms)
        if isinstance(asked, Release):
            return self.release(lease)
        if isinstance(asked, Reject):
            return self.reject(lease, asked)
        if isinstance(asked, Modify):
            return self.modify(lease, asked)
        return self.accept(lease)

    # --- endpoints ------------------------------------------------------------------------------

    async def who(self, request: Request) -> tuple[Principal, str]:
        principal = await authenticate(self.context, request.scope)
        return principal, vhost_of(self.context.broker, request.path_params["vhost"])

    async def one(self, request: Request, kind: type[Any] | None) -> Response:
        """Settle or renew one delivery."""
        principal, vhost = await self.who(request)
        read_query(request.scope["query_string"])
        asked = None if kind is None else await read_request(request, kind)
        dependencies = self.dependencies
        dependencies.begin_turn()
        try:
            lease = self.find(principal, vhost, request.path_params["token"])
            answer = self.apply(lease, asked)
            safe = safely(dependencies)
        finally:
            dependencies.end_turn()
        await until_safe(dependencies, safe, "this")
        return JSONResponse(answer, headers=NO_STORE)

    async def on_accept(self, request: Request) -> Response:
        return await self.one(request, None)

    async def on_renew(self, request: Request) -> Response:
        return await self.one(request, Renew)

    async def on_release(self, request: Request) -> Response:
        return await self.one(request, Release)

    async def on_reject(self, request: Request) -> Response:
        return await self.one(request, Reject)

    async def on_modify(self, request: Request) -> Response:
        return await self.one(request, Modify)

    async def on_inspect(self, request: Request) -> Response:
        """How a lease stands, with the message while it is open."""
        principal, vhost = await self.who(request)
        query = read_query(request.scope["query_string"], "view", "payload")
        view, payload = query.get("view", "simple"), query.get("payload", "auto")
        if view not in ("simple", "full") or payload not in ("auto", "base64"):
            raise Problem(problems.INVALID, "view is simple or full, payload auto or base64")
        dependencies = self.dependencies
        dependencies.begin_turn()
        try:
            lease = self.find(principal, vhost, request.path_params["token"])
            message = lease.message
        finally:
            dependencies.end_turn()
        if message is None:
            return JSONResponse({"state": "settled", "outcome": lease.fate.value}, headers=NO_STORE)
        known = (
            b'{"state":"leased","lock_until":"%b","delivery_count":%d,"redelivered":%b,"message":'
        )
        if lease.route:
            message = redacted(message)
        async with prepared_bodies.ready([message], view, payload == "base64"):
            shown = message_json(
                message, view, payload, redelivered=lease.count > 1, deliveries=lease.count
            )
        redelivered = b"true" if lease.count > 1 else b"false"
        head = known % (moment(lease.until).encode(), lease.count, redelivered)
        return Whole(linked(head, shown, b"}"), NO_STORE)

    async def on_settle(self, request: Request) -> Response:
        """Many at once, each with its own result: 200 if all went well, else 207."""
        principal, vhost = await self.who(request)
        read_query(request.scope["query_string"])
        items: list[SettleItem] = check(list[SettleItem], await read_json(request))
        if not 0 < len(items) <= MOST_ITEMS:
            raise Problem(problems.SCHEMA, f"between 1 and {MOST_ITEMS} items at once")
        dependencies = self.dependencies
        results: list[dict[str, Any]] = []
        dependencies.begin_turn()
        try:
            for index, item in enumerate(items):
                known = {"index": index, "token": item.token}
                try:
                    answer = self.apply(self.find(principal, vhost, item.token), item)
                    results.append({**known, "status": 200, **answer})
                except Problem as problem:
                    shown = problem.document()
                    status = problem.row.status
                    results.append(
                        {**known, "status": status, "outcome": "refused", "problem": shown}
                    )
            safe = safely(dependencies)
        finally:
            dependencies.end_turn()
        await until_safe(dependencies, safe, "this")
        good = all(result["status"] == 200 for result in results)
        return JSONResponse({"results": results}, 200 if good else 207, headers=NO_STORE)


def lost(detail: str) -> Problem:
    return Problem(problems.LEASE_LOST, detail)


def unknown() -> Problem:
    """Of a stranger's token nothing is said."""
    return Problem(problems.NOT_FOUND, "no such delivery")

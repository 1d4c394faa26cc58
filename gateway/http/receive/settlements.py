"""Settlements of leased deliveries: inspect, accept, release, reject, modify, renew; one by one or
many at once. They are answered when they are on disk."""

from collections.abc import Awaitable, Callable
from typing import Any

from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from gateway.errors import Refusal
from gateway.http import prepared_bodies, problems
from gateway.http.access.principal import Action, Principal
from gateway.http.leases import Lease, LeaseState, owner_of
from gateway.http.octets import concatenated
from gateway.http.portions import Whole
from gateway.http.problems import Problem
from gateway.http.receive.receiver import Receiver
from gateway.http.receive.requests import (
    Modify,
    Query,
    Reject,
    Renew,
    SettleItem,
    ViewQuery,
    check,
    read_json,
    read_request,
)
from gateway.http.receive.views import with_message
from gateway.http.receive.waiting import stored_turn
from gateway.http.redaction import redacted
from gateway.http.request_parameters import read_caller, read_query
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


Settle = Callable[[Lease, Any], dict[str, Any]]
"""Settles or renews a lease as the body of a request says, and answers with the outcome. Within a
turn. Raises ``Problem``."""
Handler = Callable[[Request], Awaitable[Response]]


class SettlementEndpoints:
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
            claim = self.leases.tokens.open(token)
        except Foreign:
            raise lost("the gateway has been restarted; the message went back") from None
        except Forged:
            raise Problem(problems.INVALID_TOKEN, "this token was not made here") from None
        if claim.owner != owner_of(principal.identity):
            raise unknown()
        if claim.epoch != self.leases.tokens.epoch:
            raise lost("the gateway has been restarted; the message went back to its queue")
        lease = self.leases.find(claim.number)
        if lease is None:
            raise lost("the lease is long over")
        if lease.vhost != vhost:
            raise unknown()
        named = ("route", lease.route, lease.queue) if lease.route else ("queue", lease.queue)
        principal.need(self.context.broker, Action.SETTLE, vhost, *named)
        if lease.state is LeaseState.EXPIRED:
            raise lost("the lease ran out; the message went back to its queue")
        if lease.state is LeaseState.LOST:
            raise lost("the message went back, or is gone with its queue")
        return lease

    def end(
        self, lease: Lease, state: LeaseState, outcome: Outcome, notes: Table | None = None
    ) -> dict[str, Any]:
        """Settle, or find it settled so. Within a turn. Raises ``Problem``."""
        repeated = lease.state is not LeaseState.OPEN
        if not repeated:
            self.leases.settle(lease, state, outcome, notes)
        elif lease.state is not state:
            raise already(lease)
        return {"outcome": state.value, "confirmed": True, "repeated": repeated}

    # --- outcomes -------------------------------------------------------------------------------

    def accept(self, lease: Lease, asked: Any) -> dict[str, Any]:
        return self.end(lease, LeaseState.ACCEPTED, Outcome.ACCEPT)

    def release(self, lease: Lease, asked: Any) -> dict[str, Any]:
        return self.end(lease, LeaseState.RELEASED, Outcome.RELEASE)

    def reject(self, lease: Lease, asked: Reject) -> dict[str, Any]:
        notes: Table = {}
        if asked.reason is not None:
            notes["x-opt-reject-reason"] = asked.reason
        if asked.description is not None:
            notes["x-opt-reject-description"] = asked.description
        return self.end(lease, LeaseState.REJECTED, Outcome.REJECT, notes)

    def modify(self, lease: Lease, asked: Modify) -> dict[str, Any]:
        outcome: Outcome | None = Outcome.RELEASE
        if asked.undeliverable_here and lease.state is LeaseState.OPEN:
            try:
                outcome = lease.holder.undeliverable_here(lease.delivery)
            except Refusal as refusal:
                raise Problem(problems.OUTCOME_UNSUPPORTED, refusal.text) from None
        if outcome is None:
            raise Problem(problems.OUTCOME_UNSUPPORTED, NOWHERE)
        return self.end(lease, LeaseState.MODIFIED, outcome, dict(asked.annotations))

    def renew(self, lease: Lease, asked: Renew | SettleItem) -> dict[str, Any]:
        if lease.state is not LeaseState.OPEN:
            raise already(lease)
        self.leases.renew(lease, asked.lease_ms)
        return {"outcome": "renewed", "lock_until": moment(lease.until)}

    # --- endpoints ------------------------------------------------------------------------------

    def endpoint(self, settle: Settle, kind: type[BaseModel] | None = None) -> Handler:
        """Settles or renews one delivery. ``kind``: the model of the body, ``None`` for none."""

        async def settle_one(request: Request) -> Response:
            principal, vhost = await read_caller(self.context, request.scope)
            read_query(request.scope["query_string"], Query)
            asked = None if kind is None else await read_request(request, kind)
            async with stored_turn(self.dependencies, "this"):
                answer = settle(self.find(principal, vhost, request.path_params["token"]), asked)
            return JSONResponse(answer, headers=NO_STORE)

        return settle_one

    async def on_inspect(self, request: Request) -> Response:
        """How a lease stands, with the message while it is open."""
        principal, vhost = await read_caller(self.context, request.scope)
        query = read_query(request.scope["query_string"], ViewQuery)
        with self.dependencies.turn():
            lease = self.find(principal, vhost, request.path_params["token"])
            message = lease.message
        if message is None:
            return JSONResponse(
                {"state": "settled", "outcome": lease.state.value}, headers=NO_STORE
            )
        if lease.route:
            message = redacted(message)
        async with prepared_bodies.ready([message], query.view, query.payload == "base64"):
            known = {
                "state": "leased",
                "lock_until": moment(lease.until),
                "delivery_count": lease.count,
                "redelivered": lease.count > 1,
            }
            shown = with_message(known, message, query.view, query.payload, lease.count)
        return Whole(concatenated(*shown), NO_STORE)

    async def on_settle(self, request: Request) -> Response:
        """Many at once, each with its own result: 200 if all went well, else 207."""
        if request.method != "POST":
            raise Problem(problems.BY_STATUS[405], "only POST", headers={"allow": "POST"})
        principal, vhost = await read_caller(self.context, request.scope)
        read_query(request.scope["query_string"], Query)
        items: list[SettleItem] = check(list[SettleItem], await read_json(request))
        if not 0 < len(items) <= MOST_ITEMS:
            raise Problem(problems.SCHEMA, f"between 1 and {MOST_ITEMS} items at once")
        outcomes: dict[str, Settle] = {
            "accepted": self.accept,
            "released": self.release,
            "rejected": self.reject,
            "modified": self.modify,
            "renewed": self.renew,
        }
        results: list[dict[str, Any]] = []
        async with stored_turn(self.dependencies, "this"):
            for index, item in enumerate(items):
                known = {"index": index, "token": item.token}
                try:
                    answer = outcomes[item.outcome](self.find(principal, vhost, item.token), item)
                    results.append({**known, "status": 200, **answer})
                except Problem as problem:
                    refused = {"outcome": "refused", "problem": problem.document()}
                    results.append({**known, "status": problem.row.status, **refused})
        good = all(result["status"] == 200 for result in results)
        return JSONResponse({"results": results}, 200 if good else 207, headers=NO_STORE)


def already(lease: Lease) -> Problem:
    state = lease.state.value
    return Problem(problems.ALREADY_SETTLED, f"this delivery is {state} already", settled=state)


def lost(detail: str) -> Problem:
    return Problem(problems.LEASE_LOST, detail)


def unknown() -> Problem:
    """The same for unknown tokens and those of other callers."""
    return Problem(problems.NOT_FOUND, "no such delivery")

"""``POST /v1/{vhost}/queues/{queue}/deliveries``: receive with a lease, waiting if asked to.

A bare ASGI endpoint, because it has to notice that the caller hangs up: while it waits, and until
the answer is written. Messages of an unwritten answer go back to the queue at once.
"""

import asyncio
from typing import Any

from starlette.requests import Request
from starlette.types import Receive as ASGIReceive
from starlette.types import Scope, Send

from gateway.bodies import Body
from gateway.bridge.waiting import until_answered
from gateway.http import problems
from gateway.http.access.principal import Action
from gateway.http.leases import Lease
from gateway.http.octets import Octets, concatenated, pieces
from gateway.http.portions import spread
from gateway.http.prepared_bodies import ready
from gateway.http.problems import Problem
from gateway.http.receive.channels import FilteredReceive, TakenMessage, Wait
from gateway.http.receive.receiver import Batch, Receiver, ReceiveRequest
from gateway.http.receive.requests import Receive, check, read_json
from gateway.http.receive.views import Pairs, encoded_fields, raw_fields, with_message
from gateway.http.request_parameters import read_parameters
from gateway.http.typed import moment

ATTEMPT = b"receive-attempt-id"
LONGEST_ATTEMPT = 128
WHOLE = frozenset({"max", "wait_ms", "lease_ms", "max_deliveries"})


class HungUp(Exception):
    """The caller is gone."""


class DeliveriesEndpoint:
    def __init__(self, receiver: Receiver) -> None:
        self.receiver = receiver
        self.dependencies = receiver.dependencies
        self.__name__ = "receive"

    async def __call__(self, scope: Scope, receive: ASGIReceive, send: Send) -> None:
        principal, vhost, queue = await self.receiver.authorize(scope, Action.RECEIVE)
        asked = await read_receive(scope, receive)
        if asked.max_deliveries is not None:
            principal.need(self.receiver.broker, Action.SETTLE, vhost, "queue", queue)
        attempt = read_attempt(scope)
        if attempt and asked.mode == "auto":
            raise Problem(problems.CONFLICT, "Receive-Attempt-Id needs mode lease")
        gone = asyncio.create_task(hung_up(receive))
        try:
            batch = await self.take(ReceiveRequest(principal, vhost, queue, asked, attempt), gone)
            await self.answer(batch, scope["path_params"]["vhost"], send, gone)
        except HungUp:
            return
        finally:
            gone.cancel()

    async def take(self, call: ReceiveRequest, gone: "asyncio.Task[None]") -> Batch:
        receiver, turn = self.receiver, self.dependencies.turn
        if call.vhost in receiver.broker.facades:
            of = receiver.receive_channels.of
            batch, waiting = await until_answered(
                turn,
                lambda: receiver.begin(call),
                lambda: of(call.vhost, call.principal.user).channel,
            )
        else:
            with turn():
                batch, waiting = receiver.begin(call)
        if waiting is None:
            return batch
        try:
            await self.wait(waiting, gone)
        except BaseException:
            with turn():
                receiver.abandon(batch, waiting)
            raise
        with turn():
            receiver.finish(batch, waiting)
        return batch

    async def wait(self, waiting: Wait, gone: "asyncio.Task[None]") -> None:
        """Raises ``HungUp``."""
        future = waiting.alarm.future
        while isinstance(waiting, FilteredReceive) and waiting.searching and not future.done():
            await asyncio.sleep(0)  # others want their turn, too
            if gone.done():
                raise HungUp
            with self.dependencies.turn():
                waiting.look()
        await asyncio.wait((future, gone), return_when=asyncio.FIRST_COMPLETED)
        if not future.done() or (gone.done() and not waiting.taken):
            raise HungUp

    async def answer(
        self, batch: Batch, vhost: str, send: Send, gone: "asyncio.Task[None]"
    ) -> None:
        """Write it; if that fails, its messages go back. Raises ``HungUp``."""
        written = False
        try:
            status, pairs, body = await self.render(batch, vhost)
            written = await write(send, status, pairs, body, gone)
        finally:
            with self.dependencies.turn():
                if written:
                    batch.written()
                else:
                    batch.hang_up()
                    self.receiver.hang_ups += 1
        if not written:
            raise HungUp
        await send({"type": "http.response.body", "body": b""})

    # --- the answer -----------------------------------------------------------------------------

    async def render(self, batch: Batch, vhost: str) -> tuple[int, Pairs, Body | Octets]:
        asked = batch.call.asked
        found: list[Lease | TakenMessage] = [*batch.leases, *batch.taken]
        if found and asked.view == "raw":
            raw = self.render_raw(found[0], vhost)
            if raw is not None:
                return raw
        view = "full" if asked.view in ("full", "raw") else "simple"
        parts: list[Octets] = []
        async with ready([one.message for one in found], view, asked.payload == "base64"):
            async for one in spread(found):
                if one.message is not None:  # a lease may have run out meanwhile
                    parts += [b"," if parts else b"", *self.show(one, view, asked.payload)]
        if not parts:
            return 204, [], b""
        body = concatenated(b'{"deliveries":[', *parts, b"]}")
        pairs = [("content-type", "application/json")]
        if asked.view == "raw":
            pairs.append(("amqp-view", "full"))
        return 200, pairs, body

    def show(self, one: Lease | TakenMessage, view: str, payload: str) -> list[Octets]:
        message = one.message
        assert message is not None  # leases that are shown are open
        known: dict[str, Any] = {}
        count = one.count
        if isinstance(one, Lease):
            known = {"token": self.receiver.leases.token(one), "lock_until": moment(one.until)}
        known |= {"delivery_count": count, "redelivered": count > 1}
        return with_message(known, message, view, payload, count)

    def render_raw(self, one: Lease | TakenMessage, vhost: str) -> tuple[int, Pairs, Body] | None:
        """The body of the one message as it is; ``None`` if its fields take too much room."""
        message = one.message
        assert message is not None
        pairs = raw_fields(message, one.count)
        if pairs is not None and isinstance(one, Lease):
            token = self.receiver.leases.token(one)
            pairs += [
                ("amqp-lock-token", token),
                ("amqp-lock-until", moment(one.until)),
                ("location", f"/v1/{vhost}/deliveries/{token}"),
            ]
        return None if pairs is None else (200, pairs, message.body)


# --- the request --------------------------------------------------------------------------------


async def read_receive(scope: Scope, receive: ASGIReceive) -> Receive:
    """The body, and parameters over it. Callers that take no JSON get raw. Raises ``Problem``."""
    given: Any = await read_json(Request(scope, receive))
    if given is None:
        given = {}
    if isinstance(given, dict):
        for name, value in read_parameters(scope["query_string"]).items():
            if name not in Receive.model_fields:
                raise Problem(problems.INVALID, f"there is no parameter {name!r}")
            whole = name in WHOLE and value.isascii() and value.isdigit() and len(value) < 10
            given[name] = int(value) if whole else value
    asked: Receive = check(Receive, given)
    if asked.view is None:
        view = "simple" if takes_json(scope) or asked.max > 1 else "raw"
        asked = asked.model_copy(update={"view": view})
    # A raw answer is one message; max is only the most that is wanted.
    return asked.model_copy(update={"max": 1}) if asked.view == "raw" else asked


def takes_json(scope: Scope) -> bool:
    """Whether the ``Accept`` field, if any, allows JSON."""
    given = [value.decode("latin-1") for name, value in scope["headers"] if name == b"accept"]
    ranges = [part.partition(";")[0].strip().lower() for one in given for part in one.split(",")]
    if not any(ranges):
        return True
    return any(one in ("*/*", "application/*", "application/json") for one in ranges)


def read_attempt(scope: Scope) -> str:
    given = [value for name, value in scope["headers"] if name == ATTEMPT]
    if not given:
        return ""
    text: str = given[0].decode("latin-1")
    if len(given) > 1 or not 0 < len(text) <= LONGEST_ATTEMPT or not text.isascii():
        raise Problem(
            problems.INVALID_FIELD,
            f"Receive-Attempt-Id is one value of 1 to {LONGEST_ATTEMPT} ASCII characters",
            field="receive-attempt-id",
        )
    return text


# --- the caller's connection ----------------------------------------------------------------------


async def hung_up(receive: ASGIReceive) -> None:
    """Returns when the caller is gone. The request has been read."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def write(
    send: Send, status: int, pairs: Pairs, body: Body | Octets, gone: "asyncio.Task[None]"
) -> bool:
    """All but the end of an answer; whether it has left for the caller's socket."""
    headers = encoded_fields(pairs, None if status == 204 else body)
    if gone.done():
        return False
    await send({"type": "http.response.start", "status": status, "headers": headers})
    if status != 204:
        async for piece in pieces(body):
            if gone.done():
                return False
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        # Returns when the socket has taken all octets before it.
        await send({"type": "http.response.body", "body": b"", "more_body": True})
        await asyncio.sleep(0)  # a hang-up that has been noticed is told
    return not gone.done()

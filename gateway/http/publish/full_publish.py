"""All publishes but the plain ones: documents, batches, idempotency keys, preferences, digests.

All checks that need no body are made before it is requested: a refused client that expects 100
(continue) never sends it.
"""

import asyncio
from collections.abc import Callable
from email.message import Message as MimeHeader
from typing import NamedTuple

from starlette.types import Message, Receive, Scope, Send

from gateway.bodies import Body
from gateway.errors import Refusal
from gateway.http import problems
from gateway.http.context import Context
from gateway.http.fields import BadField
from gateway.http.octets import send_answer
from gateway.http.problems import Problem, of_refusal
from gateway.http.publish import cloudevents
from gateway.http.publish.addresses import Target
from gateway.http.publish.atomic import MOST_ATOMIC
from gateway.http.publish.bodies import (
    BATCH_LIMIT,
    BODY_LIMIT,
    Budget,
    Reservation,
    check_length,
    chunks,
    gather,
    too_large,
)
from gateway.http.publish.documents import WHOLE, open_document
from gateway.http.publish.form_reader import FORM
from gateway.http.publish.items import (
    BATCH,
    DOCUMENTS,
    LINES,
    MULTIPART,
    Batch,
    Item,
    Maker,
    Pairs,
    Parts,
    as_problem,
    read_batch,
    read_document,
    read_events,
    read_parts,
    refuse_metadata,
)
from gateway.http.publish.operations import Operations
from gateway.http.publish.ordering import SendSlot
from gateway.http.publish.preferences import (
    PublishPreferences,
    Verifier,
    applied,
    read_publish_preferences,
)
from gateway.http.publish.results import Answer, batch_answer, problem_answer, single_answer
from gateway.http.publish.sending import PublishCall, Sender
from gateway.http.publish.streaming import Stream
from gateway.http.request_parameters import authenticate, vhost_of
from gateway.http.typed_json import BadForm

Finder = Callable[[dict[str, str], bytes], Target | None]


class Watched:
    """``receive`` that records whether the body was requested."""

    def __init__(self, receive: Receive) -> None:
        self.receive = receive
        self.asked = False

    async def __call__(self) -> Message:
        self.asked = True
        return await self.receive()


class Media:
    """``Content-Type``: ``name`` in lower case, and its parameters."""

    def __init__(self, headers: Pairs) -> None:
        raw = next((value for name, value in headers if name == b"content-type"), b"")
        self.raw = raw.decode("latin-1")
        self.header = MimeHeader()
        self.header["content-type"] = self.raw
        self.name = self.raw.partition(";")[0].strip().lower()

    def parameter(self, name: str, default: str) -> str:
        value = self.header.get_param(name, default)
        return value if isinstance(value, str) else default


class Upload(NamedTuple):
    """The body of a request and the way in which it is read."""

    scope: Scope
    receive: Receive
    preferences: PublishPreferences
    media: Media
    maker: Maker

    @property
    def headers(self) -> Pairs:
        headers: Pairs = self.scope["headers"]
        return headers


class FullPublish:
    """Shared by all publish routes."""

    def __init__(self, context: Context, sender: Sender, operations: Operations, budget: Budget):
        self.context = context
        self.settings = context.settings
        self.spool = context.dependencies.spool
        self.sender = sender
        self.operations = operations
        self.budget = budget

    async def __call__(self, scope: Scope, receive: Receive, send: Send, find: Finder) -> None:
        watched = Watched(receive)
        try:
            answer = await self.answer(scope, watched, send, find)
        except Problem as problem:
            answer = self.refuse(problem, scope)
        except Refusal as refusal:
            hidden = "route" in scope["path_params"]
            answer = self.refuse(of_refusal(refusal, hidden), scope)
        except (BadField, BadForm) as error:
            answer = self.refuse(as_problem(error), scope)
        if answer is None:
            return
        status, headers, body = answer
        if status >= 400 and not watched.asked and expects(scope["headers"]):
            # The client may or may not send the body now, which could be mistaken for a request.
            headers = [pair for pair in headers if pair[0] != b"connection"]
            headers.append((b"connection", b"close"))
        await send_answer(send, status, headers, body)

    def refuse(self, problem: Problem, scope: Scope) -> Answer:
        problem.retry_after = max(problem.retry_after, self.settings.retry_after_seconds)
        return problem_answer(problem, scope["path"])

    async def answer(
        self, scope: Scope, receive: Receive, send: Send, find: Finder
    ) -> Answer | None:
        caller = await authenticate(self.context, scope)
        headers: Pairs = scope["headers"]
        path = scope["path_params"]
        vhost = vhost_of(self.context.broker, path["vhost"])
        media = Media(headers)
        query: bytes = scope["query_string"]
        stop = False
        if media.name in DOCUMENTS:
            refuse_metadata(headers, media.name)
        if media.name == LINES:
            query, stop = take_on_error(query)
        target = find(path, query)
        preferences = read_publish_preferences(headers)
        self.sender.publisher.check_open(vhost)
        if target is not None:
            await self.sender.know(vhost, target)
            self.sender.check_target(caller, vhost, target)
        if preferences.asynchronous:
            self.operations.check_room(caller, vhost)
        self.context.dependencies.begin_turn()  # for the time in the ids
        maker = Maker(
            target,
            self.context.broker.state.now,
            media.parameter("view", "simple"),
            preferences.key is not None,
        )
        call = self.call(preferences, PublishCall(caller, vhost, preferences.key))
        if media.name == LINES:
            if preferences.digests or preferences.asynchronous:
                raise Problem(
                    problems.INVALID,
                    "a streamed batch takes neither Content-Digest nor respond-async",
                )
            stream = Stream(self.sender, call, maker, stop, preferences.ordering, self.spool)
            await stream.run(receive, send, applied(preferences))
            return None
        return await self.whole(Upload(scope, receive, preferences, media, maker), call)

    def call(self, preferences: PublishPreferences, call: PublishCall) -> PublishCall:
        seconds = self.settings.confirm_seconds
        if preferences.asynchronous:
            seconds = max(seconds, self.settings.confirm_most_seconds)
        elif preferences.wait is not None:
            seconds = min(preferences.wait, self.settings.confirm_most_seconds)
        until = asyncio.get_running_loop().time() + seconds
        return call._replace(seconds=seconds, until=until, unconfirmed=preferences.unconfirmed)

    async def whole(self, upload: Upload, call: PublishCall) -> Answer:
        """Read everything, send it, and answer once."""
        preferences, maker, path = upload.preferences, upload.maker, upload.scope["path"]
        several = upload.media.name in (BATCH, MULTIPART, cloudevents.BATCH)
        slot = None
        if preferences.ordering is not None and not several:
            slot = self.sender.slot(call, maker.target, preferences.ordering)
        try:
            with self.budget.hold() as held:
                if several:
                    work = self.send_many(call, await self.read_many(upload, held), path)
                else:
                    item = await self.read_one(upload, held)
                    if slot is None and item.ordering is not None:
                        slot = self.sender.slot(call, item.target, item.ordering)
                    call = self.call(preferences, call)  # the upload was not waiting
                    work = self.send_one(call, item, slot, path)
                if not preferences.asynchronous:
                    status, headers, body = await work
                    return Answer(status, [*headers, *applied(preferences)], body)
            wait, slot = preferences.wait or 0.0, None  # the work leaves the slot
            return await self.operations.run(
                call.caller, call.vhost, work, wait, applied(preferences)
            )
        finally:
            if slot is not None:
                slot.leave()

    async def send_one(
        self, call: PublishCall, item: Item, slot: SendSlot | None, instance: str
    ) -> Answer:
        result = await self.sender.one(call, item, slot)
        return single_answer(result, instance)

    async def send_many(self, call: PublishCall, batch: Batch, instance: str) -> Answer:
        return await batch_answer(await self.sender.many(call, batch), instance)

    # --- reading --------------------------------------------------------------------------------

    async def read_one(self, upload: Upload, held: Reservation) -> Item:
        body = await self.read_all(upload, held, self.settings.max_body_octets)
        media, maker, headers = upload.media, upload.maker, upload.headers
        if media.name not in (FORM, cloudevents.ONE):
            return maker.from_headers(headers, body)
        if len(body) > WHOLE:
            document = await open_document(body, self.spool)
            if media.name == FORM:
                return await document.form(maker, document.all)
            item = await document.event(maker, headers, document.all, body)
            return item._replace(name=None)
        if media.name == FORM:
            return maker.from_form(read_document(body[:]))
        return maker.from_event(headers, read_document(body[:]), body[:], None)

    async def read_many(self, upload: Upload, held: Reservation) -> Batch:
        media, maker, preferences = upload.media, upload.maker, upload.preferences
        most = self.settings.max_batch_items
        if media.name == MULTIPART:
            batch = await self.read_multipart(upload, held)
        else:
            body = await self.read_all(upload, held, self.settings.max_batch_octets, BATCH_LIMIT)
            if len(body) > WHOLE:
                document = await open_document(body, self.spool)
                if media.name == BATCH:
                    batch = await document.batch(maker, most)
                else:
                    batch = await document.events(maker, upload.headers, most)
            elif media.name == BATCH:
                batch = await read_batch(body[:], maker, most)
            else:
                batch = await read_events(body[:], upload.headers, maker, most)
        if batch.atomic and len(batch.items) > MOST_ATOMIC:
            raise Problem(
                problems.TOO_LARGE,
                f"an atomic batch has at most {MOST_ATOMIC} messages, since all of them are "
                "published in one step; send several batches, or one that is not atomic",
                limit_messages=MOST_ATOMIC,
            )
        if preferences.ordering is None:
            return batch
        return batch._replace(
            items=[
                (name, item._replace(ordering=item.ordering or preferences.ordering))
                if isinstance(item, Item)
                else (name, item)
                for name, item in batch.items
            ]
        )

    async def read_all(
        self, upload: Upload, held: Reservation, limit: int, setting: str = BODY_LIMIT
    ) -> Body:
        length = check_length(upload.scope, limit, setting)
        held.reach(length)
        verifier = Verifier(upload.preferences.digests)
        body = await gather(
            upload.receive, limit, held, self.settings, self.spool, b"", length, verifier, setting
        )
        verifier.check()
        return body

    async def read_multipart(self, upload: Upload, held: Reservation) -> Batch:
        limit = self.settings.max_batch_octets
        held.reach(check_length(upload.scope, limit, BATCH_LIMIT))
        parts = Parts(upload.media.raw, self.settings.max_batch_items)
        verifier = Verifier(upload.preferences.digests)
        size = 0
        async for octets in chunks(upload.receive):
            size += len(octets)
            if size > limit:
                raise too_large(limit, BATCH_LIMIT)
            held.reach(size)
            verifier.add(octets)
            parts.feed(octets)
        verifier.check()
        return await read_parts(parts.finish(), upload.maker)


def expects(headers: Pairs) -> bool:
    return any(name == b"expect" for name, _ in headers)


def take_on_error(query: bytes) -> tuple[bytes, bool]:
    """The other parameters of a streamed batch, and whether it stops. Raises ``Problem``."""
    others = []
    stop = False
    for part in query.split(b"&"):
        name, _, value = part.partition(b"=")
        if name != b"on_error":
            others.append(part)
        elif value not in (b"continue", b"stop"):
            raise Problem(problems.INVALID, "on_error is continue or stop")
        else:
            stop = value == b"stop"
    return b"&".join(others), stop

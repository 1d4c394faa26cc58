"""``/v1/{vhost}/replays``: messages of archives are published once; what was published is shown."""

import base64
import binascii
import json
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from gateway.http import problems
from gateway.http.context import Context
from gateway.http.description import (
    VHOST,
    Described,
    in_path,
    in_queries,
    json_content,
    model_content,
    reference,
    row_responses,
)
from gateway.http.path_segments import decode_segment
from gateway.http.portions import spread
from gateway.http.problems import Problem
from gateway.http.publish.addresses import read_address
from gateway.http.publish.bodies import Budget, check_length
from gateway.http.publish.items import read_document
from gateway.http.publish.replays.archived import restored
from gateway.http.publish.replays.ingest import Ingest, Replay, Replayed
from gateway.http.publish.replays.keys import ReplayInfo, Scope, Source
from gateway.http.publish.replays.rehearsal import rehearse
from gateway.http.publish.sending import Sender
from gateway.http.request_parameters import read_caller, read_limited, read_query
from gateway.http.schemas import ProblemDocument, Shape
from gateway.message import Message

LIST = "/v1/{vhost}/replays"
ONE = "/v1/{vhost}/replays/{replay}"
MESSAGES = "/v1/{vhost}/replays/{replay}/messages"
MOST = 500
MOST_OFFSET = (1 << 63) - 1
NO_STORE = {"cache-control": "no-store"}
MEMBERS = {"journal": 255, "address": 2048, "to": 2048}
"""Members of a message that are text, and the octets that they may have."""


class ReplayQuery(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    rate: Annotated[
        float | None,
        Field(
            gt=0,
            le=1e9,
            allow_inf_nan=False,
            description="messages per second, of all requests of this replay together",
            examples=[500],
        ),
    ] = None
    on_error: Annotated[
        str, Field(pattern="^(continue|stop)$", description="at a message that is rejected")
    ] = "continue"
    dry_run: Annotated[bool, Field(description="publish nothing", examples=[False])] = False


class ReplayMessage(Shape):
    """A message of an archive. Its journal, address and offset are its key."""

    journal: str = Field(description="id of the journal, or any text", examples=["orders-2025"])
    address: str = Field(description="address in the journal", examples=["/queues/orders"])
    offset: int = Field(description="offset at the address, from 0 on", examples=[17])
    to: str = Field(
        description="a queue, `/queues/NAME` or `/exchanges/NAME/KEY`", examples=["/queues/orders"]
    )
    amqp10: str = Field(
        description="the sections of the message in AMQP 1.0, in base64, as in the column `amqp10`"
        " of the journal",
        examples=["AFN1oAVoZWxsbw=="],
    )


class ReplayBatch(Shape):
    messages: list[ReplayMessage] = Field(max_length=MOST)


class Rejected(Shape):
    index: int
    problem: ProblemDocument


class ReplayOutcome(Shape):
    """Messages before `attempted` have been dealt with: they were published, were published before
    (`duplicates`, by their numbers), or were rejected. The others are to be sent again; `reason` is
    why, if time has not just run out."""

    attempted: int = Field(examples=[1])
    published: int = Field(examples=[1])
    duplicates: list[int] = Field(examples=[[]])
    rejected: list[Rejected] = Field(examples=[[]])
    reason: ProblemDocument | None = None


class ReplayView(Shape):
    """A replay of the caller."""

    name: str = Field(examples=["orders-again"])
    published: int = Field(description="messages", examples=[30000])
    pending: int = Field(description="messages whose outcome is not known yet", examples=[0])
    blocks: int = Field(description="blocks of 4096 keys", examples=[8])


class ReplayList(Shape):
    replays: list[ReplayView] = Field(
        examples=[[{"name": "orders-again", "published": 30000, "pending": 0, "blocks": 8}]]
    )


def view(info: ReplayInfo) -> dict[str, Any]:
    return ReplayView(**info._asdict()).model_dump()


def answer(shown: dict[str, Any]) -> Response:
    return Response(json.dumps(shown), 200, NO_STORE, "application/json")


class ReplayEndpoints:
    """One for all requests."""

    def __init__(self, context: Context, ingest: Ingest, budget: Budget) -> None:
        self.context = context
        self.ingest = ingest
        self.budget = budget

    async def located(self, request: Request) -> Replay:
        caller, vhost = await read_caller(self.context, request.scope)
        name = decode_segment(request.path_params["replay"])
        return Replay(caller, vhost, (*caller.identity, vhost, name))

    async def on_messages(self, request: Request) -> Response:
        replay = await self.located(request)
        query = read_query(request.scope["query_string"], ReplayQuery)
        replay = replay._replace(rate=query.rate, stop=query.on_error == "stop")
        self.ingest.publisher.check_open(replay.vhost)
        with self.budget.hold() as held:
            limit = self.context.settings.max_body_octets
            held.reach(check_length(request.scope, limit))
            body = await read_limited(request.scope, request.receive, limit)
            held.reach(len(body))
            messages = await read_messages(body)
            if query.dry_run:
                outcome = await rehearse(self.ingest, replay, messages)
            else:
                outcome = await self.ingest.run(replay, messages)
        return answer(outcome.document())

    async def on_list(self, request: Request) -> Response:
        caller, vhost = await read_caller(self.context, request.scope)
        found = self.ingest.keys.list(caller.identity, vhost)
        return answer({"replays": [view(info) for info in found]})

    def known(self, scope: Scope) -> ReplayInfo:
        info = self.ingest.keys.find(scope)
        if info is None:
            raise missing(scope)
        return info

    async def on_show(self, request: Request) -> Response:
        replay = await self.located(request)
        return answer(view(self.known(replay.scope)))

    async def on_delete(self, request: Request) -> Response:
        replay = await self.located(request)
        with self.context.dependencies.turn():
            if not self.ingest.keys.remove(replay.scope):
                raise missing(replay.scope)
        return Response(status_code=204)


def missing(scope: Scope) -> Problem:
    return Problem(problems.BY_STATUS[404], f"you have no replay {scope[3]!r} in {scope[2]!r}")


# --- reading ------------------------------------------------------------------------------------


async def read_messages(body: bytes) -> list[Replayed]:
    """Raises ``Problem``. A message that cannot be read is rejected with its own."""
    document = read_document(body)
    if not isinstance(document, dict) or document.keys() != {"messages"}:
        raise wrong("", "must be an object with the member messages")
    given = document["messages"]
    if not isinstance(given, list) or not 0 < len(given) <= MOST:
        raise wrong("/messages", f"must be an array of 1 to {MOST} messages")
    return [read_message(index, each) async for index, each in spread(enumerate(given))]


def read_message(index: int, given: Any) -> Replayed:
    """Raises ``Problem`` if its key or its target cannot be read."""
    where = f"/messages/{index}"
    if not isinstance(given, dict) or given.keys() != {*MEMBERS, "offset", "amqp10"}:
        names = ", ".join((*MEMBERS, "offset", "amqp10"))
        raise wrong(where, f"must be an object with the members {names}")
    for name, most in MEMBERS.items():
        text = given[name]
        if not isinstance(text, str) or not 0 < len(encoded(where, name, text)) <= most:
            raise wrong(f"{where}/{name}", f"must be text of 1 to {most} octets")
    offset = given["offset"]
    if type(offset) is not int or not 0 <= offset <= MOST_OFFSET:
        raise wrong(f"{where}/offset", "must be an integer of 64 bits from 0 on")
    source = Source(given["journal"], given["address"], offset)
    try:
        target = read_address(given["to"])
    except Problem as problem:
        raise wrong(f"{where}/to", problem.detail) from None
    try:
        octets = binascii.a2b_base64(given["amqp10"], strict_mode=True)
        found = restored(octets)
    except (TypeError, ValueError) as error:
        text = f"{where}/amqp10: {error}"
        return Replayed(source, target, Problem(problems.REFUSED, text))
    message = Message(
        found.dialect, found.header, found.body, target.exchange, target.key, found.essentials
    )
    return Replayed(source, target, message)


def encoded(where: str, name: str, text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise wrong(f"{where}/{name}", "is not Unicode text") from None


def wrong(pointer: str, text: str) -> Problem:
    errors = [{"pointer": pointer, "detail": text}]
    return Problem(problems.SCHEMA, f"{pointer or '/'}: {text}", errors=errors)


# --- description --------------------------------------------------------------------------------

REPLAY = in_path("replay", "Name of the replay, which its caller chooses", "orders-again")
INGEST_TEXT = f"""Publishes up to {MOST} messages of an archive, in their order, each once: a
message with a key (`journal`, `address`, `offset`) that was published in this replay of the same
caller before is a duplicate, also if the gateway was killed in between. The answer comes when the
messages are where they last. Messages of older versions that have a capsule are restored octet by
octet.

With `rate` all requests of a replay together publish so many messages per second; a request that
would have to wait for long ends before. A message that no queue takes, or that the broker refuses,
is rejected, and so is one whose absolute expiry time has passed. Behind a full queue nothing is
published: the answer's `attempted` says where to go on.

Keys are kept until the replay is deleted. A message that is not durable is published again if it
is sent again after a restart. A message for an upstream may be published twice if the gateway is
killed before the upstream's confirm has been recorded."""
EXAMPLE = {
    "messages": [
        {
            "journal": "orders-2025",
            "address": "/queues/orders",
            "offset": 17,
            "to": "/queues/orders",
            "amqp10": base64.b64encode(b"\x00\x53\x75\xa0\x05hello").decode(),
        }
    ]
}


def operation(name: str, summary: str, text: str, good: dict[str, Any], *rows: Any) -> Any:
    return {
        "tags": ["messages"],
        "operationId": name,
        "summary": summary,
        "description": text,
        "parameters": [VHOST, *([] if name == "list_replays" else [REPLAY])],
        "responses": {
            **row_responses(problems.INVALID, problems.NOT_FOUND, *rows),
            **good,
        },
    }


def routes(context: Context, sender: Sender, budget: Budget) -> list[BaseRoute]:
    endpoints = ReplayEndpoints(context, Ingest(context, sender), budget)
    ingest = operation(
        "replay_messages", "Publish messages of an archive once", INGEST_TEXT,
        {"200": {"description": "Their outcomes", "content": model_content(ReplayOutcome)}},
        problems.FORBIDDEN, problems.TOO_LARGE, problems.SCHEMA, problems.QUOTA,
        problems.BACKPRESSURE, problems.DRAINING,
    )  # fmt: skip
    ingest["parameters"] += in_queries(ReplayQuery)
    ingest["requestBody"] = {
        "required": True,
        "content": json_content(reference(ReplayBatch), EXAMPLE),
    }
    shown = operation(
        "list_replays", "List your replays", "Those whose keys are kept.",
        {"200": {"description": "By name", "content": model_content(ReplayList)}},
    )  # fmt: skip
    one = operation(
        "show_replay", "Show a replay", "How many messages were published in it.",
        {"200": {"description": "The replay", "content": model_content(ReplayView)}},
        problems.BY_STATUS[404],
    )  # fmt: skip
    deleted = operation(
        "delete_replay", "Forget the keys of a replay",
        "Its messages could be published again after that.",
        {"204": {"description": "Forgotten"}}, problems.BY_STATUS[404], problems.CONFLICT,
    )  # fmt: skip
    models: list[type[BaseModel]] = [
        ReplayBatch,
        ReplayMessage,
        ReplayOutcome,
        Rejected,
        ReplayView,
        ReplayList,
    ]

    def route(path: str, endpoint: Any, method: str, told: dict[str, Any]) -> BaseRoute:
        return Described(
            path, endpoint, methods=[method], operations={method.lower(): told}, models=models
        )

    return [
        route(MESSAGES, endpoints.on_messages, "POST", ingest),
        route(LIST, endpoints.on_list, "GET", shown),
        route(ONE, endpoints.on_show, "GET", one),
        route(ONE, endpoints.on_delete, "DELETE", deleted),
    ]

"""Consumers of the journal over HTTP: a name with a position, which outlives its reader.

Whoever may browse in a virtual host may keep consumers there. A consumer belongs to the user who
began it; administrators may change those of others.
"""

from typing import Annotated, Any, Literal, NamedTuple, Self

from pydantic import BeforeValidator, Field
from starlette.responses import Response

from gateway.broker.broker import Broker
from gateway.http import problems
from gateway.http.access.principal import MONITORS, Principal
from gateway.http.access.rights import Action
from gateway.http.admin.admin_endpoints import Call, Endpoint, Input, Rank, respond
from gateway.http.problems import Problem
from gateway.http.schemas import Shape
from gateway.http.typed import moment
from gateway.journal.consumers import Consumer, Consumers, TooMany, now
from gateway.journal.entries import JournalError
from gateway.journal.reader import JournalReader, Overview
from gateway.strict_json import whole

CONSUMERS = "/v1/{vhost}/journal/consumers"
ONE = CONSUMERS + "/{consumer}"
MOST = (1 << 63) - 1
SEEN_MS = 5000
"""Reading says that a consumer is here, as often as this."""


Whole = Annotated[int, BeforeValidator(whole)]
Position = Annotated[int, Field(ge=0, le=MOST), BeforeValidator(whole)]


class JournalConsumerInput(Input):
    """Where a consumer begins that is not there yet, and how far it is now."""

    start: Literal["earliest", "latest"] | Whole = Field(
        "earliest",
        description="of a new consumer: a position, or that of the oldest or the next entry",
        examples=["latest"],
    )
    position: Position | None = Field(None, description="it is done with all before", examples=[17])


class JournalConsumer(Shape):
    """A reader of the journal that has a name."""

    name: str = Field(examples=["report"])
    vhost: str = Field(description='"": it reads the files', examples=["/"])
    user: str = Field(description="user who began it", examples=["guest"])
    journal: str = Field(description="id of the journal that it reads")
    start: int = Field(description="position at which it began", examples=[0])
    position: int = Field(description="it is done with all before", examples=[17])
    lag: int | None = Field(
        description="positions up to the end; null: it reads a journal that is gone", examples=[3]
    )
    seen: str | None = Field(description="when it was here last")


class JournalConsumerList(Shape):
    consumers: list[JournalConsumer]


def view(one: Consumer, overview: Overview) -> JournalConsumer:
    return JournalConsumer(
        name=one.name,
        vhost=one.vhost,
        user=one.user,
        journal=one.journal,
        start=one.start,
        position=one.position,
        lag=one.lag(overview.id, overview.end),
        seen=moment(one.seen) if one.seen else None,
    )


def consumers_of(reader: JournalReader) -> Consumers:
    return Consumers(reader.directory)


def shown(reader: JournalReader, vhost: str, files: bool) -> list[JournalConsumer]:
    """Those of a virtual host, and of the files. On the journal's thread."""
    overview = reader.overview()
    found = consumers_of(reader).all()
    return [view(one, overview) for one in found if one.vhost == vhost or (files and not one.vhost)]


class ConsumerOwner(NamedTuple):
    """The caller, as an owner of consumers. ``all``: it may change those of others."""

    vhost: str
    user: str
    all: bool

    @classmethod
    def of(cls, broker: Broker, principal: Principal, vhost: str) -> Self:
        known = broker.access.user(principal.user)
        tags = () if known is None else known.tags
        return cls(vhost, principal.user, "administrator" in tags)


def find(reader: JournalReader, name: str, owner: ConsumerOwner) -> Consumer | None:
    """On the journal's thread. Raises ``Problem``: 400 for what is no name, 403 for the consumer
    of another user."""
    try:
        known = consumers_of(reader).get(name, owner.vhost)
    except JournalError as error:
        raise Problem(problems.INVALID, str(error)) from None
    if known is not None and known.user != owner.user and not owner.all:
        raise Problem(problems.FORBIDDEN, f"consumer {name!r} belongs to another user")
    return known


def greet(reader: JournalReader, name: str, owner: ConsumerOwner, overview: Overview) -> Consumer:
    """The consumer of this name, which is here. On the journal's thread. Raises ``Problem``."""
    known = find(reader, name, owner)
    if known is None:
        raise Problem(problems.NOT_FOUND, f"no consumer {name!r}")
    check_journal(known, overview)
    if now() - known.seen >= SEEN_MS:
        known = consumers_of(reader).advance(name, 0, owner.vhost)
    return known


def check_journal(known: Consumer, overview: Overview) -> None:
    """Raises ``Problem``."""
    if known.journal not in ("", overview.id):
        text = f"consumer {known.name!r} reads journal {known.journal}, and this is {overview.id}"
        raise Problem(problems.CONFLICT, text)


def keep(
    reader: JournalReader, name: str, given: JournalConsumerInput, owner: ConsumerOwner
) -> tuple[JournalConsumer, bool]:
    """The consumer of this name with its new position, and whether it is new. On the journal's
    thread. Raises ``Problem``."""
    overview = reader.overview()
    known = find(reader, name, owner)
    if given.position is not None and given.position > overview.end:
        text = f"the journal ends at position {overview.end}, before {given.position}"
        raise Problem(problems.CONFLICT, text)
    consumers = consumers_of(reader)
    new = known is None
    if known is None:
        start: Any = given.start
        start = {"earliest": overview.start, "latest": overview.end}.get(start, start)
        if not 0 <= start <= overview.end:
            text = f"start: the journal has positions {overview.start} to {overview.end}"
            raise Problem(problems.CONFLICT, text)
        fresh = Consumer(name, overview.id, start, start, now(), owner.vhost, owner.user)
        try:
            known = consumers.begin(fresh)
        except TooMany as error:
            raise Problem(problems.QUOTA, str(error), quota="consumers") from None
    check_journal(known, overview)
    position = known.position if given.position is None else given.position
    return view(consumers.advance(name, position, owner.vhost), overview), new


async def list_journal_consumers(call: Call) -> JournalConsumerList:
    thread, files = call.context.journal, call.tagged(MONITORS)
    return JournalConsumerList(
        consumers=await thread.run(lambda reader: shown(reader, call.vhost, files))
    )


def owner_of(call: Call) -> ConsumerOwner:
    return ConsumerOwner.of(call.context.broker, call.principal, call.vhost)


async def put_journal_consumer(call: Call) -> Response:
    name, owner = call.names["consumer"], owner_of(call)
    made, new = await call.context.journal.run(lambda reader: keep(reader, name, call.body, owner))
    return respond(made, 201 if new else 200)


async def delete_journal_consumer(call: Call) -> None:
    name, owner = call.names["consumer"], owner_of(call)

    def work(reader: JournalReader) -> bool:
        find(reader, name, owner)
        return consumers_of(reader).remove(name, owner.vhost)

    if not await call.context.journal.run(work):
        raise Problem(problems.NOT_FOUND, f"no consumer {name!r}")


ENDPOINTS = [
    Endpoint("GET", CONSUMERS, list_journal_consumers, "Who reads the journal", Rank.GUEST,
             gives=JournalConsumerList, refusals=(problems.CONFLICT,), tag="journal",
             action=Action.BROWSE,
             text="Users with the tag monitoring see readers of the files too."),
    Endpoint("PUT", ONE, put_journal_consumer, "Keep a position", Rank.GUEST,
             takes=JournalConsumerInput, gives=JournalConsumer, also={201: "Begun"}, optional=True,
             refusals=(problems.CONFLICT, problems.QUOTA), tag="journal", action=Action.BROWSE,
             example={"start": "latest"},
             text="A consumer that is not there begins at `start`; `position` says that it is done "
             "with all before, and never goes back. Retention does not wait for consumers."),
    Endpoint("DELETE", ONE, delete_journal_consumer, "Forget a consumer", Rank.GUEST, status=204,
             refusals=(problems.NOT_FOUND, problems.CONFLICT), tag="journal",
             action=Action.BROWSE),
]  # fmt: skip

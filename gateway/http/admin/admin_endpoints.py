"""How the administration's routes are made: one ``Endpoint`` per method and path.

The route, its checks (permission, parameters, body) and its OpenAPI operation come from the same
entry, so that the description cannot differ from the behaviour. A change is answered when it is on
disk.
"""

import asyncio
import json
import math
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache
from typing import Any, TypeVar, get_args, get_origin

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from gateway.bridge.waiting import until_answered
from gateway.broker.local import LocalChannel, LocalClient
from gateway.errors import Condition, Refusal
from gateway.http import problems
from gateway.http.access.principal import MONITORS, Action, Principal
from gateway.http.context import Context
from gateway.http.mistakes import mistakes, summary
from gateway.http.path_segments import decode_segment
from gateway.http.portions import Portioned, array, spread
from gateway.http.problems import Problem, Row
from gateway.http.request_parameters import authenticate, read_limited, read_query
from gateway.strict_json import deeper, once, refuse

AT_ONCE = 64 * 1024
"""Octets of a body that is read within the loop."""
SMALL_OCTETS = 1 << 20
"""Most octets of a body that is not definitions."""
MOST_DEPTH = 32
MOST_ERRORS = 32

T = TypeVar("T")


class Rank(Enum):
    """The permission that an endpoint requires."""

    ANYBODY = "anybody"
    USER = "any user"
    GUEST = "a user with a permission in the virtual host"
    MONITOR = "a user with the tag administrator or monitoring"
    ADMINISTRATOR = "a user with the tag administrator"


class Input(BaseModel):
    """A request body: unknown members are errors, and types are strict."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, defer_build=True)


async def act(context: Context, work: Callable[[], T]) -> T:
    """Do the work in a turn of the broker, and wait until it is on disk. Raises ``Problem`` 504."""
    dependencies = context.dependencies
    safe: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    with dependencies.turn():
        done = work()
        context.broker.when_safe(lambda: None if safe.done() else safe.set_result(None))
    try:
        async with asyncio.timeout(dependencies.settings.confirm_seconds):
            await safe
    except TimeoutError:
        raise Problem(problems.UNKNOWN, "the change was applied, but not on disk in time") from None
    return done


@dataclass(slots=True)
class Call:
    """One request for its handler: names decoded, body and parameters checked."""

    context: Context
    request: Request
    principal: Principal
    names: dict[str, str]
    query: Any = None
    body: Any = None

    @property
    def user(self) -> str:
        return self.principal.user

    @property
    def vhost(self) -> str:
        return self.names["vhost"]

    def tagged(self, tags: Iterable[str]) -> bool:
        known = self.context.broker.access.user(self.user)
        return known is not None and not frozenset(tags).isdisjoint(known.tags)

    async def act(self, work: Callable[[], T]) -> T:
        """Do the work in a turn of the broker, and wait until it is on disk."""
        return await act(self.context, work)

    async def on_channel(self, work: Callable[[LocalChannel], T]) -> T:
        """Do the work on a channel with the caller's permissions."""
        if self.vhost in self.context.broker.facades:
            return await self.at_upstream(work)
        return await self.act(lambda: self.with_channel(work))

    async def at_upstream(self, work: Callable[[LocalChannel], T]) -> T:
        """Likewise in a facade, whose upstream has to answer."""
        turn = self.context.dependencies.turn
        with turn():
            client = LocalClient(
                self.context.broker, self.vhost, self.user, f"HTTP call of {self.user}"
            )
            channel = client.channel()
        try:
            return await until_answered(turn, lambda: work(channel), lambda: channel)
        finally:
            with turn():
                client.close()

    def with_channel(self, work: Callable[[LocalChannel], T]) -> T:
        """Within a turn."""
        name = f"HTTP call of {self.user}"
        client = LocalClient(self.context.broker, self.vhost, self.user, name)
        try:
            return work(client.channel())
        finally:
            client.close()


@contextmanager
def precondition(row: Row) -> Iterator[None]:
    """Answer "precondition failed" with this problem."""
    try:
        yield
    except Refusal as refusal:
        if refusal.condition is not Condition.PRECONDITION_FAILED:
            raise
        amqp = {"condition": refusal.condition.value, "description": refusal.text}
        raise Problem(row, refusal.text, amqp=amqp) from None


Handler = Callable[[Call], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """``handle`` answers with a model (sent with ``status``), with ``None`` (204), or with a whole
    response. ``takes`` and ``gives`` are pydantic models; ``also`` adds statuses to the
    description. ``example`` is a body that works on the topology that tests make."""

    method: str
    path: str
    handle: Handler
    summary: str
    rank: Rank
    text: str = ""
    takes: Any = None
    gives: Any = None
    query: type[BaseModel] | None = None
    status: int = 200
    also: dict[int, str] = field(default_factory=dict)
    refusals: tuple[Row, ...] = ()
    example: Any = None
    answer: Any = None
    """An example of the answer."""
    limit: Callable[[Context], int] = lambda context: SMALL_OCTETS
    any_type: bool = False
    """Read any content type as JSON, as RabbitMQ does."""
    optional: bool = False
    """The body may be left out."""
    tag: str = "administration"
    media: str = "application/json"
    schema: dict[str, Any] | None = None
    """Describes the body if ``takes`` is not specific enough."""
    read_large: Callable[["Call", bytes], Awaitable[Any]] | None = None
    """Reads a large body in steps, instead of all at once as JSON."""
    wrong_shape: Row = problems.SCHEMA
    hidden: bool = False
    on_error: Callable[[Problem | Refusal], Response] | None = None
    """Answers errors in another form than problem documents."""
    action: Action = Action.ADMIN
    """The action that a narrowed credential must allow; for ranks without a tag."""

    raw: str = ""
    """Media type of a body that is handed over as octets; any other is taken as well."""

    operation_id: str = ""
    """In the description; the name of ``handle`` if empty."""

    @property
    def name(self) -> str:
        return self.operation_id or self.handle.__name__.replace("show_one_", "show_")


class PathEndpoint:
    """The endpoints of one path. An ASGI application."""

    def __init__(self, context: Context, endpoints: list[Endpoint]) -> None:
        self.context = context
        self.by_method = {one.method: one for one in endpoints}
        self.__name__ = endpoints[0].name

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        method = "GET" if request.method == "HEAD" else request.method
        endpoint = self.by_method[method]
        try:
            response = await self.answer(endpoint, request)
        except (Problem, Refusal) as error:
            if endpoint.on_error is None:
                raise
            response = endpoint.on_error(error)
        await response(scope, receive, send)

    async def answer(self, endpoint: Endpoint, request: Request) -> Response:
        principal = Principal("")
        if endpoint.rank is not Rank.ANYBODY:
            principal = await authenticate(self.context, request.scope)
        names = {name: decode_segment(raw) for name, raw in request.path_params.items()}
        call = Call(self.context, request, principal, names)
        admit(call, endpoint)
        if endpoint.query is not None:
            call.query = read_query(request.scope["query_string"], endpoint.query)
        if endpoint.raw:
            limit = endpoint.limit(self.context)
            call.body = await read_limited(request.scope, request.receive, limit)
        if endpoint.takes is not None:
            call.body = await read_body(call, endpoint)
        made = await endpoint.handle(call)
        if isinstance(made, Response):
            return made
        return respond(made, endpoint.status)


def admit(call: Call, endpoint: Endpoint) -> None:
    """Raises ``Problem`` 403, and 404 for a virtual host that does not exist."""
    rank, broker = endpoint.rank, call.context.broker
    if rank is Rank.ANYBODY:
        return
    if rank is Rank.ADMINISTRATOR:
        call.principal.need_admin(broker, "administrator")
    elif rank is Rank.MONITOR:
        call.principal.need_admin(broker, *sorted(MONITORS))
    else:
        kind = next((kind for kind in ("queue", "exchange") if kind in call.names), "*")
        vhost, name = call.names.get("vhost", "*"), call.names.get(kind, "*")
        if not call.principal.may(endpoint.action, vhost, kind, name):
            text = f"this needs a credential with the action {endpoint.action.value}"
            raise Problem(problems.FORBIDDEN, text)
    if rank is Rank.GUEST:
        if call.vhost not in broker.vhosts:
            raise problems.no_vhost(call.vhost)
        may = broker.access.may_enter(call.user, call.vhost)
        if not may and not call.tagged(MONITORS):
            raise Problem(problems.FORBIDDEN, f"no permission in virtual host {call.vhost!r}")


def check_type(request: Request) -> None:
    media = request.headers.get("content-type", "application/json").partition(";")[0].strip()
    if media.lower() != "application/json":
        raise problems.not_json(media)


async def read_body(call: Call, endpoint: Endpoint) -> Any:
    """The body as its model. Raises ``Problem``."""
    if not endpoint.any_type:
        check_type(call.request)
    octets = await read_limited(
        call.request.scope, call.request.receive, endpoint.limit(call.context)
    )
    if not octets and endpoint.optional:
        octets = b"{}"
    large = len(octets) > AT_ONCE
    if large and endpoint.read_large is not None:
        return await endpoint.read_large(call, octets)
    # Parsing a megabyte takes as long as a turn may; a thread lets the loop serve others.
    value = await asyncio.to_thread(parse, octets) if large else parse(octets)
    try:
        if large and isinstance(value, dict) and is_model(endpoint.takes):
            return await read_large(endpoint.takes, value)
        return reader_of(endpoint.takes).validate_json(octets)
    except ValidationError as error:
        raise misshaped(endpoint, told(error, endpoint.takes)) from None
    except InvalidEntries as wrong:
        raise misshaped(endpoint, wrong.errors) from None


def parse(octets: bytes) -> Any:
    """Raises ``Problem``."""
    try:
        value = json.loads(octets, parse_constant=refuse, object_pairs_hook=once)
    except (ValueError, RecursionError) as error:
        raise problems.broken_json(error) from None
    if deeper(value, MOST_DEPTH):
        raise Problem(problems.INVALID, f"the body is nested more than {MOST_DEPTH} deep")
    return value


Errors = list[dict[str, str]]


class InvalidEntries(Exception):
    """Entries of a large body."""

    def __init__(self, errors: Errors) -> None:
        super().__init__("misshaped")
        self.errors = errors


def is_model(takes: Any) -> bool:
    return isinstance(takes, type) and issubclass(takes, BaseModel)


def told(error: ValidationError, takes: Any, *place: Any) -> Errors:
    return mistakes(error, takes, *place)[:MOST_ERRORS]


def misshaped(endpoint: Endpoint, errors: Errors) -> Problem:
    return Problem(endpoint.wrong_shape, summary(errors), errors=errors)


async def read_large(takes: type[BaseModel], value: dict[str, Any]) -> BaseModel:
    """The body as its model, its lists entry by entry, so that others are served in between. Raises
    ``ValidationError`` and ``InvalidEntries``."""
    fields = takes.model_fields
    kinds = {n: one.annotation for n, one in fields.items() if get_origin(one.annotation) is list}
    long = {n: each for n, each in value.items() if isinstance(each, list) and n in kinds}
    rest = {name: each for name, each in value.items() if name not in long}
    # One entry stands for each list, which may be a required one.
    shown = {name: entries[:1] for name, entries in long.items()}
    made = takes.model_validate_json(json.dumps(rest | shown))
    errors: Errors = [
        {"pointer": f"/{name}", "detail": f"List should have at most {most} items"}
        for name, entries in long.items()
        if len(entries) > (most := longest(fields[name]))
    ]
    if errors:
        raise InvalidEntries(errors)
    lists: dict[str, list[Any]] = {name: [] for name in long}
    for name, entries in long.items():
        (kind,) = get_args(kinds[name])
        reader = reader_of(kind)
        async for at, one in spread(enumerate(entries)):
            try:
                lists[name].append(reader.validate_json(json.dumps(one)))
            except ValidationError as error:
                errors += told(error, kind, name, at)
                if len(errors) >= MOST_ERRORS:
                    raise InvalidEntries(errors[:MOST_ERRORS]) from None
    if errors:
        raise InvalidEntries(errors)
    return made.model_copy(update=lists)


def longest(field: FieldInfo) -> float:
    """Most entries of a list."""
    given = [one.max_length for one in field.metadata if hasattr(one, "max_length")]
    return min(given, default=math.inf)


@lru_cache(256)
def reader_of(takes: Any) -> TypeAdapter[Any]:
    """The cached adapter: making one costs more than a whole request."""
    return TypeAdapter(takes)


def listed(name: str, items: Iterable[BaseModel]) -> Response:
    """``{name: [...]}`` of a possibly long list."""
    shown = (one.model_dump_json().encode() for one in items)
    parts = array(shown, b'{"%b":[' % name.encode(), b"]}")
    return Portioned(parts, {"cache-control": "no-store"})


def respond(made: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """A model as JSON; ``None`` is 204."""
    headers = {"cache-control": "no-store", **(headers or {})}
    if made is None:
        return Response(status_code=204, headers=headers)
    octets = made.model_dump_json() if isinstance(made, BaseModel) else json.dumps(made)
    return Response(octets, status, headers, "application/json")

"""Bodies of the requests of receiving, as pydantic models, and how they are read."""

import json
from functools import lru_cache
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.json_schema import SkipJsonSchema
from starlette.requests import Request

from gateway.http import problems
from gateway.http.filters import (
    MOST_TERMS,
    Filter,
    FilterText,
    SelectorText,
    Term,
    read_filter,
    read_selector,
)
from gateway.http.mistakes import mistakes
from gateway.http.problems import misshapen
from gateway.http.request_parameters import read_limited
from gateway.strict_json import once, refuse, whole

MOST_OCTETS = 1024 * 1024
"""Of a JSON request."""
LONGEST_WAIT = 60_000
LONGEST_LEASE = 1_800_000

View = Literal["simple", "full"]
Payload = Literal["auto", "base64"]
T = TypeVar("T")


class RequestBody(BaseModel):
    """Unknown members are errors: a misspelt ``lease_ms`` must not lose a message."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, defer_build=True)


class Receive(RequestBody):
    """The number of messages, the time to wait for the first, and the duration of the lease."""

    max: Annotated[int, Field(ge=1, le=1000)] = 1
    wait_ms: Annotated[
        int, Field(ge=0, le=LONGEST_WAIT, description="time to wait for the first message")
    ] = 0
    lease_ms: Annotated[int, Field(ge=1000, le=LONGEST_LEASE)] = 30_000
    view: Literal["simple", "full", "raw"] | None = Field(
        default=None,
        description="raw: the unchanged body of one message, metadata in HTTP fields",
        examples=["simple"],
    )
    payload: Payload = "auto"
    mode: Literal["lease", "auto"] = Field(
        default="lease", description="auto: accepted when the answer is written (at most once)"
    )
    filter: FilterText | Annotated[list[FilterText], Field(max_length=MOST_TERMS)] | None = Field(
        default=None,
        description="filters of event streams, such as FIELD=VALUE; all must match",
        examples=["property.kind=invoice"],
    )
    selector: SelectorText | None = Field(
        default=None,
        description="JMS selector on properties and header fields",
        examples=["kind = 'invoice' AND amount > 100"],
    )
    group: Annotated[str, Field(min_length=1, max_length=1024)] | None = Field(
        default=None, description="group id of the messages", examples=["g-17"]
    )
    max_deliveries: Annotated[int, Field(ge=1, le=1_000_000)] | None = Field(
        default=None,
        description="number of deliveries after which a message is dead-lettered instead",
        examples=[5],
    )

    def wanted(self) -> Filter:
        """The conditions on a message."""
        given = self.filter if isinstance(self.filter, list) else [self.filter or ""]
        terms = tuple(read_filter(one) for one in given if one)
        if self.group is not None:
            terms += (Term("group", "=", self.group),)
        return Filter(terms, None if self.selector is None else read_selector(self.selector))


class Query(BaseModel):
    """A query without parameters, and the base of others."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class ViewQuery(Query):
    """The parameters of a request that shows messages."""

    view: View = Field(default="simple", description="Form of messages")
    payload: Payload = Field(default="auto", description="`base64`: all bodies in base64")


Position = Annotated[str, Field(pattern="^[0-9]{1,3}-[0-9]{1,13}$")]
"""Priority and position of a message in its queue."""


class PageQuery(ViewQuery):
    """The parameters of a page of messages."""

    after: Position | SkipJsonSchema[None] = Field(
        default=None, description="Continue after this position", examples=["0-16"]
    )
    limit: int = Field(default=50, ge=1, le=1000, description="Maximum number of messages")
    crossings: bool = Field(
        default=False,
        description="Each message also as the readers of other versions get it",
        examples=[True],
    )


class Renew(RequestBody):
    """New duration of a lease, from now."""

    lease_ms: Annotated[int, Field(ge=1000, le=LONGEST_LEASE)] = 30_000


class Release(RequestBody):
    """Return the message to its position in the queue. The broker counts every delivery, ``failed``
    or not."""

    failed: bool = False


class Reject(RequestBody):
    """The message is dead-lettered if the queue has a dead letter exchange, else dropped. The
    reason goes with it."""

    reason: str | None = Field(default=None, max_length=255)
    description: str | None = Field(default=None, max_length=4096)


Long = Annotated[int, Field(ge=-(2**63), lt=2**63)]
Scalar = bool | Long | float | str | None
Note = Annotated[str, Field(pattern=r"^x-opt-[!-~]+$", max_length=128)]


class Modify(RequestBody):
    """The message returns to the queue with annotations; with ``undeliverable_here`` it
    is dead-lettered instead."""

    delivery_failed: bool = False
    undeliverable_here: bool = False
    annotations: dict[Note, Scalar] = Field(
        default={}, max_length=32, json_schema_extra={"additionalProperties": False}
    )


class SettleItem(Reject, Modify):
    """One item of a bulk settlement: a token and its outcome."""

    token: str = Field(max_length=1024)
    outcome: Literal["accepted", "released", "rejected", "modified", "renewed"]
    lease_ms: Annotated[int, Field(ge=1000, le=LONGEST_LEASE)] = 30_000


def short(name: str) -> str:
    if len(name.encode()) > 255:
        raise ValueError("longer than 255 octets")
    return name


Name = Annotated[str, Field(max_length=255), AfterValidator(short)]


class Target(RequestBody):
    """An exchange and a routing key; the exchange "" routes to the queue named by the key."""

    exchange: Name = ""
    routing_key: Name


class DeadLetterFilter(RequestBody):
    """Selection of dead letters: all given members must match."""

    reason: Literal["rejected", "expired", "maxlen", "delivery_limit"] | None = None
    queue: str | None = Field(default=None, description="queue of the last death")
    properties: dict[str, Scalar] = Field(default={}, description="headers that must be equal")


class Redrive(RequestBody):
    """Selection, target and rate of a redrive."""

    filter: DeadLetterFilter = DeadLetterFilter()
    limit: Annotated[int, Field(ge=1, le=100_000)] = 1000
    rate: Annotated[float, Field(gt=0, le=100_000, description="messages per second")] | None = None
    to: Literal["exchange", "queue"] | Target = Field(
        default="exchange",
        description="exchange: the exchange of the first publish; queue: the queue of the first "
        "death",
    )
    after: Position | None = Field(default=None, description="position to continue from")


@lru_cache(256)
def reader_of(kind: Any) -> TypeAdapter[Any]:
    """Making one costs more than a whole request."""
    return TypeAdapter(kind)


def check(kind: Any, given: Any) -> Any:
    """Raises ``Problem`` 422 with a pointer to each error."""
    try:
        return reader_of(kind).validate_python(given)
    except ValidationError as error:
        raise misshapen(mistakes(error, kind)) from None


async def read_json(request: Request) -> Any:
    """The JSON of a request, ``None`` if it has no body. Raises ``Problem``."""
    octets = await read_limited(request.scope, request.receive, MOST_OCTETS)
    if not octets:
        return None
    try:
        return json.loads(
            octets,
            parse_float=lambda text: whole(float(text)),
            parse_constant=refuse,
            object_pairs_hook=once,
        )
    except (ValueError, RecursionError) as error:
        raise problems.broken_json(error) from None


async def read_request(request: Request, kind: type[T]) -> T:
    """The body as a model; an empty one gives the defaults. Raises ``Problem``."""
    given = await read_json(request)
    found: T = check(kind, {} if given is None else given)
    return found

"""The parameters of a stream, as they stand in the query, the path, the fields and the body of a
request, and their meaning: its sources, its options, and its start."""

import json
import re
from collections.abc import Callable, Collection, Iterable
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, NamedTuple, TypeVar
from urllib.parse import parse_qsl

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic.json_schema import SkipJsonSchema
from starlette.types import Scope

from gateway.config.web import HttpSettings
from gateway.http import problems
from gateway.http.access.catalogue import PARAMETER, PREFIX, Catalogue, Filled
from gateway.http.events.rendering import Format
from gateway.http.events.sources import SourceName
from gateway.http.events.stream import Options, Slow
from gateway.http.events.views import ViewSpec
from gateway.http.filters import (
    MOST_TERMS,
    Filter,
    FilterText,
    SelectorText,
    read_filter,
    read_selector,
)
from gateway.http.mistakes import text_of
from gateway.http.path_segments import decode_segment
from gateway.http.problems import Problem
from gateway.similar_names import did_you_mean
from gateway.strict_json import once, refuse

MOST_FIELDS = 256
Pairs = list[tuple[str, str]]
BINDING = "?binding="
MAX_NAME = 255
Ack = Literal["none", "on-next", "explicit"]
"""Prefix that pydantic adds to the text of a ``ValueError``."""


class StreamParameters(NamedTuple):
    """``names`` are those in the path, by their kind. ``pairs`` are the query without its
    ``tickets``; ``media`` is the type of the body, ``last_event_id`` and ``origin`` are the headers
    of these names."""

    names: dict[str, str]
    pairs: Pairs
    tickets: list[str]
    last_event_id: str | None
    media: bytes
    origin: bytes | None

    @property
    def cursor(self) -> str | None:
        """The header wins over the parameter of the same meaning."""
        return self.last_event_id or dict(self.pairs).get("last_event_id")


def read_stream_parameters(scope: Scope, query: Pairs) -> StreamParameters:
    """Raises ``Problem``."""
    fields: dict[bytes, bytes] = dict(scope["headers"])
    last = fields.get(b"last-event-id")
    return StreamParameters(
        {kind: decode_segment(one) for kind, one in scope["path_params"].items()},
        [pair for pair in query if pair[0] != "ticket"],
        [value for key, value in query if key == "ticket"],
        None if last is None else last.decode("latin-1"),
        fields.get(b"content-type", b"").partition(b";")[0].strip().lower(),
        fields.get(b"origin"),
    )


def invalid(detail: str) -> Problem:
    return Problem(problems.INVALID, detail)


def read_pairs(query: bytes) -> Pairs:
    """Raises ``Problem``."""
    try:
        return parse_qsl(
            query.decode("ascii"),
            keep_blank_values=True,
            errors="strict",
            max_num_fields=MOST_FIELDS,
        )
    except (UnicodeDecodeError, ValueError):
        raise invalid("the query is not percent-encoded UTF-8, or too long") from None


def decimal(text: str) -> str:
    """Raises ``ValueError``."""
    if not re.fullmatch(r"[0-9]{1,9}", text):
        raise ValueError("must be a whole number")
    return text


WHOLE = BeforeValidator(decimal)
M = TypeVar("M", bound=BaseModel)


class StreamQuery(BaseModel):
    """The parameters of a stream beside its sources, as text. ``None``: a default that depends on
    the settings or on other parameters."""

    start: str = Field(
        default="latest",
        alias="from",
        description="Start of a first connection: `latest`, `earliest`, `offset:N` (a position "
        "from `gateway.open`), `time:RFC3339`, or a duration back from now, `-PT5M`",
    )
    last_event_id: str | SkipJsonSchema[None] = Field(
        default=None, description="Cursor, as in the header `Last-Event-ID`", examples=["b1.Qk0"]
    )
    heartbeat: Annotated[int, Field(ge=5, le=55), WHOLE] | SkipJsonSchema[None] = Field(
        default=None, description="Seconds between heartbeats on an idle stream", examples=[15]
    )
    keepalive: Literal["comment", "event"] = Field(
        default="comment", description="Form of heartbeats"
    )
    filter: list[FilterText] = Field(
        default=[],
        max_length=MOST_TERMS,
        description="Filter on events; repeatable, all must match",
        examples=[["subject^=eur."]],
    )
    selector: SelectorText | SkipJsonSchema[None] = Field(
        default=None,
        description="JMS selector on events; applies in addition to all filters",
        examples=["kind = 'invoice' AND JMSPriority > 3"],
    )
    format: Format = Field(default="json", description="Content of `data:` lines")
    payload: Literal["auto", "base64"] = Field(
        default="auto", description="`base64`: all bodies in base64, none as JSON or text"
    )
    event: Literal["none", "subject", "type", "source"] = Field(
        default="none", description="Content of `event:` lines"
    )
    slow: Literal["pause", "skip", "latest", "close"] | SkipJsonSchema[None] = Field(
        default=None, description="Treatment of a reader that falls behind", examples=["skip"]
    )
    ack: Ack = Field(default="none", description="Time at which messages of a queue are accepted")
    credit: Annotated[int, Field(ge=1, le=1000), WHOLE] | SkipJsonSchema[None] = Field(
        default=None, description="Maximum number of unaccepted messages", examples=[32]
    )
    lease_ms: Annotated[int, Field(ge=1000, le=1_800_000), WHOLE] | SkipJsonSchema[None] = Field(
        default=None, description="Duration of a lease (`ack=explicit`)", examples=[30000]
    )
    journal: Literal["memory", "durable"] | SkipJsonSchema[None] = Field(
        default=None, description="Journal of exchange sources", examples=["durable"]
    )
    errors: Literal["http", "inband"] = Field(default="http", description="Form of errors")

    @property
    def conditions(self) -> Filter:
        terms = tuple(dict.fromkeys(map(read_filter, self.filter)))
        return Filter(terms, None if self.selector is None else read_selector(self.selector))


class StreamChange(BaseModel):
    """Sources to add and to remove. ``from`` and ``last_event_id`` apply to added ones."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    add: list[str] = Field(default=[], examples=[["exchange:prices?binding=usd.#"]])
    remove: list[str] = Field(default=[], description="names of sources, as the stream shows them")
    start: str = Field(default="latest", alias="from")
    last_event_id: str | None = None


NAMES = frozenset(field.alias or name for name, field in StreamQuery.model_fields.items())
PARAMETERS = NAMES | {"source", "binding", "ticket"}
"""No parameter of a route has such a name."""
DURATION = re.compile(
    r"-P(?:(\d{1,4})D)?(?:T(?:(\d{1,5})H)?(?:(\d{1,7})M)?(?:(\d{1,9})(?:\.(\d{1,3}))?S)?)?",
    re.ASCII,
)
Find = Callable[[str], Filled]
"""The declared route that ``route:NAME`` stands for. Raises ``Problem``."""


class Start(NamedTuple):
    """Where a first connect begins. ``value``: a position; ms since 1970; ms before now."""

    kind: Literal["latest", "earliest", "offset", "time", "ago"] = "latest"
    value: int = 0


class StreamRequest(NamedTuple):
    """``cursor`` is ``None`` for a first connect; ``durable`` if nothing is said of the journal;
    ``aliases`` are the declared routes by which some of ``names`` were asked for."""

    names: list[SourceName]
    start: Start
    cursor: str | None
    options: Options
    durable: bool | None
    lease_ms: int = 30_000
    aliases: dict[SourceName, Filled] = {}

    @property
    def labels(self) -> list[str]:
        """The sources as the reader calls them."""
        aliases = self.aliases
        return [aliases[one].shown if one in aliases else str(one) for one in self.names]


def no_routes(text: str) -> Filled:
    raise Problem(problems.NOT_FOUND, "no such route")


class StreamRequests:
    """Reads requests for streams. ``kind``: the kind of the source in the path ("queue",
    "exchange", "route"), or ""."""

    def __init__(self, kind: str, catalogue: Catalogue, settings: HttpSettings) -> None:
        self.kind = kind
        self.catalogue = catalogue
        self.settings = settings

    def from_body(self, given: StreamParameters, body: bytes) -> Pairs:
        """The parameters in the JSON body of a request. Raises ``Problem``."""
        return pairs_of(read_object(body, self.members(given.names)))

    def members(self, names: dict[str, str]) -> frozenset[str]:
        """The members that a body may have. Raises ``Problem``: there is no such route."""
        if not self.kind:
            return NAMES | {"source", "binding"}
        if self.kind != "route":
            return NAMES | {"binding"}
        route = self.catalogue.route(names["vhost"], names["route"])
        return NAMES | {"binding"} | set(PARAMETER.findall(route.key))

    def from_parameters(self, given: StreamParameters, pairs: Pairs) -> StreamRequest:
        """Raises ``Problem``."""
        catalogue, vhost = self.catalogue, given.names["vhost"]
        implied: SourceName | Filled | None = None
        if self.kind == "route":
            route = catalogue.route(vhost, given.names["route"])
            names = set(PARAMETER.findall(route.key))
            filling = {key: value for key, value in pairs if key in names}
            implied = catalogue.filled(vhost, route.name, filling)
            pairs = [pair for pair in pairs if pair[0] not in names]
        elif self.kind:
            implied = SourceName(self.kind, given.names[self.kind])
            if not implied.name:
                raise invalid("the default exchange has no events of its own")
        return read_stream_request(
            pairs,
            given.last_event_id,
            self.settings.heartbeat_seconds,
            implied,
            min(1000, self.settings.queue_prefetch // 2),
            lambda text: catalogue.source(vhost, text),
        )


def read_object(body: bytes, known: Collection[str]) -> dict[str, Any]:
    """A JSON object with these members, or some of them. Raises ``Problem``."""
    try:
        document = json.loads(body, object_pairs_hook=once, parse_constant=refuse)
        json.dumps(document, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise invalid("the body has a lone surrogate") from None
    except (ValueError, RecursionError) as error:
        raise problems.broken_json(error) from None
    if not isinstance(document, dict):
        raise invalid("the body is not a JSON object")
    if odd := document.keys() - known:
        raise problems.strange_member(min(odd), known)
    return document


def pairs_of(document: dict[str, Any]) -> Pairs:
    """The parameters in a JSON object, those that may be repeated as lists. Raises ``Problem``."""
    pairs: Pairs = []
    for key, value in document.items():
        for one in value if isinstance(value, list) else [value]:
            if isinstance(one, bool) or not isinstance(one, str | int):
                raise invalid(f"{key} must be text, a whole number, or a list of such")
            pairs.append((key, str(one)))
    if len(pairs) > MOST_FIELDS:
        raise invalid("too many values")
    return pairs


def validated(model: type[M], given: dict[str, Any]) -> M:
    """Raises ``Problem`` with the first error."""
    try:
        return model.model_validate(given)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        raise invalid(f"{first['loc'][0]}: {text_of(first, model)}") from None


def read_stream_request(
    pairs: Iterable[tuple[str, str]],
    last_event_id: str | None,
    default_heartbeat: int,
    implied: SourceName | Filled | None = None,
    most_credit: int = 128,
    find: Find = no_routes,
) -> StreamRequest:
    """``implied``: the source that the path names. Raises ``Problem``."""
    given: dict[str, Any] = {"filter": []}
    sources = Sources(find)
    if implied is not None:
        sources.add(implied)
    for key, value in pairs:
        if key == "source" and implied is None:
            sources.read(value)
        elif key == "binding":
            sources.bind(value)
        elif key == "filter":
            given[key].append(value)
        elif key not in NAMES:
            raise invalid(f"no such parameter: {key}{did_you_mean(key, PARAMETERS)}")
        elif key in given:
            raise invalid(f"{key} given twice")
        else:
            given[key] = value
    query = validated(StreamQuery, given)
    return StreamRequest(
        sources.names,
        read_start(query.start),
        last_event_id or query.last_event_id or None,
        read_options(query, sources.names, default_heartbeat, most_credit),
        None if query.journal is None else query.journal == "durable",
        query.lease_ms or 30_000,
        sources.aliases,
    )


def read_options(
    query: StreamQuery, names: list[SourceName], default_heartbeat: int, most_credit: int
) -> Options:
    """Raises ``Problem``."""
    ack, slow = query.ack, None if query.slow is None else Slow(query.slow)
    check_kinds(slow, ack, names)
    if ack == "explicit" and (len(names) != 1 or slow is not None):
        raise invalid("ack=explicit reads one queue, and takes no slow")
    if query.credit is not None and ack == "none":
        raise invalid("credit needs ack=on-next or ack=explicit")
    if query.lease_ms is not None and ack != "explicit":
        raise invalid("lease_ms needs ack=explicit")
    opaque = query.payload == "base64"
    if opaque and query.format == "text":
        raise invalid("format=text shows bodies as they are, not as base64")
    most = 1000 if ack == "explicit" else most_credit
    credit = query.credit or min(32, most)
    if credit > most:
        raise invalid(f"credit must be from 1 to {most}")
    return Options(
        query.heartbeat or default_heartbeat,
        ViewSpec(query.format, query.event, opaque, query.conditions),
        slow,
        credit if ack != "none" else 0,
        query.keepalive == "event",
        ack,
    )


def check_kinds(slow: Slow | None, ack: str, names: list[SourceName]) -> None:
    """Raises ``Problem`` if the options have no meaning for one of the sources."""
    if not any(name.kind == "exchange" for name in names):
        return
    if slow is Slow.PAUSE:
        raise invalid("an exchange does not wait for one reader; slow=pause needs queues")
    if ack != "none":
        raise invalid(f"there is nothing to accept from an exchange; ack={ack} needs queues")


def read_start(text: str) -> Start:
    kind, colon, rest = text.partition(":")
    if text in ("latest", "earliest"):
        return Start("latest" if text == "latest" else "earliest")
    if kind == "offset" and re.fullmatch(r"[0-9]{1,12}", rest):
        return Start("offset", int(rest))
    if kind == "time" and colon:
        return Start("time", read_moment(rest))
    found = DURATION.fullmatch(text)
    if found is not None and any(found.groups()):
        days, hours, minutes, seconds, fraction = (part or "0" for part in found.groups())
        total = ((int(days) * 24 + int(hours)) * 60 + int(minutes)) * 60 + int(seconds)
        return Start("ago", total * 1000 + int(fraction.ljust(3, "0")))
    raise invalid("from must be latest, earliest, offset:N, time:RFC3339 or -PT5M")


def read_moment(text: str) -> int:
    """RFC 3339, with an offset, as ms since 1970."""
    try:
        if not re.match(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d", text, re.ASCII):
            raise ValueError
        found = datetime.fromisoformat(text)
        if found.tzinfo is None:
            raise ValueError
        return int(found.astimezone(UTC).timestamp() * 1000)
    except (ValueError, OverflowError):
        raise invalid("from=time: needs RFC 3339 with an offset, as 2026-01-31T09:30:00Z") from None


def read_source(text: str) -> SourceName:
    kind, colon, rest = text.partition(":")
    if kind == "queue" and colon:
        name = SourceName("queue", rest)
    elif kind == "exchange" and colon:
        exchange, marked, key = rest.partition(BINDING)
        name = SourceName("exchange", exchange, key if marked else None)
    else:
        raise invalid("source must be queue:NAME, exchange:NAME?binding=KEY or route:NAME")
    if not name.name or len(name.name.encode()) > MAX_NAME:
        raise invalid(f"the name in a source has 1 to {MAX_NAME} octets")
    if name.key is not None and len(name.key.encode()) > MAX_NAME:
        raise invalid(f"a binding key has at most {MAX_NAME} octets")
    return name


class Sources:
    """The sources that a request names, in order."""

    def __init__(self, find: Find) -> None:
        self.find = find
        self.names: list[SourceName] = []
        self.aliases: dict[SourceName, Filled] = {}

    def read(self, text: str) -> None:
        """Raises ``Problem``."""
        self.add(self.find(text) if text.startswith(PREFIX) else read_source(text))

    def add(self, source: SourceName | Filled) -> None:
        """A node that is also read by a route is read by the route."""
        if isinstance(source, Filled):
            name = behind(source)
            self.aliases[name] = source
        else:
            name = source
        self.names.append(name)

    def bind(self, key: str) -> None:
        """``&binding=`` belongs to the exchange before it; a second one makes a second source."""
        names = self.names
        last = names[-1] if names and names[-1] not in self.aliases else None
        if last is None or last.kind != "exchange" or len(key.encode()) > MAX_NAME:
            raise invalid("binding must follow an exchange source and have at most 255 octets")
        if last.key is None:
            names[-1] = last._replace(key=key)
        else:
            names.append(last._replace(key=key))


def behind(filled: Filled) -> SourceName:
    """The node behind a route."""
    route = filled.route
    if route.queue:
        return SourceName("queue", route.queue)
    return SourceName("exchange", route.exchange, filled.key)

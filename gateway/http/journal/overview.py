"""``GET /v1/{vhost}/journal/overview``: the journal as a whole, for people; and its figures."""

from collections.abc import Callable
from fnmatch import fnmatchcase

from pydantic import Field

from gateway.config.journal import JournalSettings
from gateway.http import problems
from gateway.http.access.principal import MONITORS
from gateway.http.access.rights import Action
from gateway.http.admin.admin_endpoints import Call, Endpoint, Rank
from gateway.http.journal.consumers import JournalConsumer, shown
from gateway.http.journal.rights import readable
from gateway.http.schemas import Shape
from gateway.http.typed import moment
from gateway.journal.by_offset import totals
from gateway.journal.reader import JournalReader
from gateway.journal.segments import arrow_is_here

MOST_ADDRESSES = 500
MOST_SEGMENTS = 100


class JournalRule(Shape):
    """The first rule that fits an address says whether it is recorded, and for how long."""

    vhost: str
    address: str
    record: bool
    keep_seconds: float | None
    keep_octets: int | None


class JournalAddress(Shape):
    """Entries of one address that can be read."""

    address: str = Field(examples=["/queues/orders"])
    entries: int
    octets: int = Field(description="of bodies in segments")
    first: int = Field(description="offset of the oldest")
    last: int = Field(description="offset of the newest")


class JournalSegment(Shape):
    """A file of older entries, of all virtual hosts."""

    start: int
    end: int
    entries: int
    octets: int = Field(description="of the file")
    oldest: str = Field(description="when its oldest entry came")
    newest: str


class JournalOverview(Shape):
    """Positions from `start` to `end` (not included) can be read; those before `sealed` are in
    segments, the others in the store."""

    recording: bool = Field(description="whether a rule records something in the virtual host")
    sealing: bool = Field(description="whether older entries are moved into segments")
    journal: str = Field(description='"" before the first entry')
    start: int
    sealed: int
    end: int
    octets: int = Field(description="of all segments")
    oldest: str | None = Field(description="when the oldest sealed entry came")
    keep_seconds: float
    keep_octets: int
    rules: list[JournalRule] = Field(description="of the virtual host")
    addresses: list[JournalAddress] = Field(description="those that the caller may read")
    more_addresses: bool = Field(description="whether there are more than are shown")
    segments: list[JournalSegment] = Field(description="the newest first")
    more_segments: bool = Field(description="whether there are more than are shown")
    consumers: list[JournalConsumer]


def rules_of(settings: JournalSettings, vhost: str) -> list[JournalRule]:
    return [
        JournalRule(**one.model_dump())
        for one in settings.recording
        if fnmatchcase(vhost, one.vhost)
    ]


def overview_of(
    reader: JournalReader,
    settings: JournalSettings,
    vhost: str,
    wanted: Callable[[str, str], bool],
    files: bool,
) -> JournalOverview:
    """On the journal's thread. ``files``: with consumers that read the files."""
    whole = reader.overview()
    segments = reader.segments()
    listed = [
        JournalSegment(
            start=one.start,
            end=one.end,
            entries=one.notes.entries,
            octets=one.octets,
            oldest=moment(one.notes.oldest),
            newest=moment(one.notes.newest),
        )
        for one in segments[: -MOST_SEGMENTS - 1 : -1]
    ]
    addresses = [
        JournalAddress(address=name, **total._asdict())
        for (host, name), total in sorted(totals(reader).items())
        if wanted(host, name)
    ]
    rules = rules_of(settings, vhost)
    return JournalOverview(
        recording=any(one.record for one in rules),
        sealing=settings.seal and arrow_is_here(),
        journal=whole.id,
        start=whole.start,
        sealed=whole.sealed,
        end=whole.end,
        octets=sum(one.octets for one in segments),
        oldest=moment(segments[0].notes.oldest) if segments else None,
        keep_seconds=settings.keep_seconds,
        keep_octets=settings.keep_octets,
        rules=rules,
        addresses=addresses[:MOST_ADDRESSES],
        more_addresses=len(addresses) > MOST_ADDRESSES,
        segments=listed,
        more_segments=len(segments) > MOST_SEGMENTS,
        consumers=shown(reader, vhost, files),
    )


async def show_journal(call: Call) -> JournalOverview:
    context, vhost = call.context, call.vhost
    settings = context.dependencies.journal_settings
    wanted = readable(context.broker, call.principal, vhost)
    files = call.tagged(MONITORS)
    return await context.journal.run(
        lambda reader: overview_of(reader, settings, vhost, wanted, files)
    )


ENDPOINTS = [
    Endpoint("GET", "/v1/{vhost}/journal/overview", show_journal, "The journal as a whole",
             Rank.GUEST, gives=JournalOverview, refusals=(problems.CONFLICT,), tag="journal",
             action=Action.BROWSE,
             text="Positions and segments are of all virtual hosts; rules, addresses and consumers "
             "of this one."),
]  # fmt: skip

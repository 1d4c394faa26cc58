"""What this room needs from the house: the broker, the turn, and plain settings.

The composition root fills ``HttpDependencies`` in and hands it to ``gateway.http.app.build``;
nothing in ``gateway.http`` reaches for anything else.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from gateway.bodies import Spool
from gateway.broker.broker import Broker
from gateway.crossing.crossing import Crossing
from gateway.http.access.settings import AccessSettings
from gateway.message import Table
from gateway.net.passwords import Passwords


class ConnectionInfo(NamedTuple):
    """One AMQP connection as the console shows it. ``since`` is ms since 1970."""

    id: int
    address: str
    version: str
    product: str = ""
    product_version: str = ""
    platform: str = ""
    user: str = ""
    vhost: str = ""
    channels: int = 0
    state: str = "running"
    since: int = 0
    octets_in: int = 0
    octets_out: int = 0
    local: str = ""
    """The address that it came to."""
    name: str = ""
    """What the client calls it."""
    mechanism: str = ""
    properties: Table = {}
    """What the client says of itself."""


class ChannelInfo(NamedTuple):
    """A channel, or a session of 1.0, of the connection with the id ``connection``."""

    connection: int
    number: int
    confirm: bool = False
    transactional: bool = False
    consumers: int = 0
    unacknowledged: int = 0
    prefetch: int = 0
    global_prefetch: int = 0


@dataclass(slots=True)
class HttpSettings:
    """Limits and periods. Names say the unit (octets, seconds, ms); the rest are counts."""

    max_body_octets: int = 128 * 1024 * 1024
    confirm_seconds: float = 10.0
    confirm_most_seconds: float = 60.0
    """The longest that ``Prefer: wait`` can ask for."""
    max_inflight_octets: int = 256 * 1024 * 1024
    """Of request bodies that are still coming in, all together."""
    spool_octets: int = 1024 * 1024
    """A body that is larger waits in a temporary file until it is complete."""
    max_batch_items: int = 1000
    max_batch_octets: int = 4 * 1024 * 1024
    """Of a batch in one document, and of one line of a streamed batch."""
    stream_window: int = 1000
    """Messages of one streamed batch that may wait for their confirmation."""
    idempotency_seconds: int = 3600
    """How long the outcome of a key is kept; a day at most."""
    max_idempotency_keys: int = 100_000
    """Kept per caller."""
    max_operations: int = 1000
    """Answers kept per caller for ``Prefer: respond-async``."""
    operation_seconds: int = 600
    """How long they are kept."""
    max_operation_octets: int = 64 * 1024 * 1024
    """Of all answers that are kept; the oldest make room, and the newest is kept in any case."""
    retry_after_seconds: int = 1
    """What ``Retry-After`` says when a destination is full or publishers are held back."""
    heartbeat_seconds: int = 15
    """Default of the ``heartbeat`` parameter of a stream, 5 to 55."""
    reconnect_ms: int = 2500
    """Reconnect time told to event readers, spread by half each way."""
    linger_seconds: float = 120.0
    """How long a source's journal outlives its last reader."""
    journal_events: int = 8192
    journal_octets: int = 16 * 1024 * 1024
    queue_prefetch: int = 256
    """Messages of a queue source that may wait to be written to a first reader."""
    max_streams: int = 20_000
    max_streams_per_user: int = 10_000
    max_sources_per_stream: int = 64
    max_sources: int = 4096
    """Sources with a journal, read or lingering."""
    receive_octets: int = 16 * 1024 * 1024
    """Bodies in one answer to a receive or browse; one message is given however large it is."""
    max_leases_per_user: int = 10_000
    max_receives_per_user: int = 1000
    """Receives that wait for a message."""
    redrive_seconds: float = 30.0
    """How long one redrive of dead letters works before it says how to go on."""
    reply_seconds: float = 30.0
    """How long a request waits for its reply unless it says so itself."""
    async_reply_seconds: float = 600.0
    """How long a request of ``Prefer: respond-async`` waits for its reply."""
    late_reply_seconds: float = 60.0
    """How long a reply that comes too late is still counted."""
    max_requests_per_user: int = 1000
    """Requests that wait for a reply."""
    canary_seconds: float = 2.0
    """How long the publish behind ``/readyz`` may take; a good one counts for as long."""
    log_requests: bool = False
    """One line in the log per answered request."""
    stall_seconds: float = 30.0
    """A reader whose socket takes nothing for this long is hung up on."""
    stream_seconds: float = 86_400.0
    """How long a stream lives before its reader is asked to come back; 0 is for ever."""
    drain_spread_ms: int = 10_000
    """At shutdown readers are told to come back within so much more than ``reconnect_ms``."""
    browser_streams_warn: int = 3
    """From this stream on, one browser over HTTP/1.1 is warned that its connections run out."""
    browser_streams_max: int = 4
    """More streams of one browser over HTTP/1.1 are refused in-band; 0 is no limit."""
    durable_sources: tuple[str, ...] = ()
    """Exchange sources (globs over ``exchange:NAME?binding=KEY``) whose journals are durable even
    if nobody asks for it."""
    max_durable_sources: int = 64
    durable_linger_seconds: float = 7 * 86_400.0
    """How long a durable journal outlives its last reader."""
    access: AccessSettings = field(default_factory=AccessSettings)


@dataclass(slots=True)
class HttpDependencies:
    """Everything that is handed in.

    ``begin_turn`` is called before the broker is touched, ``end_turn`` after. ``ready`` names
    what must be true for traffic to make sense (listeners up, store writable). ``secret`` seals
    event cursors: keep it with the data and cursors stay verifiable over a restart.
    """

    broker: Broker
    begin_turn: Callable[[], None]
    end_turn: Callable[[], None]
    secret: bytes
    connections: Callable[[], list[ConnectionInfo]] = list
    channels: Callable[[], list[ChannelInfo]] = list
    close_connection: Callable[[int, str], bool] = lambda number, reason: False
    """Closes an AMQP connection politely, within a turn; false if there is none of this number."""
    ready: Callable[[], dict[str, bool]] = dict
    figures: Callable[[], dict[str, float]] = dict
    """More numbers for ``/metrics``, such as ``store_commits_total``."""
    crossing: Crossing | None = None
    """Counts what becomes of messages that cross between versions."""
    settings: HttpSettings = field(default_factory=HttpSettings)
    spool: Spool = field(default_factory=Spool)
    """Where large bodies stand."""
    passwords: Passwords | None = None
    """Checks passwords for all doors; ``None``: HTTP has checks of its own."""
    clock: Callable[[], float] = time.time
    """Seconds since 1970: what expiry, quotas and tickets go by."""

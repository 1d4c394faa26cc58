"""The parts of the gateway that HTTP depends on: the broker, the turn, and settings.

The composition root fills ``HttpDependencies`` in and hands it to ``gateway.http.app.build``;
nothing in ``gateway.http`` reaches for anything else.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

from gateway.bodies import Spool
from gateway.bridge.bridge import Bridge
from gateway.broker.broker import Broker
from gateway.config.journal import JournalSettings
from gateway.config.reload import LastReload
from gateway.config.web import DeclaredRoute, HttpSettings
from gateway.crossing.crossing import Crossing
from gateway.inventory.observing import Observing
from gateway.journal.reader import JournalReader
from gateway.message import Table
from gateway.net.passwords import Passwords
from gateway.sessions.named import NamedSessions


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
    """The name that the client gave it."""
    mechanism: str = ""
    properties: Table = {}
    """The client properties."""


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
class HttpDependencies:
    """Made by the composition root.

    ``begin_turn`` is called before the broker is touched, ``end_turn`` after. ``ready`` names
    the conditions for serving traffic (listeners up, store writable). ``secret`` seals
    event cursors: keep it with the data and cursors stay verifiable over a restart.
    """

    broker: Broker
    begin_turn: Callable[[], None]
    end_turn: Callable[[], None]
    secret: bytes
    connections: Callable[[], list[ConnectionInfo]] = list
    channels: Callable[[], list[ChannelInfo]] = list
    sessions: NamedSessions = field(default_factory=NamedSessions)
    """Named sessions of 0-10."""
    close_connection: Callable[[int, str], bool] = lambda number, reason: False
    """Closes an AMQP connection politely, within a turn; false if there is none of this number."""
    ready: Callable[[], dict[str, bool]] = dict
    figures: Callable[[], dict[str, float]] = dict
    """More numbers for ``/metrics``, such as ``store_commits_total``."""
    crossing: Crossing | None = None
    """Counts conversions of messages between versions."""
    settings: HttpSettings = field(default_factory=HttpSettings)
    routes: Sequence[DeclaredRoute] = ()
    """Declared routes."""
    admin_apart: bool = False
    """Whether administration has a listener of its own."""
    spool: Spool = field(default_factory=Spool)
    """The spool of large bodies."""
    bridge: Bridge | None = None
    observers: Sequence[Observing] = ()
    """Proxies before old brokers."""
    journal: Callable[[], JournalReader] | None = None
    """Opens the journal for reading; ``None``: the gateway is not durable."""
    journal_settings: JournalSettings = field(default_factory=JournalSettings)
    last_reload: Callable[[], LastReload] = LastReload
    """The result of the last reading of the settings."""
    passwords: Passwords | None = None
    """Checks passwords for all protocols; ``None``: HTTP has its own."""
    clock: Callable[[], float] = time.time
    """Seconds since 1970, for expiry, quotas and tickets."""

    @contextmanager
    def turn(self) -> Iterator[None]:
        """One turn of the broker: its requests within are written to the disk together."""
        self.begin_turn()
        try:
            yield
        finally:
            self.end_turn()

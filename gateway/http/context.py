"""The parts that all areas of HTTP share: made once by ``app.build`` and given to each of them.

An area has a function ``routes(context) -> list[BaseRoute]``; ``app.ROOMS`` lists them.
Work of an area that must end when the server stops is added to ``context.closers``.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gateway.broker.broker import Broker
from gateway.config.web import HttpSettings
from gateway.http.access.authenticator import Authenticator
from gateway.http.access.credential_cache import CredentialCache
from gateway.http.counters import Counters
from gateway.http.dependencies import HttpDependencies
from gateway.http.events.hub import Hub
from gateway.http.journal.thread import JournalThread
from gateway.http.leases import LeaseTable
from gateway.http.observe.canary import Canary
from gateway.http.publish.operations import Operations
from gateway.http.publish.publisher import Publisher
from gateway.http.rates import Rates

if TYPE_CHECKING:
    from prometheus_client.registry import Collector


@dataclass(slots=True)
class Context:
    """``authenticator`` authenticates; ``credentials`` knows whom it did before
    (``request_parameters.authenticate`` uses it)."""

    dependencies: HttpDependencies
    hub: Hub
    publisher: Publisher
    counters: Counters
    authenticator: Authenticator
    credentials: CredentialCache
    canary: Canary
    operations: Operations
    """Answers that are fetched later."""
    leases: LeaseTable
    journal: JournalThread
    rates: Rates = field(default_factory=Rates)
    closers: list[Callable[[], Awaitable[None]]] = field(default_factory=list)
    """Called before the server stops, in order."""
    collectors: "list[Collector]" = field(default_factory=list)
    """More metrics, which areas add when they make their routes."""
    on_reload: list[Callable[[], None]] = field(default_factory=list)
    """Called when settings have new values, by those who derived something from them."""

    @property
    def broker(self) -> Broker:
        return self.dependencies.broker

    @property
    def settings(self) -> HttpSettings:
        return self.dependencies.settings

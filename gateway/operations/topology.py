"""Which queues and exchanges there are, and what is bound to what.

What changes durable topology is answered when the store has it.
"""

from dataclasses import dataclass, field

from gateway.message import Table
from gateway.operations.core import Operation, Request, Token

DRAFT_LEVELS = 2
"""Levels of priority of what 0.8a2 and the drafts make: 5 to 9 go before 0 to 4 (0-9a0 §3.8.8,
0-9a6 "Message Priorities")."""
LINK_LEVELS = 10
"""Levels of priority of what links of 1.0 make (1.0 §3.2.1)."""


@dataclass(slots=True)
class DeclareExchange(Operation):
    channel: int
    token: Token
    name: str
    type: str = "direct"
    passive: bool = False
    durable: bool = False
    auto_delete: bool = False
    internal: bool = False
    arguments: Table = field(default_factory=dict)


@dataclass(slots=True)
class DeleteExchange(Operation):
    channel: int
    token: Token
    name: str
    if_unused: bool = False


@dataclass(slots=True)
class DeclareQueue(Operation):
    """An empty name asks for a server-named queue. Answered with ``QueueState``.

    ``hint`` is added to such a name, for those who look at it. ``levels``: how many levels of
    priority the queue gets if it is made now and has no ``x-max-priority``: ``DRAFT_LEVELS``,
    ``LINK_LEVELS``, or 0 for none. ``template``: a name of configured arguments that it gets then;
    one that is not known is none."""

    channel: int
    token: Token
    name: str
    passive: bool = False
    durable: bool = False
    exclusive: bool = False
    auto_delete: bool = False
    arguments: Table = field(default_factory=dict)
    levels: int = 0
    template: str = ""
    hint: str = ""


@dataclass(slots=True)
class FindQueue(Request):
    """Is there such a queue? Answered at once, with ``FoundQueue`` or ``None``."""

    name: str


@dataclass(slots=True)
class DeleteQueue(Operation):
    """Answered with the number of messages deleted."""

    channel: int
    token: Token
    name: str
    if_unused: bool = False
    if_empty: bool = False


@dataclass(slots=True)
class PurgeTopic(Operation):
    """Purge the subscriptions that are made on this topic and no other (0-9a0 §4.5.5). Answered
    with the number of messages purged."""

    channel: int
    token: Token
    key: str


@dataclass(slots=True)
class CancelTopic(Operation):
    """Delete the subscriptions that are made on this topic and no other (0-9a0 §4.5.7).
    ``if_empty``: refused (406) if there are any. Answered with the number of messages deleted."""

    channel: int
    token: Token
    key: str
    if_empty: bool = False


@dataclass(slots=True)
class PurgeQueue(Operation):
    """Answered with the number of messages purged."""

    channel: int
    token: Token
    name: str


@dataclass(slots=True)
class Bind(Operation):
    """Let ``destination`` (a queue, or an exchange if ``to_exchange``) receive from ``source``.
    ``lasting``: refused (406) if the destination is durable and the source is not."""

    channel: int
    token: Token
    destination: str
    source: str
    key: str = ""
    arguments: Table = field(default_factory=dict)
    to_exchange: bool = False
    lasting: bool = False


@dataclass(slots=True)
class Unbind(Operation):
    channel: int
    token: Token
    destination: str
    source: str
    key: str = ""
    arguments: Table = field(default_factory=dict)
    to_exchange: bool = False


@dataclass(slots=True)
class QueueState:
    """Result of ``DeclareQueue``."""

    name: str
    messages: int
    consumers: int


@dataclass(slots=True)
class FoundQueue(QueueState):
    """Result of ``FindQueue``: also what it was declared with, and the first of its bindings as
    exchange, key and arguments."""

    arguments: Table = field(default_factory=dict)
    bindings: tuple[tuple[str, str, Table], ...] = ()


@dataclass(slots=True)
class EnterRealm(Request):
    """Work with an access realm until the channel ends; ``exclusive``: nobody else does meanwhile.
    Refused (403) if that cannot be."""

    name: str
    exclusive: bool = False

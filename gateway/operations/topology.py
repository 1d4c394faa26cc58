"""Operations on exchanges, queues and bindings.

Changes of durable topology are answered when the store has committed them. Refusals: 403 without
permission, 404 for a name that does not exist, 405 for another connection's exclusive queue, 406
for a declaration that differs or a condition (``if_unused``, ``if_empty``) that does not hold.
"""

from dataclasses import dataclass, field

from gateway.message import Table
from gateway.operations.core import Operation, Request, Token

DRAFT_LEVELS = 2
"""Priority levels of queues that 0.8a2 and the drafts create: 5 to 9 go before 0 to 4 (0-9a0
§3.8.8, 0-9a6 "Message Priorities")."""
LINK_LEVELS = 10
"""Priority levels of queues that links of 1.0 create (1.0 §3.2.1)."""


@dataclass(slots=True)
class DeclareExchange(Operation):
    """Create an exchange, or check that it exists with these properties. ``passive``: only check
    that it exists. ``internal``: no client may publish to it."""

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
    """Delete an exchange and its bindings. ``if_unused``: refused (406) if it has bindings."""

    channel: int
    token: Token
    name: str
    if_unused: bool = False


@dataclass(slots=True)
class DeclareQueue(Operation):
    """Create a queue, or check that it exists with these properties. For an empty name the server
    generates one, with ``hint`` added for the reader. Answered with ``QueueState``.

    ``levels``: number of priority levels of a new queue without ``x-max-priority``:
    ``DRAFT_LEVELS``, ``LINK_LEVELS``, or 0 for none. ``template``: name of configured arguments for
    a new queue; an unknown name adds none."""

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
    """Look a queue up. Answered with ``FoundQueue`` or ``None``, at once: before earlier answers
    that wait."""

    name: str


@dataclass(slots=True)
class FindExchange(Request):
    """Look an exchange up. Answered with ``FoundExchange`` or ``None``."""

    name: str


@dataclass(slots=True)
class FindBindings(Request):
    """Ask whether an exchange and a queue exist, and whether bindings join them. ``exchange`` ""
    is the default exchange. ``queue``, ``key`` and ``arguments`` narrow the question; ``None``
    leaves them open. Answered with ``FoundBindings``."""

    exchange: str
    queue: str | None = None
    key: str | None = None
    arguments: Table | None = None


@dataclass(slots=True)
class DeleteQueue(Operation):
    """Delete a queue and its bindings. Answered with the number of messages deleted."""

    channel: int
    token: Token
    name: str
    if_unused: bool = False
    if_empty: bool = False


@dataclass(slots=True)
class PurgeTopic(Operation):
    """Purge the subscriptions to exactly this topic (0-9a0 §4.5.5). Answered with the number of
    messages purged."""

    channel: int
    token: Token
    key: str


@dataclass(slots=True)
class CancelTopic(Operation):
    """Delete the subscriptions to exactly this topic (0-9a0 §4.5.7). ``if_empty``: refused (406) if
    there are any. Answered with the number of messages deleted."""

    channel: int
    token: Token
    key: str
    if_empty: bool = False


@dataclass(slots=True)
class PurgeQueue(Operation):
    """Delete the ready messages of a queue. Answered with their number."""

    channel: int
    token: Token
    name: str


@dataclass(slots=True)
class Bind(Operation):
    """Bind ``destination``, a queue or with ``to_exchange`` an exchange, to the exchange
    ``source``. ``lasting``: refused (406) if the destination is durable and the source is not."""

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
    """Remove the binding that was made with the same key and arguments; where the version's rules
    say so (``bound_by_key``), those with the same key."""

    channel: int
    token: Token
    destination: str
    source: str
    key: str = ""
    arguments: Table = field(default_factory=dict)
    to_exchange: bool = False


@dataclass(slots=True)
class QueueState:
    """Result of ``DeclareQueue``: ready messages and consumers."""

    name: str
    messages: int
    consumers: int


@dataclass(slots=True)
class FoundQueue(QueueState):
    """Result of ``FindQueue``: also the queue's arguments and flags, and its first bindings as
    exchange, key and arguments."""

    arguments: Table = field(default_factory=dict)
    bindings: tuple[tuple[str, str, Table], ...] = ()
    durable: bool = False
    exclusive: bool = False
    auto_delete: bool = False


@dataclass(slots=True)
class FoundExchange:
    """Result of ``FindExchange``."""

    name: str
    type: str
    durable: bool
    arguments: Table = field(default_factory=dict)


@dataclass(slots=True)
class FoundBindings:
    """Result of ``FindBindings`` (result of exchange.bound in 0-10). ``queue`` is that of the
    question. ``..._not_matched``: no binding of the exchange goes to that queue, has that key, has
    those arguments; of a queue that is bound, none of its own. ``bindings``: the exchange has
    any. ``key`` is that of the question."""

    queue: str | None = None

    exchange_not_found: bool = False
    queue_not_found: bool = False
    queue_not_matched: bool = False
    key_not_matched: bool = False
    arguments_not_matched: bool = False
    bindings: bool = False
    key: str | None = None

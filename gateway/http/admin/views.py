"""Shapes of the administration: what is sent (``Input``) and what is answered (``Shape``)."""

from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints, WithJsonSchema
from typing_extensions import TypeAliasType

from gateway.http.admin.admin_endpoints import Input
from gateway.http.schemas import Shape

NUMBER = {"type": "number", "minimum": -(2**63), "maximum": 2**63 - 1}
Argument = TypeAliasType(
    "Argument",
    Annotated[
        Any,
        WithJsonSchema(
            {
                "anyOf": [
                    {"type": ["null", "boolean", "string"]},
                    NUMBER,
                    {"type": "array", "items": {"$ref": "#/components/schemas/Argument"}},
                    {
                        "type": "object",
                        "additionalProperties": {"$ref": "#/components/schemas/Argument"},
                    },
                ],
                "description": 'An AMQP value; what JSON lacks is {"$type": ..., "value": ...}.',
            }
        ),
    ],
)
Arguments = dict[str, Argument]
Name = Annotated[str, StringConstraints(max_length=255)]
Pattern = Annotated[
    str, StringConstraints(max_length=1024), Field(json_schema_extra={"format": "regex"})
]
Tag = Annotated[str, StringConstraints(pattern="^(administrator|monitoring|impersonator)$")]


class VhostView(Shape):
    """One virtual host."""

    name: str
    queues: int
    exchanges: int
    consumers: int
    clients: int
    ready: int
    unacknowledged: int
    published: int = Field(description="since the start")
    delivered: int = Field(description="since the start")
    acked: int = Field(description="since the start")


class VhostList(Shape):
    vhosts: list[VhostView]


class ExchangeInput(Input):
    """How an exchange shall be. Members left out are as AMQP has them by default."""

    type: Annotated[str, StringConstraints(pattern="^(direct|fanout|topic|headers)$")] = "direct"
    durable: bool = True
    auto_delete: bool = False
    internal: bool = False
    arguments: Arguments = {}


class ExchangeView(Shape):
    """One exchange."""

    vhost: str
    name: str
    type: str
    durable: bool
    auto_delete: bool
    internal: bool
    arguments: Arguments
    bindings: int


class ExchangeList(Shape):
    exchanges: list[ExchangeView]


class QueueInput(Input):
    """How a queue shall be; ``arguments`` are AMQP's, such as ``x-message-ttl``."""

    durable: bool = True
    auto_delete: bool = False
    arguments: Arguments = {}
    priority_levels: Literal[1, 2, 10] = Field(
        default=1,
        description="of a queue that is made now, without x-max-priority: 2 for clients of 0.8a2 "
        "and the drafts, which make few queues themselves, 10 for those of 1.0",
    )


class QueueDetail(Shape):
    """One queue with details. Counters are since the start, rates per second over the last few
    seconds."""

    vhost: str
    name: str
    durable: bool
    exclusive: bool
    auto_delete: bool
    arguments: Arguments
    warnings: list[str] = Field(
        description="what the arguments ask for that is not done: they are unknown, or have no "
        "effect here"
    )
    priority_levels: int = Field(
        description="2 for what 0.8a2 and the drafts make, 10 for links of 1.0, else as "
        "x-max-priority says; 1 is the order of arrival"
    )
    messages: int = Field(description="ready and unacknowledged")
    ready: int
    unacknowledged: int
    octets: int = Field(description="of ready bodies")
    paged: int = Field(description="ready messages that are only in the store")
    consumers: int
    published: int
    delivered: int
    acked: int
    redelivered: int
    publish_rate: float
    deliver_rate: float


class QueueDetailList(Shape):
    queues: list[QueueDetail]


class Removed(Shape):
    """How many messages went."""

    messages: int


class BindingInput(Input):
    """From an exchange to a queue, or to an exchange."""

    source: Name
    destination: Name
    destination_type: Annotated[str, StringConstraints(pattern="^(queue|exchange)$")] = "queue"
    routing_key: Name = ""
    arguments: Arguments = {}


class BindingView(Shape):
    """One binding. ``id`` stands for all the rest and never changes."""

    id: str
    vhost: str
    source: str
    destination: str
    destination_type: str
    routing_key: str
    arguments: Arguments


class BindingList(Shape):
    bindings: list[BindingView]


class ConsumerView(Shape):
    """One consumer."""

    vhost: str
    queue: str
    tag: str
    client: str
    no_ack: bool
    exclusive: bool
    priority: int
    prefetch: int
    held: int = Field(description="deliveries it has not settled yet")
    active: bool


class ConsumerList(Shape):
    consumers: list[ConsumerView]


class UserInput(Input):
    """Without ``password`` an existing user keeps its own; a new user needs one."""

    password: Annotated[str, StringConstraints(min_length=1, max_length=1024)] | None = None
    tags: list[Tag] | None = Field(default=None, max_length=8)


class UserView(Shape):
    """One user; passwords are never shown."""

    name: str
    tags: list[str]
    loopback_only: bool = Field(description="may log in from this machine only")


class UserList(Shape):
    users: list[UserView]


class PermissionInput(Input):
    """Regular expressions, searched for anywhere in a name; an empty one matches nothing."""

    configure: Pattern
    write: Pattern
    read: Pattern


class PermissionView(Shape):
    user: str
    vhost: str
    configure: str
    write: str
    read: str


class PermissionList(Shape):
    permissions: list[PermissionView]


class Overview(Shape):
    """The whole gateway in numbers."""

    version: str
    vhosts: int
    connections: int
    clients: int
    channels: int
    queues: int
    exchanges: int
    consumers: int
    ready: int
    unacknowledged: int
    octets: int = Field(description="of messages in memory")
    published: int
    delivered: int
    acked: int
    redelivered: int
    unrouted: int
    blocked: str | None = Field(description="why publishers are held back")
    event_streams: int


class ImportedUser(Shape):
    """What became of one user: ``login`` is "password" (set from the document), "kept" (as it was),
    or "locked" (nobody can log in until a password is set), and ``note`` says why."""

    name: str
    login: str
    note: str = ""


class Imported(Shape):
    """What was applied, what of it was there already, and what was not applied, with reasons."""

    vhosts: int
    permissions: int
    exchanges: int
    queues: int
    bindings: int
    users: list[ImportedUser]
    not_applied: list[str] = Field(description="one line each: what, and why")

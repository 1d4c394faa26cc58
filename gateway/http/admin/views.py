"""Models of the administration: requests (``Input``) and responses (``Shape``)."""

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, StringConstraints, WithJsonSchema
from typing_extensions import TypeAliasType

from gateway.broker.exchange_types import EXCHANGE_TYPES
from gateway.http.admin.admin_endpoints import Input
from gateway.http.schemas import Shape

NUMBER = {"type": "number", "minimum": -(2**63), "maximum": 2**63 - 1}
SCALAR: list[dict[str, Any]] = [
    {"type": ["null", "boolean", "string"]},
    NUMBER,
    {"$ref": "#/components/schemas/ArgumentMap"},
]
Argument = TypeAliasType(
    "Argument",
    Annotated[
        Any,
        WithJsonSchema(
            {
                # A schema of lists that refers to itself is more than generators of clients can do:
                # lists in lists are of anything.
                "anyOf": [
                    *SCALAR,
                    {
                        "type": "array",
                        "items": {
                            "anyOf": [
                                *SCALAR,
                                {
                                    "type": "array",
                                    "items": {"$ref": "#/components/schemas/JsonValue"},
                                },
                            ]
                        },
                    },
                ],
                "description": 'An AMQP value; types that JSON lacks are {"$type": ..., "value": '
                "...}.",
            }
        ),
    ],
)


class ArgumentMap(Shape):
    """Names and values. Types that JSON lacks have the members `$type` and `value`."""

    model_config = ConfigDict(
        frozen=True,
        extra="allow",
        json_schema_extra={"additionalProperties": {"$ref": "#/components/schemas/Argument"}},
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
    """Declaration of an exchange. Absent members have AMQP's defaults."""

    type: Annotated[str, StringConstraints(pattern=f"^({'|'.join(EXCHANGE_TYPES)})$")] = "direct"
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
    """Declaration of a queue; ``arguments`` are AMQP's, such as ``x-message-ttl``."""

    durable: bool = True
    auto_delete: bool = False
    arguments: Arguments = {}
    priority_levels: Literal[1, 2, 10] = Field(
        default=1,
        description="priority levels of a new queue without x-max-priority: 2 for clients of 0.8a2 "
        "and the drafts, 10 for those of 1.0",
    )


class QueueDetail(Shape):
    """One queue with details. Counters start with the gateway; rates are per second over the last
    few seconds."""

    vhost: str
    name: str
    durable: bool
    exclusive: bool
    auto_delete: bool
    arguments: Arguments
    warnings: list[str] = Field(
        description="arguments that are unknown or have no effect here, one sentence each"
    )
    priority_levels: int = Field(
        description="2 for queues created by 0.8a2 and the drafts, 10 by links of 1.0, else "
        "x-max-priority; 1 is the order of arrival"
    )
    messages: int = Field(description="ready and unacknowledged")
    ready: int
    unacknowledged: int
    octets: int = Field(description="octets of ready message bodies")
    paged: int = Field(description="ready messages that are in the store only")
    consumers: int
    policy: str = Field(description="of the policy in force; empty if there is none")
    operator_policy: str
    effective_policy_definition: dict[str, Any] = Field(
        description="what both set; where an argument sets the same, the smaller number counts, "
        "or the argument"
    )
    published: int
    delivered: int
    acked: int
    redelivered: int
    publish_rate: float
    deliver_rate: float


class QueueDetailList(Shape):
    queues: list[QueueDetail]


class Removed(Shape):
    """Number of purged messages."""

    messages: int


class BindingInput(Input):
    """A binding from an exchange to a queue or an exchange."""

    source: Name
    destination: Name
    destination_type: Annotated[str, StringConstraints(pattern="^(queue|exchange)$")] = "queue"
    routing_key: Name = ""
    arguments: Arguments = {}


class BindingView(Shape):
    """One binding. ``id`` is derived from the other members and never changes."""

    id: str
    vhost: str
    source: str
    destination: str
    destination_type: str
    routing_key: str
    arguments: Arguments


class BindingList(Shape):
    bindings: list[BindingView]


class BranchView(Shape):
    """One branch of a distributed transaction."""

    vhost: str
    branch: str = Field(
        description="its xid: format, identifier of the transaction and of the branch in "
        "hexadecimal, with colons between them"
    )
    user: str
    state: Literal["prepared", "committed", "rolled-back"] = Field(
        description="the others: an administrator has decided so"
    )
    since: int = Field(description="ms since 1970, when it was prepared")
    age_seconds: float = Field(description="since then")
    publishes: int = Field(description="messages that wait for its commit")
    settlements: int = Field(description="deliveries that wait for its commit")


class BranchList(Shape):
    branches: list[BranchView]


class NamedSessionView(Shape):
    """One named session of AMQP 0-10."""

    id: int = Field(description="number in this process")
    name: str = Field(description="octets that are no UTF-8 are escaped")
    user: str
    vhost: str
    state: Literal["attached", "kept"]
    connection: int | None = Field(description="that has it; null while it is kept")
    timeout_seconds: int = Field(description="how long it is kept without a connection")
    left_seconds: float | None = Field(description="until it ends; null while it is attached")
    consumers: int
    unacknowledged: int


class NamedSessionList(Shape):
    sessions: list[NamedSessionView]


class Decision(Shape):
    """A branch that was decided by hand."""

    branch: BranchView
    warning: str


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
    held: int = Field(description="unsettled deliveries of the consumer")
    active: bool


class ConsumerList(Shape):
    consumers: list[ConsumerView]


class UserInput(Input):
    """Without ``password`` an existing user keeps the current one; a new user needs one."""

    password: Annotated[str, StringConstraints(min_length=1, max_length=1024)] | None = None
    tags: list[Tag] | None = Field(default=None, max_length=8)


class UserView(Shape):
    """One user; passwords are never shown."""

    name: str
    tags: list[str]
    loopback_only: bool = Field(description="logins from this machine only")


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


class ReloadView(Shape):
    """The last reading of the settings: at the start, or by SIGHUP."""

    at: float = Field(description="seconds since 1970")
    error: str = Field(description="why the settings of before are kept; empty: they are in use")
    changed: list[str] = Field(description="settings that got a new value")
    needs_restart: list[str] = Field(
        description="settings whose new value is used from the next start on"
    )


class Overview(Shape):
    """Figures of the whole gateway."""

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
    octets: int = Field(description="octets of messages in memory")
    published: int
    delivered: int
    acked: int
    redelivered: int
    unrouted: int
    blocked: str | None = Field(description="reason why publishers are paused")
    event_streams: int
    settings: ReloadView


class UpstreamView(Shape):
    """A broker that the gateway connects to."""

    name: str
    addresses: list[str]
    vhost: str
    user: str
    connections: int
    address: str = Field(description="that answered last; empty: none has")
    version: str = Field(description="AMQP version of the last connection")
    product: str
    product_version: str
    since: int = Field(description="time of the last login, ms since 1970; 0: none")
    error: str = Field(description="of the last attempt to connect, if it failed")
    blocked: str = Field(description="why it holds its publishers back, if it says so")


class UpstreamList(Shape):
    upstreams: list[UpstreamView]


class LaneView(Shape):
    """A queue that a shovel with a pattern moves."""

    queue: str
    state: Literal["connecting", "running", "waiting", "paused"]
    destination: str
    moved: int
    parked: int
    under_way: int
    error: str
    error_at: int = Field(description="time of that error, ms since 1970; 0: none")


class FacadeView(Shape):
    """A virtual host whose queues live on an upstream, with its counts since the start of the
    gateway."""

    vhost: str
    upstream: str
    state: Literal["connecting", "connected", "waiting"] = Field(
        description="`waiting`: the upstream is lost or cannot be reached; the next attempt follows"
    )
    version: str = Field(description="AMQP version of the connection; empty: there is none")
    published: int = Field(description="messages that the upstream has confirmed")
    refused: int = Field(description="messages that the upstream did not take")
    under_way: int = Field(description="messages that the upstream has not confirmed")
    feeds: int = Field(description="subscriptions at the upstream, one for each consumer")
    successor: str = Field(description="upstream that takes over from it; empty: none")
    successor_state: Literal["connecting", "connected", "waiting", ""]
    successor_version: str
    successor_error: str
    connected: int = Field(description="how often the upstream was connected to")
    since: int = Field(description="time of the last change of state, ms since 1970")
    error: str = Field(description="why the last connection was lost, or the last attempt failed")


class FacadeList(Shape):
    facades: list[FacadeView]


class ObserverView(Shape):
    """A proxy before an old broker, with its counts since its file was begun."""

    name: str
    host: str
    port: int
    upstream: str
    file: str
    open: int = Field(description="connections now")
    connections: int
    refused: int = Field(description="connections for which the broker could not be reached")
    undecoded: int = Field(description="connections that were not decoded to their end")
    clients: int
    nodes: int


class ObserverList(Shape):
    observers: list[ObserverView]


class ShovelView(Shape):
    """A shovel, with its counts since the start of the gateway."""

    name: str
    state: Literal["connecting", "running", "waiting", "paused"] = Field(
        description="`waiting`: an end is lost or cannot be opened; the next attempt follows"
    )
    source: str
    source_version: str
    destination: str
    destination_version: str
    moved: int = Field(description="messages confirmed by the destination")
    parked: int = Field(description="messages in its queue for those that were not taken")
    rejected: int = Field(description="messages rejected at the source")
    retried: int
    dropped: int = Field(description="messages settled because the filter does not match them")
    delayed: int = Field(description="messages that have waited for the rate limit")
    duplicates: int = Field(description="messages settled because their id has come before")
    repeated: int = Field(description="messages moved with a note that they may have come before")
    under_way: int = Field(description="messages without a confirm")
    held: int = Field(description="messages that wait for an earlier one of their key")
    connected: int = Field(description="how often both ends were opened")
    since: int = Field(description="time of the last change of state, ms since 1970")
    error: str = Field(description="why an end was lost, or a message was not taken, last")
    error_at: int = Field(description="time of that error, ms since 1970; 0: none")
    lanes: list[LaneView] = Field(description="each queue, if the source is a pattern")


class ShovelList(Shape):
    shovels: list[ShovelView]


class ImportedUser(Shape):
    """The result for one user: ``login`` is "password" (set from the document), "kept" (as it was),
    or "locked" (no login until a password is set), and ``note`` says why."""

    name: str
    login: str
    note: str = ""


class FindingView(Shape):
    """Something in a file that has no equal here: ``severity`` is "info" (behaves almost the same,
    or belongs elsewhere), "warning" (behaves otherwise) or "error" (is left out)."""

    severity: str
    place: str
    text: str


class ImportedTopology(Shape):
    """The topology in a file of a broker, and the applied part of it."""

    format: str
    findings: list[FindingView]
    applied: "Imported | None" = Field(description="null after a dry run")
    definitions: dict[str, Any] | None = Field(
        description="the file as RabbitMQ's definitions, after a dry run; else null"
    )


class Imported(Shape):
    """The applied and the existing definitions, and those not applied, with reasons."""

    vhosts: int
    permissions: int
    policies: int
    exchanges: int
    queues: int
    bindings: int
    users: list[ImportedUser]
    not_applied: list[str] = Field(
        description="one line for each definition that was not applied, with the reason"
    )

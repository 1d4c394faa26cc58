"""Limits of the broker, and the arguments that limit one queue.

``Limits`` are plain values from the configuration. ``QueueArguments`` are the checked ``x-``
arguments of a queue; texts of refusals are RabbitMQ's.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from gateway import values
from gateway.broker.names import check_name
from gateway.errors import Condition, Lost, Refusal
from gateway.message import Table

LONGEST_TIMER = 4_294_967_295
"""Milliseconds; RabbitMQ's bound for ``x-message-ttl`` and ``x-expires``."""
MOST_PRIORITIES = 255
DEAD_LETTER_COST = 16
"""Cost of a dead letter, beside its queues, in messages dropped."""


def ranks_of(levels: int) -> tuple[int, ...]:
    """Where each of ten priorities stands if there are fewer levels (AMQP 1.0 §3.2.1; so do both
    brokers of Qpid): the lowest fall together, and the highest. Of two, 0 to 4 are one and 5 to 9
    the other."""
    lowest, highest = 5 - (levels + 1) // 2, 4 + levels // 2
    return tuple(min(max(lowest, priority), highest) - lowest for priority in range(10))


MOST_LEVELS = 10
RANKS = {levels: ranks_of(levels) for levels in range(1, MOST_LEVELS + 1)}


@dataclass(slots=True)
class Limits:
    """Bounds of a broker. ``None`` is no bound; sizes are octets."""

    page_after_octets: int | None = 256 * 1024 * 1024
    """Bodies and headers kept in memory, over all queues, before tails go to the store."""
    keep_in_memory: int = 4096
    """Messages at the head of each queue that always stay in memory."""
    page_in_octets: int = 4 * 1024 * 1024
    """About how much one reading of the store brings back."""
    max_looks: int = 2048
    """Messages that consumers with a filter look at in one turn of the loop."""
    max_deliveries: int = 4096
    """Messages that are handed out in one turn of the loop of those that stand in queues, 4 or 5
    microseconds each. A consumer without a limit would be given all of a long queue at once."""
    max_drops: int = 8192
    """Work spent in one turn of the loop on messages that leave a queue unwanted, about 4
    microseconds each: 1 for one that is dropped; for one that is dead-lettered
    ``DEAD_LETTER_COST``, and 1 for each queue it goes to. The rest waits in its queue for a later
    turn."""
    max_cascade: int = 4096
    """Likewise, on all the dead letters that one message leads to while it dies again and again at
    once. Queues whose messages die at once, and which feed each other, would multiply it without
    end."""
    max_queues: int | None = None
    max_exchanges: int | None = None
    max_bindings: int | None = None
    max_message: int | None = None
    max_branches: int = 1024
    """Branches of distributed transactions that a virtual host has at a time."""
    max_branch_octets: int = 256 * 1024 * 1024
    """Octets of their publishes that wait for a commit."""
    max_branch_seconds: int = 3600
    """Time that a branch has before it is prepared, unless its client sets another; 0 is no
    limit."""
    max_route_cache: int = 4096
    """Routing keys remembered per exchange."""


class QueueArguments(NamedTuple):
    """Checked ``x-`` arguments of a queue. Times are milliseconds, absent is ``None``."""

    ttl: int | None = None
    expires: int | None = None
    max_length: int | None = None
    max_octets: int | None = None
    overflow: str = "drop-head"
    dead_letter_exchange: str | None = None
    dead_letter_key: str | None = None
    dead_letter_on_delete: bool = False
    """The dead letter exchange gets the messages of the queue when it is deleted."""
    max_priority: int | None = None
    priority_levels: int | None = None
    """Levels of ten priorities (``RANKS``), without a ``max_priority``."""
    single_active: bool = False
    delivery_limit: int | None = None
    """Of a quorum queue: deliveries after which a message that comes back is dead-lettered."""
    last_value_key: str | None = None
    """A header: a message replaces the one before it with the same value."""
    group_key: str | None = None
    """A header: messages with the same value go to one consumer at a time."""
    auto_delete_timeout: int | None = None
    """Time that an auto-delete queue stays after its last consumer."""
    browse_only: bool = False
    """All consumers get copies."""
    no_local: bool = False
    """No consumer gets messages that were published over its own connection."""
    group_sticky: bool = False
    """A group stays with its consumer until that ends."""


class AppliedPolicy(NamedTuple):
    """The policies in force for a queue or an exchange: names of the policy and of the operator
    policy, "" if there is none, and their settings together."""

    policy: str = ""
    operator: str = ""
    definition: Table = {}


NO_POLICY = AppliedPolicy()

TYPE_NAMES: tuple[tuple[type, str], ...] = (
    (bool, "bool"),
    (values.Byte, "byte"),
    (values.UByte, "unsignedbyte"),
    (values.Short, "short"),
    (values.UShort, "unsignedshort"),
    (values.Int, "signedint"),
    (values.UInt, "unsignedint"),
    (values.Timestamp, "timestamp"),
    (values.Seconds, "timestamp"),
    (int, "long"),
    (values.Float, "float"),
    (float, "double"),
    (values.Scaled, "decimal"),
    (str, "longstr"),
    (bytes, "binary"),
    (dict, "table"),
    (list, "array"),
)


def type_name(value: object) -> str:
    """RabbitMQ's word for the type of a table value."""
    if value is None:
        return "void"
    return next((name for kind, name in TYPE_NAMES if isinstance(value, kind)), "unknown")


def same_value(one: object, other: object) -> bool:
    """Whether two table values are equivalent; widths of integers do not matter."""
    return isinstance(one, bool) == isinstance(other, bool) and one == other


def described(table: Table, name: str) -> str:
    if name not in table:
        return "none"
    return f"the value '{shown(table[name])}' of type '{type_name(table[name])}'"


def check_same_arguments(names: tuple[str, ...], given: Table, current: Table, what: str) -> None:
    """Refuse (406) when one of the named arguments differs from the declared one."""
    for name in names:
        if (name in given) == (name in current) and same_value(given.get(name), current.get(name)):
            continue
        if name in given and name in current:
            received, there = f"'{shown(given[name])}'", f"'{shown(current[name])}'"
        else:
            received, there = described(given, name), described(current, name)
        raise Refusal(
            Condition.PRECONDITION_FAILED,
            f"inequivalent arg '{name}' for {what}: received {received} but current is {there}",
        )


def check_same_alternate(name: str, given: Table, current: Table, what: str) -> None:
    """Refuse (530) an alternate exchange, if one is given, that is not the declared one."""
    if name in given and given[name] != current.get(name):
        text = f"{what} has another alternate exchange than '{shown(given[name])}'"
        raise Refusal(Condition.NOT_ALLOWED, text)


def check_same_flags(
    what: str,
    pairs: tuple[tuple[str, object, object], ...],
    condition: Condition = Condition.PRECONDITION_FAILED,
    lost: Lost = Lost.SESSION,
) -> None:
    """Refuse (by default 406) a flag that differs from the current: (name, given, current)."""
    for name, given, current in pairs:
        if given != current:
            text = (
                f"inequivalent arg '{name}' for {what}: received '{shown(given)}' "
                f"but current is '{shown(current)}'"
            )
            raise Refusal(condition, text, lost)


def shown(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


class Invalid(ValueError):
    """An invalid argument; the text is the reason in RabbitMQ's words."""


def natural(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise Invalid(f'"expected integer, got {type_name(value)}"')
    if value < 0:
        raise Invalid(f"{{value_negative,{value}}}")
    return int(value)


def timer(value: Any) -> int:
    number = natural(value)
    if number > LONGEST_TIMER:
        raise Invalid(f"{{value_too_large,{number}}}")
    return number


def lifetime(value: Any) -> int:
    number = timer(value)
    if number == 0:
        raise Invalid("{value_zero,0}")
    return number


def priorities(value: Any) -> int:
    number = natural(value)
    if number > MOST_PRIORITIES:
        raise Invalid(f"{{max_value_exceeded,{number}}}")
    return number


def levels(value: Any) -> int:
    number = natural(value)
    if not 1 <= number <= MOST_LEVELS:
        raise Invalid(f"{{value_out_of_range,{number}}}")
    return number


def text(value: Any) -> str:
    if not isinstance(value, str):
        raise Invalid(f"{{unacceptable_type,{type_name(value)}}}")
    return str(value)


def flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise Invalid(f"{{unacceptable_type,{type_name(value)}}}")
    return value


QUORUM = "quorum"
"""A quorum queue is a durable queue here: there is one node, and it is the quorum."""


def one_of(reason: str, *words: str) -> Callable[[Any], str]:
    """A check for one of these words; ``reason`` may name the value."""

    def check(value: Any) -> str:
        if text(value) not in words:
            raise Invalid(reason.format(value=value))
        return str(value)

    return check


SELF_DESTRUCT = "self-destruct"
"""A queue that has become too long is deleted."""

ON_DELETE = "x-dead-letter-on-delete"
"""The messages of a deleted queue go to its dead letter exchange. A declaration need not repeat it:
that of 0-10 sets it, and those of other versions do not."""

QUEUE_CHECKS = {
    "x-message-ttl": ("ttl", timer),
    "x-expires": ("expires", lifetime),
    "x-max-length": ("max_length", natural),
    "x-max-length-bytes": ("max_octets", natural),
    "x-overflow": (
        "overflow",
        one_of(
            "invalid_overflow", "drop-head", "reject-publish", "reject-publish-dlx", SELF_DESTRUCT
        ),
    ),
    "x-dead-letter-exchange": ("dead_letter_exchange", text),
    "x-dead-letter-routing-key": ("dead_letter_key", text),
    ON_DELETE: ("dead_letter_on_delete", flag),
    "x-max-priority": ("max_priority", priorities),
    "x-priority-levels": ("priority_levels", levels),
    "x-single-active-consumer": ("single_active", flag),
    "x-queue-mode": ("", one_of("\"unsupported queue mode '{value}'\"", "default", "lazy")),
    "x-queue-type": (
        "",
        one_of(
            "queue type '{value}' is not supported, there are classic and quorum queues",
            "classic",
            QUORUM,
        ),
    ),
    "x-delivery-limit": ("delivery_limit", natural),
    "x-last-value-key": ("last_value_key", text),
    "x-auto-delete-timeout": ("auto_delete_timeout", timer),
    "x-browse-only": ("browse_only", flag),
    "x-no-local": ("no_local", flag),
    "x-group-key": ("group_key", text),
    "x-group-sticky": ("group_sticky", flag),
}

QUEUE_ARGUMENTS = tuple(name for name in QUEUE_CHECKS if name != ON_DELETE)
EXCHANGE_ARGUMENTS = ("alternate-exchange",)


def read_queue_arguments(arguments: Table, what: str) -> QueueArguments:
    """Check the arguments of a queue; ``what`` names it. Refuses with 406."""
    found: dict[str, Any] = {}
    for name, (meaning, check) in QUEUE_CHECKS.items():
        if name not in arguments:
            continue
        try:
            value = check(arguments[name])
        except Invalid as reason:
            raise invalid(name, what, str(reason)) from None
        if meaning:
            found[meaning] = value
    if arguments.get("x-queue-type") != QUORUM:
        found.pop("delivery_limit", None)
    if "dead_letter_key" in found and "dead_letter_exchange" not in found:
        raise invalid("x-dead-letter-routing-key", what, "routing_key_but_no_dlx_defined")
    return QueueArguments(**found)


def check_names(limits: QueueArguments, what: str) -> None:
    """Refuse (406) names that are too long. Not in ``read_queue_arguments``, because a queue that
    was kept from before the limit must come back."""
    for argument, given in (
        ("x-dead-letter-exchange", limits.dead_letter_exchange),
        ("x-dead-letter-routing-key", limits.dead_letter_key),
    ):
        try:
            check_name("name", given or "")
        except Refusal as refusal:
            raise invalid(argument, what, f'"{refusal.text}"') from None


def invalid(name: str, what: str, reason: str) -> Refusal:
    return Refusal(Condition.PRECONDITION_FAILED, f"invalid arg '{name}' for {what}: {reason}")


def read_consumer_priority(arguments: Table, what: str, upstream: bool) -> int:
    """``x-priority`` of a consumer, 0 if absent. Refuses (406) arguments that RabbitMQ refuses for
    a classic queue, which ``what`` names; unknown ones are ignored. ``upstream``: the queue is one
    of an upstream, and may be a stream queue."""
    if "x-stream-offset" in arguments and not upstream:
        raise Refusal(
            Condition.PRECONDITION_FAILED,
            f"invalid arg 'x-stream-offset' for {what} of queue type rabbit_classic_queue",
        )
    failover = arguments.get("x-cancel-on-ha-failover", False)
    if not isinstance(failover, bool):
        reason = f"{{unacceptable_type,{type_name(failover)}}}"
        raise invalid("x-cancel-on-ha-failover", what, reason)
    value = arguments.get("x-priority", 0)
    if isinstance(value, bool) or not isinstance(value, int):
        raise invalid("x-priority", what, f'"expected integer, got {type_name(value)}"')
    return int(value)

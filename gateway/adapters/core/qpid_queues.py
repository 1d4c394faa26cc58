"""Arguments of queues by which users of Qpid limit and shape them, in the broker's names.

They come with queue.declare of 0-8 to 0-10. Others of Qpid are kept and have no effect.
"""

from collections.abc import Callable
from typing import Any

from gateway.message import Table

LAST_VALUE_KEY = "qpid.LVQ_key"
"""The header that tells messages of a last-value queue apart, unless an argument names another."""
MAX_COUNT, MAX_SIZE, POLICY = "qpid.max_count", "qpid.max_size", "qpid.policy_type"
POLICIES = {
    "ring": "drop-head",
    "ring_strict": "drop-head",
    "reject": "reject-publish",
    "self_destruct": "self-destruct",
}
"""Behaviour of a full queue. Of other policies, such as flow_to_disk, limits are no limits: long
queues are paged to the disk in any case."""


def _count(value: Any) -> Any:
    """A number, also as text; 0 is no limit. Anything else stays what it is, and the broker refuses
    it, as Qpid's does."""
    digits = value.decode("latin-1") if isinstance(value, bytes) else value
    if isinstance(digits, str) and digits.isdigit() and digits.isascii() and len(digits) < 20:
        value = int(digits)
    return None if value == 0 and not isinstance(value, bool) else value


def _seconds(value: Any) -> Any:
    seconds = _count(value)
    is_number = isinstance(seconds, int) and not isinstance(seconds, bool)
    return seconds * 1000 if is_number else seconds


def _name(value: Any) -> str | None:
    return str(value) if isinstance(value, str) and value else None


def _flag(value: Any) -> bool | None:
    """True, or ``None``; Qpid writes it as a number or as text too."""
    return True if value in (True, 1, "1") or str(value).lower() == "true" else None


def _levels(value: Any) -> Any:
    """Qpid's brokers have ten at most."""
    count = _count(value)
    is_number = isinstance(count, int) and not isinstance(count, bool)
    return min(count, MOST_LEVELS) if is_number else count


def _default_key(value: Any) -> str | None:
    return LAST_VALUE_KEY if _flag(value) else None


MOST_LEVELS = 10
"""Of priority."""

Read = Callable[[Any], Any]

ARGUMENTS: dict[str, tuple[str, Read]] = {
    MAX_COUNT: ("x-max-length", _count),
    MAX_SIZE: ("x-max-length-bytes", _count),
    "qpid.priorities": ("x-priority-levels", _levels),
    "x-qpid-priorities": ("x-priority-levels", _levels),
    "qpid.last_value_queue_key": ("x-last-value-key", _name),
    "qpid.last_value_queue": ("x-last-value-key", _default_key),
    "qpid.last_value_queue_no_browse": ("x-last-value-key", _default_key),
    "qpid.group_header_key": ("x-group-key", _name),
    "qpid.auto_delete_timeout": ("x-auto-delete-timeout", _seconds),
    "x-qpid-maximum-message-ttl": ("x-message-ttl", _count),
    "qpid.browse-only": ("x-browse-only", _flag),
    "qpid.ensure_nondestructive_consumers": ("x-browse-only", _flag),
    "no-local": ("x-no-local", _flag),
}
"""Arguments of Qpid, those of the broker that mean the same, and how the value is read."""
KNOWN = frozenset([*ARGUMENTS, POLICY, "qpid.shared_msg_group"])


def queue_arguments(given: Table) -> Table:
    """With the broker's names beside those of Qpid. A limit without a policy rejects, and a group
    that is not shared stays with its consumer, as in Qpid."""
    if KNOWN.isdisjoint(given):
        return given
    arguments = dict(given)
    limits = given.keys() & (MAX_COUNT, MAX_SIZE)
    policy = POLICIES.get(str(given.get(POLICY, "reject")))
    for name, (ours, read) in ARGUMENTS.items():
        value = read(given[name]) if name in given else None
        if value is not None and (policy is not None or name not in limits):
            arguments.setdefault(ours, value)
    if limits and policy is not None:
        arguments.setdefault("x-overflow", policy)
    if "x-group-key" in arguments and not _flag(given.get("qpid.shared_msg_group")):
        arguments.setdefault("x-group-sticky", True)
    return arguments


THEIRS = {
    "x-max-length": MAX_COUNT,
    "x-max-length-bytes": MAX_SIZE,
    "x-priority-levels": "x-qpid-priorities",
    "x-last-value-key": "qpid.last_value_queue_key",
    "x-group-key": "qpid.group_header_key",
    "x-message-ttl": "x-qpid-maximum-message-ttl",
    "x-browse-only": "qpid.ensure_nondestructive_consumers",
}
"""Arguments of a queue, as the brokers of Qpid name them."""
THEIR_POLICIES = {"drop-head": "ring", "reject-publish": "reject", "self-destruct": "self_destruct"}


def qpid_arguments(given: Table) -> Table:
    """The inverse for a client. A limit without a policy drops the oldest messages, as in
    RabbitMQ."""
    arguments = {THEIRS.get(name, name): value for name, value in given.items()}
    if "x-max-priority" in arguments:
        arguments.setdefault("x-qpid-priorities", MOST_LEVELS)  # each of ten for itself
    limited = "x-max-length" in given or "x-max-length-bytes" in given
    policy = THEIR_POLICIES.get(str(given.get("x-overflow", "drop-head")))
    if limited and policy is not None:
        arguments.pop("x-overflow", None)
        arguments[POLICY] = policy
    if "x-group-key" in given and not arguments.pop("x-group-sticky", False):
        arguments["qpid.shared_msg_group"] = 1
    return arguments

"""Policies: settings of queues and exchanges by their names, as in RabbitMQ.

A virtual host has policies and operator policies. Of each kind the one with the highest priority
whose pattern a name has is in force (RabbitMQ's guide "Parameters and Policies"). What it sets
takes effect without becoming an argument of the declaration, so that clients may go on declaring
their queues as before. Where both kinds set a number the smaller one counts, and so it does where
an argument and a policy set it ("Queue Length Limit", "Time-To-Live and Expiration"). Where the
value is no number the argument counts.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol

from gateway.broker.exchanges import Exchange
from gateway.broker.limits import (
    NO_POLICY,
    QUORUM,
    AppliedPolicy,
    Invalid,
    lifetime,
    natural,
    one_of,
    read_queue_arguments,
    text,
    timer,
)
from gateway.broker.long_operations import unanswered
from gateway.broker.names import PRIVATE, check_name
from gateway.broker.policy_patterns import Pattern, compile_pattern
from gateway.broker.queues import Queue
from gateway.broker.state import BrokerState
from gateway.broker.unsupported import WITHOUT_EFFECT
from gateway.errors import Condition, Refusal
from gateway.similar_names import did_you_mean

POLICY = "policy"
OPERATOR_POLICY = "operator-policy"
KINDS = (POLICY, OPERATOR_POLICY)
"""Of records, whose keys are virtual host and name."""

MOST_POLICIES = 1000
"""Of one kind in a virtual host."""
MOST_COST = 1 << 20
"""Steps that all patterns of a virtual host may need for one name."""
STEPS = 1 << 20
"""Steps of patterns in one turn of the loop; at least one queue is looked at."""
PORTION = 256
"""Queues or exchanges that are looked at in one turn."""

ALTERNATE = "alternate-exchange"
QUEUE_KEYS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "message-ttl": ("ttl", timer),
    "expires": ("expires", lifetime),
    "max-length": ("max_length", natural),
    "max-length-bytes": ("max_octets", natural),
    "overflow": (
        "overflow",
        one_of("invalid_overflow", "drop-head", "reject-publish", "reject-publish-dlx"),
    ),
    "dead-letter-exchange": ("dead_letter_exchange", text),
    "dead-letter-routing-key": ("dead_letter_key", text),
    "delivery-limit": ("delivery_limit", natural),
}
"""Keys that take effect on queues: the limit that each sets, and the check of its value."""
NUMBERS = ("message-ttl", "expires", "max-length", "max-length-bytes", "delivery-limit")
"""Where several apply, the smallest counts. Operator policies may have these only."""

ONE_NODE = "there is one node"
NO_STREAM = "there are no stream queues"
FEDERATION = (
    "the gateway fetches nothing by federation, a shovel or a facade may take its place; RabbitMQ "
    "may federate with the gateway"
)
PAGED = "messages are paged out when memory is short"
IDLE_KEYS = {
    **{name.removeprefix("x-"): why for name, why in WITHOUT_EFFECT.items()},
    "initial-cluster-size": ONE_NODE,
    "ha-mode": ONE_NODE,
    "ha-params": ONE_NODE,
    "ha-sync-mode": ONE_NODE,
    "ha-sync-batch-size": ONE_NODE,
    "ha-promote-on-shutdown": ONE_NODE,
    "ha-promote-on-failure": ONE_NODE,
    "max-age": NO_STREAM,
    "stream-max-segment-size-bytes": NO_STREAM,
    "consumer-timeout": "a consumer may hold its deliveries as long as it likes",
    "federation-upstream": FEDERATION,
    "federation-upstream-set": FEDERATION,
}
"""Keys of RabbitMQ that are kept and have no effect here, with the reason."""

QUEUES, EXCHANGES, ALL = "queues", "exchanges", "all"
APPLY_TO = (ALL, QUEUES, EXCHANGES, "classic_queues", "quorum_queues", "streams")


class Policy(NamedTuple):
    """One policy. ``apply_to`` is one of ``APPLY_TO``."""

    name: str
    pattern: Pattern
    definition: dict[str, Any]
    priority: int = 0
    apply_to: str = ALL

    def record(self) -> dict[str, Any]:
        return {
            "pattern": self.pattern.text,
            "definition": self.definition,
            "priority": self.priority,
            "apply_to": self.apply_to,
        }

    def warnings(self) -> list[str]:
        """A sentence for each key that has no effect."""
        return [
            f"{key} has no effect: {IDLE_KEYS[key]}" for key in self.definition if key in IDLE_KEYS
        ]


def make_policy(
    name: str,
    pattern: object,
    definition: object,
    priority: object = 0,
    apply_to: object = ALL,
    operator: bool = False,
) -> Policy:
    """Refuses (406) what RabbitMQ refuses, and a pattern that could take too long."""
    if not name:
        raise invalid("a policy needs a name")
    check_name("name of the policy", name)
    if not isinstance(pattern, str):
        raise invalid("pattern should be a text")
    if isinstance(priority, bool) or not isinstance(priority, int) or abs(priority) >= 2**63:
        raise invalid("priority should be a number")
    if apply_to not in APPLY_TO:
        raise invalid(f"apply-to should be one of {', '.join(APPLY_TO)}")
    if not isinstance(definition, dict):
        raise invalid("definition should be an object")
    if not definition:
        raise invalid("no policy provided")
    known = {*NUMBERS} if operator else {*QUEUE_KEYS, ALTERNATE, *IDLE_KEYS}
    unknown = [key for key in definition if key not in known]
    if unknown:
        kind = "operator policy" if operator else "policy"
        shown = (key[:64] + did_you_mean(key.removeprefix("x-"), known) for key in unknown)
        raise invalid(f"{', '.join(shown)} are not recognised {kind} settings")
    checked = {key: check_value(key, value) for key, value in definition.items()}
    return Policy(name, compile_pattern(pattern), checked, priority, str(apply_to))


def check_value(key: str, value: Any) -> Any:
    try:
        if key == ALTERNATE:
            value = text(value)
        elif key in QUEUE_KEYS:
            value = QUEUE_KEYS[key][1](value)
    except Invalid as reason:
        raise invalid(f"{key}: {reason}") from None
    if key in (ALTERNATE, "dead-letter-exchange", "dead-letter-routing-key"):
        check_name(key, value)
    return value


def invalid(reason: str) -> Refusal:
    return Refusal(Condition.PRECONDITION_FAILED, f"Validation failed\n\n{reason}\n")


class PolicyHost(Protocol):
    """The virtual host that has the policies."""

    name: str
    state: BrokerState
    queues: dict[str, Queue]
    exchanges: dict[str, Exchange]
    routers: int

    def title(self, kind: str, name: str) -> str: ...
    def forget_all_routes(self) -> None: ...


class Policies:
    """Those of one virtual host, by kind (one of ``KINDS``) and name."""

    def __init__(self, host: PolicyHost) -> None:
        self.host = host
        self.by_kind: dict[str, dict[str, Policy]] = {POLICY: {}, OPERATOR_POLICY: {}}
        self.ranked: dict[str, list[Policy]] = {POLICY: [], OPERATOR_POLICY: []}
        """The most important first; equal ones by name."""
        self.stale = False
        """They have changed since the queues were last looked at."""
        self.reapplying = False
        self.merged: dict[tuple[str, str], AppliedPolicy] = {}

    def __bool__(self) -> bool:
        return any(self.by_kind.values())

    # --- changes --------------------------------------------------------------------------------

    def put(self, kind: str, policy: Policy, reapply: bool = True) -> None:
        """Set a policy; one of that name is replaced. Refuses (406) one too many. The caller calls
        ``reapply`` itself if it sets many."""
        known = self.by_kind[kind]
        if policy.name not in known and len(known) >= MOST_POLICIES:
            raise invalid(f"a virtual host has at most {MOST_POLICIES} policies")
        others = [each for each in self.each() if each is not known.get(policy.name)]
        if policy.pattern.cost + sum(each.pattern.cost for each in others) > MOST_COST:
            raise invalid("the patterns of all policies together could take too long")
        known[policy.name] = policy
        host = self.host
        host.state.store.save(kind, (host.name, policy.name), policy.record())
        self.rank(kind)
        if reapply:
            self.reapply()

    def remove(self, kind: str, name: str) -> bool:
        """Whether there was such a policy."""
        if self.by_kind[kind].pop(name, None) is None:
            return False
        self.host.state.store.forget(kind, (self.host.name, name))
        self.rank(kind)
        self.reapply()
        return True

    def restore(self, kind: str, name: str, record: dict[str, Any]) -> None:
        """Take one from the store, before there are queues. One whose pattern needs an engine that
        is not installed any more is reported, and has no effect."""
        try:
            policy = make_policy(name, operator=kind == OPERATOR_POLICY, **record)
        except Refusal as refusal:
            what = self.host.title("policy", name)
            self.host.state.report(f"{what} has no effect: {refusal.text}")
            return
        self.by_kind[kind][name] = policy
        self.rank(kind)

    def each(self) -> Iterator[Policy]:
        for policies in self.by_kind.values():
            yield from policies.values()

    def rank(self, kind: str) -> None:
        policies = self.by_kind[kind].values()
        self.ranked[kind] = sorted(policies, key=lambda each: (-each.priority, each.name))
        self.merged.clear()

    def portion(self, most: int) -> int:
        """How many names, up to so many, may be compared with the patterns in one turn."""
        cost = sum(each.pattern.cost for each in self.each())
        return min(most, max(STEPS // cost, 1)) if cost else most

    def reapply(self) -> None:
        """All queues and exchanges follow the policies, in this turn or, if they are many, in later
        ones."""
        self.stale = True
        if not self.reapplying:
            self.host.state.long_operations.begin(self.rounds(), unanswered, atomic=False)

    def rounds(self) -> Iterator[None]:
        """A long operation."""
        self.reapplying = True
        try:
            while self.stale:
                self.stale = False
                for _ in self.round():
                    yield
                    if self.stale:
                        break
        finally:
            self.reapplying = False

    def round(self) -> Iterator[None]:
        """Look at everything once."""
        host = self.host
        portion = self.portion(PORTION)
        for count, exchange in enumerate(list(host.exchanges.values()), 1):
            if not exchange.gone:
                self.apply_to_exchange(exchange)
            if count % portion == 0:
                yield
        for count, queue in enumerate(list(host.queues.values()), 1):
            if not queue.gone and self.apply_to_queue(queue):
                catch_up(queue)
            if count % portion == 0:
                yield

    # --- effects --------------------------------------------------------------------------------

    def in_force(self, name: str, *kinds: str) -> AppliedPolicy:
        """For a name of something that policies of these kinds of ``apply_to`` reach."""
        found = [
            next(
                (each for each in ranked if each.apply_to in kinds and each.pattern.matches(name)),
                None,
            )
            for ranked in self.ranked.values()
        ]
        policy, operator = found
        if policy is None and operator is None:
            return NO_POLICY
        key = ("" if policy is None else policy.name, "" if operator is None else operator.name)
        merged = self.merged.get(key)
        if merged is None:
            merged = self.merged[key] = AppliedPolicy(*key, merge(policy, operator))
        return merged

    def begin_with(self, queue: Queue) -> None:
        """A queue was made, and has nothing in memory yet."""
        if self and self.apply_to_queue(queue):
            queue.dispatcher.set_direct(not queue.refuses_when_full)
            queue.lifetime.touch()

    def apply_to_queue(self, queue: Queue) -> bool:
        """Whether it makes a difference."""
        if queue.name.startswith(PRIVATE):
            return False
        quorum = queue.arguments.get("x-queue-type") == QUORUM
        kind = "quorum_queues" if quorum else "classic_queues"
        applied = self.in_force(queue.name, ALL, QUEUES, kind)
        if applied == queue.policy:
            return False
        queue.policy = applied
        own = read_queue_arguments(queue.arguments, self.host.title("queue", queue.name))
        changes: dict[str, Any] = {}
        for key, value in applied.definition.items():
            if key not in QUEUE_KEYS or (key == "delivery-limit" and not quorum):
                continue
            limit = QUEUE_KEYS[key][0]
            if f"x-{key}" not in queue.arguments:
                changes[limit] = value
            elif key in NUMBERS:
                changes[limit] = min(value, getattr(own, limit))
        queue.limit(own._replace(**changes))
        return True

    def apply_to_exchange(self, exchange: Exchange) -> None:
        if not exchange.name:
            return
        applied = self.in_force(exchange.name, ALL, EXCHANGES)
        if applied == exchange.policy:
            return
        exchange.policy = applied
        before = exchange.alternate
        own = exchange.arguments.get(ALTERNATE)
        exchange.alternate = own or applied.definition.get(ALTERNATE) or None
        if exchange.alternate != before and exchange.name in self.host.exchanges:
            self.host.forget_all_routes()
            self.host.routers += (exchange.alternate is not None) - (before is not None)


def merge(policy: Policy | None, operator: Policy | None) -> dict[str, Any]:
    """The settings of both together: the smaller of two numbers."""
    found = {} if policy is None else dict(policy.definition)
    for key, value in ({} if operator is None else operator.definition).items():
        found[key] = min(value, found[key]) if key in found else value
    return found


def catch_up(queue: Queue) -> None:
    """The limits of a queue that is in use have changed."""
    queue.dispatcher.set_direct(not queue.refuses_when_full)
    queue.lifetime.touch()
    if queue.capped:
        queue.drop_excess()

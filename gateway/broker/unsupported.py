"""Arguments of queues that have no effect here: those of another type of queue are refused as
RabbitMQ refuses them, all others are accepted as it accepts them, and a warning says so."""

from gateway.broker.limits import QUEUE_CHECKS, QUORUM, invalid
from gateway.errors import Condition, Refusal
from gateway.message import Table
from gateway.operations import DeclareQueue
from gateway.similar_names import did_you_mean

STREAM = ("x-max-age", "x-stream-max-segment-size-bytes", "x-initial-cluster-size")
QUORUM_ONLY = (
    "x-delivery-limit",
    "x-max-in-memory-length",
    "x-max-in-memory-bytes",
    "x-quorum-initial-group-size",
    "x-queue-leader-locator",
    "x-dead-letter-strategy",
)
CLASSIC_ONLY = ("x-max-priority", "x-queue-mode", "x-queue-master-locator", "x-queue-version")

NOT_FOR = {"classic": (*STREAM, *QUORUM_ONLY), QUORUM: (*STREAM, *CLASSIC_ONLY)}

WITHOUT_EFFECT = {
    "x-queue-mode": "messages are paged out when memory is short, in any mode",
    "x-max-in-memory-length": "messages are paged out when memory is short",
    "x-max-in-memory-bytes": "messages are paged out when memory is short",
    "x-quorum-initial-group-size": "there is one node",
    "x-queue-leader-locator": "there is one node",
    "x-queue-master-locator": "there is one node",
    "x-queue-version": "there is one kind of storage",
    "x-dead-letter-strategy": "dead letters always move within one batch of the store",
}


def check_type(op: DeclareQueue, what: str) -> None:
    """Refuse (406) a queue whose flags or arguments its type does not have."""
    kind = str(op.arguments.get("x-queue-type", "classic"))
    if kind == QUORUM:
        flags = (
            (not op.durable, "non-durable"),
            (op.exclusive, "exclusive"),
            (op.auto_delete, "auto-delete"),
        )
        for bad, name in flags:
            if bad:
                text = f"invalid property '{name}' for {what}"
                raise Refusal(Condition.PRECONDITION_FAILED, text)
    for name in NOT_FOR[kind]:
        if name in op.arguments:
            text = f"invalid arg '{name}' for {what} of queue type rabbit_{kind}_queue"
            raise Refusal(Condition.PRECONDITION_FAILED, text)
    if "x-queue-version" in op.arguments and op.arguments["x-queue-version"] not in (1, 2):
        raise invalid("x-queue-version", what, '"expected integer, 1 or 2"')


def without_effect(arguments: Table) -> list[str]:
    """A sentence for each argument of a queue that has no effect."""
    found = []
    for name, value in arguments.items():
        if name == "x-queue-type" and value == QUORUM:
            found.append("x-queue-type 'quorum': kept on this node only, without replicas")
        elif name in WITHOUT_EFFECT:
            found.append(f"{name} has no effect: {WITHOUT_EFFECT[name]}")
        elif name.startswith("x-") and name not in QUEUE_CHECKS:
            meant = did_you_mean(name, QUEUE_CHECKS)
            found.append(f"{name[:64]} is not known and has no effect{meant}")
    return found

"""Resuming a link over which we send (§2.6.13, §3.4.6): the fate of each delivery that both
ends, or only ours, remember.

| ours \\ theirs | not there      | null, received        | an outcome                            |
|---------------|----------------|-----------------------|---------------------------------------|
| null          | sent anew      | sent again, resumed   | applied; a transfer without a message |
| an outcome    | none           | aborted               | written: settled if it is the same    |
"""

from collections.abc import Iterable
from struct import Struct
from typing import Any, NamedTuple

from gateway.adapters.performatives.composites import as_record
from gateway.adapters.performatives.outcomes import outcome_of, settle, state_of
from gateway.adapters.performatives.sending_link import QueuedDelivery, SendingLink
from gateway.adapters.performatives.wire import layouts as w
from gateway.operations import Operation, Resumed

_Q = Struct(">Q")

OURS = 1 << 63
"""Above all numbers that tags of ours reach."""


class BadMap(ValueError):
    """An unsettled map with a key that is no tag, or a value that is no state."""


class Plan(NamedTuple):
    """``queued`` to be sent first; ``left``: deliveries that stay unsettled without being sent,
    because a map is incomplete; operations that apply the outcomes of the peer."""

    queued: list[QueuedDelivery]
    left: dict[int, bytes]
    operations: list[Operation]


def read_map(given: dict[Any, Any] | None) -> dict[bytes, Any] | None:
    """The peer's unsettled map: states by tag, ``None`` for null. A transaction does not outlive
    its session, nor does a state in it. Raises ``BadMap``."""
    if given is None:
        return None
    found: dict[bytes, Any] = {}
    for tag, value in given.items():
        state = as_record(value)
        if not isinstance(tag, bytes) or len(tag) > 32:
            raise BadMap("a key of the unsettled map is no delivery-tag")
        if state is not None and "delivery-state" not in getattr(state, "PROVIDES", ()):
            raise BadMap("a value of the unsettled map is no delivery-state")
        found[tag] = None if isinstance(state, w.TransactionalState) else state
    return found


def written_map(resumed: list[Resumed]) -> dict[bytes, Any]:
    """Our unsettled map."""
    return {each.tag: state_of(each.outcome) for each in resumed}


def plan(
    link: SendingLink, resumed: list[Resumed], theirs: dict[bytes, Any], complete: bool
) -> Plan:
    """A plan for each delivery. ``complete``: both unsettled maps are complete."""
    found = Plan([], {}, [])
    for each in resumed:
        if each.tag in theirs:
            found.queued.append(_both(link, each, theirs[each.tag], found.operations))
        elif each.outcome is not None:
            continue  # the peer knows of no delivery, and there is none any more
        elif complete:
            found.queued.append(
                QueuedDelivery(each.delivery, each.message, True, link.settles, each.tag)
            )
        else:
            found.left[each.delivery] = each.tag
    return found


def _both(
    link: SendingLink, each: Resumed, theirs: Any, operations: list[Operation]
) -> QueuedDelivery:
    """A delivery that both ends remember must be resumed."""
    channel = link.session.number
    decided = outcome_of(theirs, channel, each.delivery)
    if each.outcome is not None:
        ours = state_of(each.outcome)
        if decided is None:
            return QueuedDelivery(0, None, tag=each.tag, resume=True, aborted=True)
        same = type(ours) is type(theirs)
        return QueuedDelivery(0, None, settled=same, tag=each.tag, state=ours, resume=True)
    if decided is not None:
        operations.append(settle(decided, channel, each.delivery))
        return QueuedDelivery(0, None, settled=True, tag=each.tag, state=theirs, resume=True)
    # The same attempt goes on: its octets are those that were sent.
    queued = QueuedDelivery(each.delivery, each.message, False, False, each.tag, resume=True)
    if isinstance(theirs, w.Received):
        queued.begin = theirs
    return queued


def written(known: dict[bytes, Any] | None) -> dict[bytes, Any] | None:
    """Outcomes by tag as the unsettled map of an attach of ours."""
    return None if known is None else {tag: state_of(each) for tag, each in known.items()}


def resumed(record: w.Attach) -> list[Resumed]:
    """The peer's unsettled deliveries of a link that we resume. Raises ``BadMap``."""
    theirs = read_map(record.unsettled) or {}
    return [Resumed(tag, 0, outcome_of(state, 0, 0), None) for tag, state in theirs.items()]


def highest(tags: Iterable[bytes]) -> int:
    """The highest number among tags that may be ours. The peer invents others as it likes, and the
    next number has to fit a tag."""
    numbers = (_Q.unpack(tag)[0] for tag in tags if len(tag) == 8)
    return max((number for number in numbers if number < OURS), default=0)

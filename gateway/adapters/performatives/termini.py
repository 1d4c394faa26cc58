"""Sources and targets of attach (§3.5.3, §3.5.4) <-> ``Terminus``.

A value that the specification does not allow raises ``BadTerminus``, which refuses the link with
amqp:invalid-field. A lifetime policy stands in the properties of a dynamic node as its record, or
as the described value that came.
"""

from typing import Any

from gateway.adapters.performatives.composites import as_record
from gateway.adapters.performatives.outcomes import RELEASED, SYMBOLS, outcome_of, state_of
from gateway.adapters.performatives.wire import layouts as w
from gateway.adapters.performatives.wire.tables import (
    StdDistMode,
    TerminusDurability,
    TerminusExpiryPolicy,
)
from gateway.operations import Outcome, Terminus
from gateway.values import Array, Described, Symbol

POLICIES = frozenset(
    {
        TerminusExpiryPolicy.LINK_DETACH,
        TerminusExpiryPolicy.SESSION_END,
        TerminusExpiryPolicy.CONNECTION_CLOSE,
        TerminusExpiryPolicy.NEVER,
    }
)
DIST_MODES = "supported-dist-modes"


class BadTerminus(ValueError):
    """A field of a source or target that cannot be (amqp:invalid-field)."""


def read(record: w.Source | w.Target | None) -> Terminus:
    """The requested terminus; for None (§2.6.3, recovering a link) one without properties."""
    if record is None:
        return Terminus()
    if not isinstance(record, w.Source | w.Target):
        raise BadTerminus(f"{type(record).__name__} is no source or target that is known")
    address = record.address
    if address is not None and not isinstance(address, str):
        raise BadTerminus("an address is text")
    durable = record.durable or TerminusDurability.NONE
    if durable > TerminusDurability.UNSETTLED_STATE:
        raise BadTerminus(f"terminus durability {durable} is not defined")
    expiry = record.expiry_policy or TerminusExpiryPolicy.SESSION_END
    if expiry not in POLICIES:
        raise BadTerminus(f"expiry policy {expiry[:40]!r} is not defined")
    dynamic = bool(record.dynamic)
    if dynamic and address is not None:
        raise BadTerminus("a dynamic node has no address before it is made")
    if record.dynamic_node_properties and not dynamic:
        raise BadTerminus("properties of a dynamic node, which is not asked for")
    found = Terminus(
        None if address is None else str(address),
        durable,
        str(expiry),
        record.timeout or 0,
        dynamic,
        _node_properties(record.dynamic_node_properties),
        capabilities=tuple(str(each) for each in record.capabilities or ()),
    )
    if isinstance(record, w.Source):
        mode = record.distribution_mode
        if mode not in (None, StdDistMode.MOVE, StdDistMode.COPY):
            raise BadTerminus(f"distribution mode {mode[:40]!r} is not known")
        found.copy = mode == StdDistMode.COPY
        found.filters = _filters(record.filter)
        if _is_outcome(record.default_outcome):
            default = outcome_of(record.default_outcome, 0, 0)
            found.default = None if default is Outcome.RELEASE else default
    return found


def _node_properties(given: dict[Any, Any] | None) -> dict[str, Any]:
    """§3.5.9."""
    found: dict[str, Any] = {}
    for key, value in (given or {}).items():
        if not isinstance(key, Symbol):
            raise BadTerminus("a node property is named by a symbol")
        name = str(key)
        if name == DIST_MODES:
            found[name] = tuple(value) if isinstance(value, Array | list) else (value,)
        else:
            found[name] = as_record(value)
    return found


def _filters(given: dict[Any, Any] | None) -> dict[str, tuple[Any, Any]]:
    """§3.5.8. A null filter lets everything pass, as one that is not there."""
    found: dict[str, tuple[Any, Any]] = {}
    for key, value in (given or {}).items():
        if not isinstance(key, Symbol):
            raise BadTerminus("a filter is named by a symbol")
        if value is None:
            continue
        if not isinstance(value, Described):
            raise BadTerminus(f"filter {key[:40]!r} is no described value")
        found[str(key)] = value.descriptor, value.value
    return found


def source(terminus: Terminus, asked: w.Source | None = None) -> w.Source:
    """A source as it is in place. Outcomes and default outcome are those that were asked for, as
    far as there are such; a delivery that is settled without a state counts as released."""
    default: Any = RELEASED if terminus.default is None else state_of(terminus.default)
    outcomes: tuple[str, ...] = SYMBOLS
    if asked is not None:
        if _is_outcome(asked.default_outcome):
            default = asked.default_outcome
        if asked.outcomes:
            outcomes = tuple(each for each in asked.outcomes if each in SYMBOLS) or SYMBOLS
    return w.Source(
        address=terminus.address,
        distribution_mode=StdDistMode.COPY if terminus.copy else StdDistMode.MOVE,
        filter={Symbol(name): Described(*filter_) for name, filter_ in terminus.filters.items()}
        or None,
        default_outcome=default,
        outcomes=outcomes,
        **_common(terminus),
    )


def _is_outcome(value: Any) -> bool:
    return f"amqp:{getattr(value, 'NAME', '')}:list" in SYMBOLS


def target(terminus: Terminus) -> w.Target:
    """A target as it is in place."""
    return w.Target(address=terminus.address, **_common(terminus))


def _common(terminus: Terminus) -> dict[str, Any]:
    properties = {
        Symbol(name): Array([Symbol(each) for each in value], 0xA3) if name == DIST_MODES else value
        for name, value in terminus.properties.items()
    }
    return {
        "durable": terminus.durable or None,
        "expiry_policy": terminus.expiry,
        "timeout": terminus.timeout or None,
        "dynamic": terminus.dynamic or None,
        "dynamic_node_properties": properties if properties and terminus.dynamic else None,
        "capabilities": terminus.capabilities or None,
    }

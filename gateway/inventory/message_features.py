"""Features of a message that is read from a journal or an archive, by the names of the table of
knowledge. The decoders of the observe mode find the same in frames."""

from operator import attrgetter
from typing import Any

from gateway.adapters.methods.content import BASIC
from gateway.inventory.contents import content_of, reply_features
from gateway.inventory.observer import LARGE
from gateway.inventory.performatives import ANNOTATIONS
from gateway.message import Dialect, Properties
from gateway.values import Array, Described

MOST_KNOWN = 1024
MOST_HEADERS = 32
"""Combinations that are remembered, and headers in one."""
NESTED = (dict, list, Array, Described)
"""Values whose features are those of others inside of them."""
_used = attrgetter(
    "user_id", "app_id", "cluster_id", "type", "group_id", "footer", "content_encoding"
)
_known: dict[tuple[Any, ...], tuple[str, ...]] = {}
USUAL_PRIORITY = 4
"""That of messages without one in 0-10 and 1.0; some clients always say it."""


def features_of(properties: Properties, dialect: Dialect, size: int) -> list[str]:
    """``size``: octets of the body."""
    headers = properties.application or {}
    types = tuple(map(type, headers.values()))
    if len(types) > MOST_HEADERS or any([issubclass(one, NESTED) for one in {*types}]):
        return _found(properties, dialect, size)
    # All that the answer depends on.
    reply_to = properties.reply_to
    combination = (
        dialect is BASIC, size > LARGE, types, tuple(headers), tuple(properties.annotations or ()),
        tuple(map(bool, _used(properties))), properties.creation_time is None,
        properties.body_kind, properties.priority,
        properties.ttl is None and properties.absolute_expiry_time is None,
        tuple(reply_features(reply_to)) if isinstance(reply_to, str) else (),
    )  # fmt: skip
    known = _known.get(combination)
    if known is None:
        if len(_known) >= MOST_KNOWN:
            _known.clear()
        known = _known[combination] = tuple(_found(properties, dialect, size))
    return list(known)


def _found(properties: Properties, dialect: Dialect, size: int) -> list[str]:
    others: dict[str, Any] = {}
    others["timestamp"] = properties.creation_time is not None and dialect is BASIC
    others["user-id"] = properties.user_id
    others["app-id"] = properties.app_id
    others["cluster-id"] = properties.cluster_id
    others["message-type"] = properties.type
    others["message-group"] = properties.group_id
    others["footer"] = properties.footer
    others["body-sequence"] = properties.body_kind == "sequence"
    others["body-value"] = properties.body_kind == "value"
    others["large-message"] = size > LARGE
    for name in properties.annotations or ():
        others[ANNOTATIONS.get(str(name), "message-annotations")] = True
    priority = properties.priority or 0
    reply_to = properties.reply_to
    content = content_of(
        properties.application or {},
        priority=0 if priority == USUAL_PRIORITY and dialect is not BASIC else priority,
        expires=properties.ttl is not None or properties.absolute_expiry_time is not None,
        content_encoding=properties.content_encoding,
        reply_to=reply_to if isinstance(reply_to, str) else "",
        others=others,
    )
    return list(dict.fromkeys(name for name, _ in content.features))

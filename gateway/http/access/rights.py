"""Rights in tokens: ``scope`` and ``authorization_details`` (RFC 9396), actions on patterns.

A scope token is ``ACTION`` or ``ACTION:VHOST/KIND/NAME``; the three parts are percent-encoded
globs (``*`` stands for anything), and the kind is ``queue``, ``exchange``, ``route`` or ``*``.
Details are ``{"type": "amqp-gateway", "actions": ["publish"], "vhosts": ["/"], "nodes":
["queue:orders.*"]}``.
"""

from collections.abc import Iterable
from enum import Enum
from typing import Any, NamedTuple
from urllib.parse import unquote

DETAILS_TYPE = "amqp-gateway"
KINDS = frozenset({"queue", "exchange", "route", "*"})
MOST_RIGHTS = 256


class Action(Enum):
    """Actions that rights permit."""

    PUBLISH = "publish"
    RECEIVE = "receive"
    BROWSE = "browse"
    SETTLE = "settle"
    STREAM = "stream"
    PRESENCE = "presence"
    ADMIN = "admin"


ACTIONS = {action.value: action for action in Action}


class BadRights(Exception):
    """Unreadable rights. The credential grants nothing."""


class Right(NamedTuple):
    """Actions on the nodes of a kind with matching names. The patterns are globs; with ``literal``
    they are names, in which ``*`` is an asterisk."""

    actions: frozenset[Action]
    vhost: str = "*"
    kind: str = "*"
    name: str = "*"
    literal: bool = False

    def covers(self, action: Action, vhost: str, kind: str, name: str) -> bool:
        if action not in self.actions or self.kind not in ("*", kind):
            return False
        if self.literal:
            return self.vhost == vhost and self.name == name
        return matches(self.vhost, vhost) and matches(self.name, name)

    def record(self) -> list[Any]:
        """The right as plain JSON."""
        return [sorted(one.value for one in self.actions), *self[1:]]


def read_record(record: list[Any]) -> Right:
    actions, vhost, kind, name, literal = record
    return Right(frozenset(ACTIONS[one] for one in actions), vhost, kind, name, literal)


def matches(pattern: str, text: str) -> bool:
    """Whether a text has the form of a glob: each ``*`` stands for any characters."""
    if pattern == "*":
        return True
    first, *others = pattern.split("*")
    if not others:
        return text == first
    *middle, last = others
    at, end = len(first), len(text) - len(last)
    if at > end or not (text.startswith(first) and text.endswith(last)):
        return False
    for part in middle:
        found = text.find(part, at, end)
        if found < 0:
            return False
        at = found + len(part)
    return True


def of_scope(scope: str, prefix: str = "") -> list[Right]:
    """The rights in a space-separated scope; tokens of other resources are ignored. Raises
    ``BadRights``."""
    found = []
    for token in scope.split():
        if not token.startswith(prefix):
            continue
        word, colon, where = token.removeprefix(prefix).partition(":")
        action = ACTIONS.get(word)
        if action is None:
            continue
        if not colon:
            found.append(Right(frozenset({action})))
            continue
        parts = where.split("/")
        if len(parts) != 3 or not all(parts) or parts[1] not in KINDS:
            raise BadRights("a scope is ACTION or ACTION:VHOST/KIND/NAME")
        try:
            vhost, kind, name = (unquote(part, errors="strict") for part in parts)
        except UnicodeDecodeError:
            raise BadRights("a scope is not percent-encoded UTF-8") from None
        found.append(Right(frozenset({action}), vhost, kind, name))
    return limited(found)


def of_details(details: Any) -> list[Right]:
    """The rights in ``authorization_details``; other types are ignored. Raises ``BadRights`` for an
    entry of ours that is not understood, since it must not grant more than intended."""
    if not isinstance(details, list):
        raise BadRights("authorization_details is not a list")
    found: list[Right] = []
    for entry in details:
        if not isinstance(entry, dict) or not isinstance(entry.get("type"), str):
            raise BadRights("an entry of authorization_details has no type")
        if entry["type"] == DETAILS_TYPE:
            found += of_entry(entry)
    return limited(found)


def of_entry(entry: dict[str, Any]) -> Iterable[Right]:
    unknown = entry.keys() - {"type", "actions", "vhosts", "nodes", "locations"}
    if unknown:
        raise BadRights(f"authorization_details: no member {sorted(unknown)[0]!r}")
    words = strings(entry, "actions", None)
    if not words or any(word not in ACTIONS for word in words):
        raise BadRights("authorization_details: actions are " + ", ".join(ACTIONS))
    actions = frozenset(ACTIONS[word] for word in words)
    for vhost in strings(entry, "vhosts", ["*"]):
        for node in strings(entry, "nodes", ["*:*"]):
            kind, colon, name = node.partition(":")
            if not colon or kind not in KINDS or not name:
                raise BadRights("authorization_details: a node is KIND:NAME")
            yield Right(actions, vhost, kind, name)


def strings(entry: dict[str, Any], key: str, default: list[str] | None) -> list[str]:
    given = entry.get(key, default)
    if not isinstance(given, list) or not all(isinstance(one, str) and one for one in given):
        raise BadRights(f"authorization_details: {key} is a list of strings")
    return given


def limited(found: list[Right]) -> list[Right]:
    if len(found) > MOST_RIGHTS:
        raise BadRights(f"more than {MOST_RIGHTS} rights")
    return found

"""Topic permissions as RabbitMQ has them: which routing keys a user may publish to a topic
exchange, and bind to it. They narrow the permissions for the exchange, and hold only for exchanges
that one is set for.
"""

import re
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, Protocol

from gateway.broker.names import MOST_OCTETS, check_name, title
from gateway.broker.policy_patterns import compile_pattern
from gateway.broker.store import Record
from gateway.errors import Condition, Refusal

KIND = "topic-permission"
"""Of the records."""
MOST_PATTERN = 4096
"""Characters of a pattern, which may list many names."""
NOTHING = "^$"
"""The empty pattern of RabbitMQ."""


class Records(Protocol):
    """The part of a store that keeps them."""

    def save(self, kind: str, key: tuple[str, ...], value: dict[str, Any]) -> None: ...

    def forget(self, kind: str, key: tuple[str, ...]) -> None: ...


class TopicPermission(NamedTuple):
    """Patterns of routing keys of an exchange: ``write`` of those a user may publish, ``read`` of
    those a user may bind. ``{username}`` and ``{vhost}`` stand for the names at hand."""

    user: str
    vhost: str
    exchange: str
    write: str
    read: str


class TopicPermissions:
    """Those of all users. ``changed`` is called after each change."""

    def __init__(self, records: Records, changed: Callable[[], None]) -> None:
        self._records = records
        self._changed = changed
        self._found: dict[tuple[str, str], dict[str, TopicPermission]] = {}
        """By user and virtual host, then by exchange."""
        self._patterns: dict[tuple[str, str, str], Callable[[str], bool]] = {}

    def reload(self, records: Iterable[Record]) -> None:
        """Take them from the records of a store, which may be of other kinds too."""
        self._found.clear()
        for kind, key, value in records:
            if kind == KIND:
                user, vhost, exchange = key
                self._keep(TopicPermission(user, vhost, exchange, value["write"], value["read"]))

    def _keep(self, one: TopicPermission) -> None:
        self._found.setdefault((one.user, one.vhost), {})[one.exchange] = one

    def of(self, user: str, vhost: str, exchange: str) -> TopicPermission | None:
        """The topic permission of a user at an exchange."""
        found = self._found.get((user, vhost))
        return None if found is None else found.get(exchange)

    def need(self, user: str, vhost: str, exchange: str, right: str, key: str) -> None:
        """Refuse (403) unless the user may publish ("write") this routing key, or bind it
        ("read")."""
        found = self.of(user, vhost, exchange)
        if found is not None and not self.allows(found, right, key):
            raise Refusal(
                Condition.ACCESS_REFUSED,
                f"{right} access to topic '{key}' in {title('exchange', exchange, vhost)} refused"
                f" for user '{user}': the topic permission to {right} is"
                f" '{getattr(found, right)}'",
            )

    def allows(self, permission: TopicPermission, right: str, key: str) -> bool:
        """``right`` is "write" or "read"."""
        pattern = self._pattern(permission, getattr(permission, right))
        return pattern(key[: MOST_OCTETS + 1])

    def _pattern(self, one: TopicPermission, text: str) -> Callable[[str], bool]:
        wanted = text, one.user, one.vhost
        found = self._patterns.get(wanted)
        if found is None:
            try:
                found = _compiled(one, text)
            except Refusal:
                # It is kept from a version which checked less.
                found = compile_pattern(NOTHING).matches
            self._patterns[wanted] = found
        return found

    def all(self, user: str | None = None, vhost: str | None = None) -> list[TopicPermission]:
        """Those of one user, or for one virtual host, or all of them; in order."""
        return sorted(
            one
            for of_user in self._found.values()
            for one in of_user.values()
            if user in (None, one.user) and vhost in (None, one.vhost)
        )

    def set(self, one: TopicPermission) -> None:
        """Refuses (406) an invalid regular expression, and one that could take too long."""
        check_name("name of the exchange", one.exchange)
        for text in (one.write, one.read):
            self._patterns[text, one.user, one.vhost] = _compiled(one, text)
        self._keep(one)
        value = {"write": one.write, "read": one.read}
        self._records.save(KIND, (one.user, one.vhost, one.exchange), value)
        self._changed()

    def clear(self, user: str, vhost: str, exchange: str | None = None) -> None:
        """That of one exchange, or of all."""
        found = self._found.get((user, vhost), {})
        gone = [name for name in found if exchange in (None, name)]
        for name in gone:
            del found[name]
            self._records.forget(KIND, (user, vhost, name))
        if gone:
            self._changed()


def _compiled(one: TopicPermission, text: str) -> Callable[[str], bool]:
    for name, value in (("{username}", one.user), ("{vhost}", one.vhost)):
        text = text.replace(name, re.escape(value))
    return compile_pattern(text or NOTHING, MOST_PATTERN).matches

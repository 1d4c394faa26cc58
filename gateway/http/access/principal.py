"""The caller of a request: identity, credential and rights."""

from typing import NamedTuple

from gateway.broker.broker import Broker
from gateway.errors import Refusal
from gateway.http import problems
from gateway.http.access.rights import Action, Right
from gateway.http.problems import Problem

__all__ = ["BROKER", "MONITORS", "Action", "BadToken", "Principal"]

MONITORS = frozenset({"administrator", "monitoring"})
BROKER = {
    Action.PUBLISH: "write",
    Action.RECEIVE: "read",
    Action.BROWSE: "read",
    Action.SETTLE: "read",
    Action.STREAM: "read",
}
"""Configure, write or read, as in the broker's permissions."""


class BadToken(Exception):
    """A bearer token is not valid. The text gives the reason without quoting the token."""


class Principal(NamedTuple):
    """An authenticated caller. ``user`` is the broker's user, whose permissions are the upper
    bound. ``scheme`` is "basic", "bearer", "cookie" or "ticket". ``expires`` is seconds since 1970
    or ``None``. ``rights`` restrict the permissions of the user; ``None`` is no restriction.
    ``proof`` is the evidence that must remain valid while a stream is open
    (``Gate.still_good``)."""

    user: str
    scheme: str = "basic"
    subject: str = ""
    expires: float | None = None
    rights: tuple[Right, ...] | None = None
    proof: tuple[str, ...] = ()

    @property
    def identity(self) -> tuple[str, str]:
        """The owner of quotas, idempotency keys and sealed tokens."""
        return self.user, self.subject

    def may(self, action: Action, vhost: str, kind: str, name: str) -> bool:
        """Whether the credential permits the action. The broker's permissions are checked
        separately."""
        rights = self.rights
        return rights is None or any([one.covers(action, vhost, kind, name) for one in rights])

    def need(
        self,
        broker: Broker,
        action: Action,
        vhost: str,
        kind: str,
        name: str,
        behind: str | None = None,
    ) -> None:
        """Raises ``Problem`` (403) unless this caller may perform the action on a "queue",
        "exchange" or "route". ``behind`` is the node behind a route: the credential must cover the
        route and the broker's permission the node, which the text does not name."""
        permission = BROKER.get(action)
        node = name if behind is None else behind
        told = f"user '{self.user}' may not {action.value} {kind} '{name}' in vhost '{vhost}'"
        if not self.may(action, vhost, kind, name):
            told += f": the credential does not cover {action.value} there"
        elif (
            (kind == "route" and behind is None)
            or not permission
            or broker.access.allows(self.user, vhost, permission, node)
        ):
            return
        elif behind is None:
            told += broker.access.reason(self.user, vhost, permission)
        raise Problem(problems.FORBIDDEN, told)

    def need_topic(self, broker: Broker, right: str, vhost: str, exchange: str, key: str) -> None:
        """Raises ``Problem`` (403) if a topic permission keeps this routing key of an exchange from
        the user. ``right`` is "write" or "read"."""
        try:
            broker.access.topics.need(self.user, vhost, exchange, right, key)
        except Refusal as refusal:
            raise Problem(problems.FORBIDDEN, refusal.text) from None

    def need_admin(self, broker: Broker, *tags: str) -> None:
        """Raises ``Problem`` (403) unless the user has one of the tags and the credential carries
        the action ``admin`` for everything."""
        known = broker.access.user(self.user)
        if known is None or not set(tags).intersection(known.tags):
            names = " or ".join(tags)
            raise Problem(problems.FORBIDDEN, f"this needs a user with the tag {names}")
        rights = self.rights
        if rights is not None and not any(
            Action.ADMIN in one.actions and one[1:] == ("*", "*", "*", False) for one in rights
        ):
            raise Problem(problems.FORBIDDEN, "this needs a credential with the action admin")

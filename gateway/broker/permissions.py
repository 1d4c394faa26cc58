"""Permissions of one user in one virtual host, as one channel asks for them.

RabbitMQ's rules say which permission each request needs. Answers are remembered until an
administrator changes something.
"""

from gateway.broker.access import Access
from gateway.broker.names import title
from gateway.errors import Condition, Refusal

MOST_REMEMBERED = 4096
THROUGH_DEFAULT = "; queues are published to through this exchange"


class PermissionCache:
    """``allowed`` holds the rights that the user is known to have: right and name."""

    __slots__ = ("access", "user", "vhost", "allowed")

    def __init__(self, access: Access, user: str, vhost: str) -> None:
        self.access = access
        self.user = user
        self.vhost = vhost
        self.allowed: set[tuple[str, str]] = set()

    def need(self, right: str, kind: str, name: str) -> None:
        """Refuse (403) unless the user has this right: "configure", "write" or "read"."""
        if (right, name) in self.allowed:
            return
        shown = name or "amq.default"
        if not self.access.allows(self.user, self.vhost, right, shown):
            raise Refusal(
                Condition.ACCESS_REFUSED,
                f"{right} access to {title(kind, shown, self.vhost)} refused for user '{self.user}'"
                f"{self.access.reason(self.user, self.vhost, right)}"
                f"{'' if name or kind != 'exchange' else THROUGH_DEFAULT}",
            )
        self.grant(right, name)

    def is_narrowed(self, exchange: str) -> bool:
        """Whether a topic permission says which routing keys the user may use there."""
        return self.access.topics.of(self.user, self.vhost, exchange) is not None

    def need_topic(self, right: str, exchange: str, key: str) -> None:
        """Refuse (403) unless the user may publish ("write") this routing key to a topic exchange,
        or bind ("read") it."""
        self.access.topics.need(self.user, self.vhost, exchange, right, key)

    def grant(self, right: str, name: str) -> None:
        """The user has this right: the caller has checked it, or acts for the gateway itself."""
        if len(self.allowed) >= MOST_REMEMBERED:
            self.allowed.clear()
        self.allowed.add((right, name))

    def forget(self) -> None:
        """Users or permissions have changed."""
        self.allowed.clear()

    def check_user(self, claimed: str) -> None:
        """Refuse (406) a message that names another user as its sender, unless this user may
        impersonate others."""
        if claimed == self.user:
            return
        known = self.access.user(self.user)
        if known is not None and "impersonator" in known.tags:
            return
        raise Refusal(
            Condition.PRECONDITION_FAILED,
            f"user_id property set to '{claimed}' but authenticated user was '{self.user}'",
        )

"""The meaning of each mode: the one of two upstreams that has the messages of an address, and
the one that gets copies.

Nothing here knows of brokers or connections.
"""

from enum import Enum
from typing import NamedTuple
from zlib import crc32

from gateway.broker.outbound import FIRST
from gateway.errors import Condition, Refusal

OLD = FIRST
NEW = 2
"""The bits of the upstream and of its successor."""


class Mode(Enum):
    """Mode of a queue or an exchange."""

    OLD_ONLY = "old-only"
    SHADOW = "shadow"
    MIRROR = "mirror"
    NEW_PRIMARY = "new-primary"
    NEW_ONLY = "new-only"


class Arrangement(NamedTuple):
    """Of one mode. ``primary`` has the messages: publishes go there, and consumers are there.
    ``copy`` gets copies of the publishes, 0: none does. ``waited``: a publish is confirmed when
    both have it. ``kept``: a copy is removed when its message is settled; otherwise when it has
    been compared."""

    primary: int
    copy: int = 0
    waited: bool = False
    kept: bool = False

    @property
    def other(self) -> int:
        return OLD + NEW - self.primary


ARRANGEMENTS = {
    Mode.OLD_ONLY: Arrangement(OLD),
    Mode.SHADOW: Arrangement(OLD, NEW),
    Mode.MIRROR: Arrangement(OLD, NEW, waited=True, kept=True),
    Mode.NEW_PRIMARY: Arrangement(NEW, OLD, kept=True),
    Mode.NEW_ONLY: Arrangement(NEW),
}


class Share(NamedTuple):
    """What the broker has that is not the primary one of an address. Publishes of some ``users``,
    and those of ``percent`` of all keys, go there and are brought over. ``consumers`` are clients,
    by user or client id, whose consumers are there. Publishes of ``keys`` percent of all keys go
    there and stay: each consumer is at both brokers."""

    percent: int = 0
    users: tuple[str, ...] = ()
    consumers: tuple[str, ...] = ()
    keys: int = 0

    @property
    def splits(self) -> bool:
        """Whether messages are consumed at both brokers."""
        return bool(self.consumers or self.keys)

    @property
    def sends(self) -> bool:
        """Whether publishes go there."""
        return bool(self.percent or self.users or self.keys)

    def takes(self, user: str, key: str) -> bool:
        """The same for the same user and key, so that messages with one key keep their order."""
        return user in self.users or crc32(key.encode()) % 100 < self.percent + self.keys


NO_SHARE = Share()


def check_share(share: Share, mode: Mode) -> None:
    """Raises ``Refusal`` if an address of this mode cannot have the share."""
    if share.keys and share != Share(keys=share.keys):
        text = "keys that stay at the other broker exclude percent, users and consumers"
        raise Refusal(Condition.PRECONDITION_FAILED, text)
    if share.splits and ARRANGEMENTS[mode].copy:
        text = f"in {mode.value} copies are at the other broker: consumers can be there in old-only"
        raise Refusal(Condition.PRECONDITION_FAILED, f"{text} and new-only")


def can_change(current: Mode, target: Mode) -> bool:
    """``new-only`` comes after ``new-primary`` and leads back to it: all messages of the old broker
    must have been brought over."""
    both = {current, target}
    return Mode.NEW_ONLY not in both or Mode.NEW_PRIMARY in both or current is target

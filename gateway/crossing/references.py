"""Ids of requests, by the texts that readers of other versions have for them and may put into the
correlation ids of their replies."""

from typing import Any
from uuid import UUID

MOST = 1024
"""Ids remembered of one user, the oldest forgotten first."""
MOST_OCTETS = 256 * 1024
"""Octets of ids remembered of one user."""
MOST_USERS = 1024
"""Users whose ids are remembered. The user without a request for the longest time is forgotten
first."""


class References:
    """Those of this process. What one user sends makes no id of another user forgotten. Messages
    whose user is not known (they were read from the store again) count as those of one more."""

    def __init__(self) -> None:
        self._of_users: dict[str, dict[str, Any]] = {}
        self._octets: dict[str, int] = {}
        self._users: dict[str, list[str]] = {}
        """Users by text: nearly always one."""
        self.asked = 0
        """How many texts were looked up. A conversion that has asked depends on more than its
        header."""

    def __len__(self) -> int:
        return len(self._users)

    def get(self, text: str, default: Any = None) -> Any:
        """The id of a text. A UUID stands behind an id that it is made of: no other id that makes
        it can be found, but anybody can send the UUID itself."""
        self.asked += 1
        found: Any = None
        for user in self._users.get(text, ()):
            id_ = self._of_users[user][text]
            if found is None or isinstance(found, UUID):
                found = id_
        return default if found is None else found

    def remember(self, user: str, text: str, id_: Any) -> None:
        """A message of this user has the id, and a reader knows it by the text."""
        own = self._of_users.pop(user, {})
        self._of_users[user] = own  # the last now
        if text in own:
            if not isinstance(id_, UUID):
                self._octets[user] += octets_of(id_) - octets_of(own[text])
                own[text] = id_
            return
        own[text] = id_
        self._octets[user] = self._octets.get(user, 0) + octets_of(id_)
        self._users.setdefault(text, []).append(user)
        while len(own) > MOST or self._octets[user] > MOST_OCTETS:
            self._forget(user, next(iter(own)))
        if len(self._of_users) > MOST_USERS:
            oldest = next(iter(self._of_users))
            for each in list(self._of_users[oldest]):
                self._forget(oldest, each)
            del self._of_users[oldest], self._octets[oldest]

    def _forget(self, user: str, text: str) -> None:
        self._octets[user] -= octets_of(self._of_users[user].pop(text))
        users = self._users[text]
        users.remove(user)
        if not users:
            del self._users[text]


def octets_of(id_: Any) -> int:
    """Octets that an id takes, about."""
    return len(id_) if isinstance(id_, str | bytes) else 16

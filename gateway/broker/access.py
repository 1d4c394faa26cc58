"""Users, their passwords and what they may do.

Passwords are kept as SCRAM-SHA-256 verifiers (RFC 5802) and never in clear. Permissions are
RabbitMQ's: three regular expressions per user and virtual host, searched for anywhere in a name.
"""

import hashlib
import hmac
import re
import secrets
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, Protocol

from scramp import ScramException, ScramMechanism  # type: ignore[import-untyped]

from gateway.broker.names import check_name
from gateway.broker.store import Record
from gateway.errors import Condition, Refusal

ITERATIONS = 16_384
SCRAM = ScramMechanism("SCRAM-SHA-256")
TAGS = ("administrator", "monitoring", "impersonator")
MOST_DIGESTS = 1024

KINDS = ("user", "permission")
"""Of records that are kept here."""


class Records(Protocol):
    """The part of a store that keeps users."""

    def records(self, *kinds: str) -> Iterable[Record]: ...

    def save(self, kind: str, key: tuple[str, ...], value: dict[str, Any]) -> None: ...

    def forget(self, kind: str, key: tuple[str, ...]) -> None: ...


class Verifier(NamedTuple):
    """What a password can be checked with: salt, stored key, server key, iterations."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int


class User(NamedTuple):
    """``loopback_only``: may only come from this machine; the caller of ``user`` sees to it."""

    name: str
    verifier: Verifier
    tags: tuple[str, ...] = ()
    loopback_only: bool = False


class Permission(NamedTuple):
    """What a user may do in a virtual host; an empty pattern matches nothing."""

    vhost: str
    configure: str
    write: str
    read: str


def make_verifier(password: str, iterations: int = ITERATIONS) -> Verifier:
    """Refuses (406) a password that SASLprep forbids, such as an empty one."""
    if not password:
        raise Refusal(Condition.PRECONDITION_FAILED, "the password is empty")
    try:
        return Verifier(*SCRAM.make_auth_info(password, iteration_count=iterations))
    except ScramException as error:
        raise Refusal(
            Condition.PRECONDITION_FAILED, f"the password cannot be used: {error}"
        ) from None


def fits(verifier: Verifier, password: str) -> bool:
    try:
        _, stored_key, _, _ = SCRAM.make_auth_info(
            password, iteration_count=verifier.iterations, salt=verifier.salt
        )
    except ScramException:
        return False
    return hmac.compare_digest(stored_key, verifier.stored_key)


class Access:
    """All users and permissions. ``refresh`` is called before somebody logs in, for a process
    that must see what another has written; it calls ``reload`` if there is news.

    ``anonymous_user`` is who ANONYMOUS becomes; ``external_user`` turns a certificate's subject
    into a user name (``None``: the subject is the name).
    """

    def __init__(self, records: Records, iterations: int = ITERATIONS) -> None:
        self.records = records
        self.iterations = iterations
        self.refresh: Callable[[], None] | None = None
        self.changed: Callable[[], None] = lambda: None
        self.anonymous_user: str | None = None
        self.external_user: Callable[[str], str | None] | None = None
        self._users: dict[str, User] = {}
        self._permissions: dict[tuple[str, str], Permission] = {}
        self._patterns: dict[str, re.Pattern[str]] = {}
        # Checked passwords, as digests under a key that only this process has ever had.
        self._digest_key = secrets.token_bytes(32)
        self._digests: dict[str, tuple[Verifier, bytes]] = {}
        self._nobody = Verifier(secrets.token_bytes(16), bytes(32), bytes(32), iterations)
        self.reload(records.records(*KINDS))

    def reload(self, records: Iterable[Record]) -> None:
        """Take users and permissions from the records of a store."""
        self._users.clear()
        self._permissions.clear()
        for kind, key, value in records:
            if kind == "user":
                self._users[key[0]] = read_user(key[0], value)
            elif kind == "permission":
                user, vhost = key
                self._permissions[user, vhost] = Permission(
                    vhost, value["configure"], value["write"], value["read"]
                )
        self.changed()

    # --- who it is (adapters.base.Authority) ----------------------------------------------------

    def password(self, user: str, password: str) -> bool:
        """Whether it is the user's; takes as long for an unknown user."""
        if self.refresh is not None:
            self.refresh()
        known = self._users.get(user)
        verifier = known.verifier if known is not None else self._nobody
        secret = password.encode("utf-8", "surrogatepass")
        digest = hmac.digest(self._digest_key, secret, hashlib.sha256)
        checked = self._digests.get(user)
        if (
            known is not None
            and checked is not None
            and checked[0] == verifier
            and hmac.compare_digest(checked[1], digest)
        ):
            return True
        right = fits(verifier, password) and known is not None
        if right:
            if len(self._digests) >= MOST_DIGESTS:
                self._digests.clear()
            self._digests[user] = (verifier, digest)
        return right

    def scram(self, user: str) -> tuple[bytes, bytes, bytes, int] | None:
        if self.refresh is not None:
            self.refresh()
        known = self._users.get(user)
        if known is None:
            return None
        salt, stored_key, server_key, iterations = known.verifier
        return salt, stored_key, server_key, iterations

    def anonymous(self) -> str | None:
        return self.anonymous_user if self.anonymous_user in self._users else None

    def external(self, subject: str) -> str | None:
        name = subject if self.external_user is None else self.external_user(subject)
        return name if name in self._users else None

    def user(self, name: str) -> User | None:
        return self._users.get(name)

    # --- what it may do -------------------------------------------------------------------------

    def may_enter(self, user: str, vhost: str) -> bool:
        """Whether the user has any permission record for the virtual host."""
        return user in self._users and (user, vhost) in self._permissions

    def allows(self, user: str, vhost: str, right: str, name: str) -> bool:
        """``right`` is "configure", "write" or "read"."""
        permission = self._permissions.get((user, vhost))
        if permission is None or user not in self._users:
            return False
        return self._pattern(getattr(permission, right)).search(name) is not None

    def _pattern(self, text: str) -> re.Pattern[str]:
        found = self._patterns.get(text)
        if found is None:
            found = self._patterns[text] = re.compile(text or "^$")
        return found

    def permissions_of(self, user: str) -> list[Permission]:
        return sorted(p for (name, _), p in self._permissions.items() if name == user)

    def list_permissions(self) -> list[tuple[str, Permission]]:
        """All of them, with the names of their users."""
        return sorted((name, found) for (name, _), found in self._permissions.items())

    def permissions_in(self, vhost: str) -> dict[str, Permission]:
        """Permissions for a virtual host by user."""
        return {name: p for (name, at), p in self._permissions.items() if at == vhost}

    # --- changes --------------------------------------------------------------------------------

    def list_users(self) -> list[User]:
        return sorted(self._users.values())

    def add_user(
        self, name: str, password: str, tags: Iterable[str] = (), loopback_only: bool = False
    ) -> User:
        """Refuses a name that is taken (406) or a tag that means nothing."""
        if not name:
            raise Refusal(Condition.PRECONDITION_FAILED, "a user needs a name")
        check_name("name of the user", name)
        if name in self._users:
            raise Refusal(Condition.PRECONDITION_FAILED, f"user '{name}' exists already")
        verifier = make_verifier(password, self.iterations)
        return self._put(User(name, verifier, checked_tags(tags), loopback_only))

    def change_password(self, name: str, password: str) -> User:
        """Whoever changes the password of a user from this machine only lifts that, too: the
        restriction is for the password that everybody knows."""
        known = self._known(name)
        verifier = make_verifier(password, self.iterations)
        return self._put(known._replace(verifier=verifier, loopback_only=False))

    def set_tags(self, name: str, tags: Iterable[str]) -> User:
        return self._put(self._known(name)._replace(tags=checked_tags(tags)))

    def remove_user(self, name: str) -> None:
        self._known(name)
        for permission in self.permissions_of(name):
            self.clear_permissions(name, permission.vhost)
        del self._users[name]
        self._digests.pop(name, None)
        self.records.forget("user", (name,))
        self.changed()

    def set_permissions(self, user: str, vhost: str, configure: str, write: str, read: str) -> None:
        """Refuses (406) what is not a regular expression."""
        self._known(user)
        for pattern in (configure, write, read):
            try:
                re.compile(pattern)
            except re.error as error:
                raise Refusal(
                    Condition.PRECONDITION_FAILED,
                    f"'{pattern}' is not a regular expression: {error}",
                ) from None
        self._permissions[user, vhost] = Permission(vhost, configure, write, read)
        value = {"configure": configure, "write": write, "read": read}
        self.records.save("permission", (user, vhost), value)
        self.changed()

    def clear_permissions(self, user: str, vhost: str) -> None:
        if self._permissions.pop((user, vhost), None) is not None:
            self.records.forget("permission", (user, vhost))
            self.changed()

    def _known(self, name: str) -> User:
        user = self._users.get(name)
        if user is None:
            raise Refusal(Condition.NOT_FOUND, f"no user '{name}'")
        return user

    def adopt(self, user: User) -> User:
        """Take a user with a verifier that was made elsewhere; one of that name is replaced."""
        check_name("name of the user", user.name)
        return self._put(user)

    def _put(self, user: User) -> User:
        self._users[user.name] = user
        self._digests.pop(user.name, None)
        self.records.save("user", (user.name,), user_record(user))
        self.changed()
        return user


def checked_tags(tags: Iterable[str]) -> tuple[str, ...]:
    given = tuple(dict.fromkeys(tags))
    for tag in given:
        if tag not in TAGS:
            known = ", ".join(TAGS)
            raise Refusal(Condition.PRECONDITION_FAILED, f"no tag '{tag}', there are: {known}")
    return given


def user_record(user: User) -> dict[str, Any]:
    verifier = user.verifier
    return {
        "salt": b64encode(verifier.salt).decode(),
        "stored_key": b64encode(verifier.stored_key).decode(),
        "server_key": b64encode(verifier.server_key).decode(),
        "iterations": verifier.iterations,
        "tags": list(user.tags),
        "loopback_only": user.loopback_only,
    }


def read_user(name: str, value: dict[str, Any]) -> User:
    verifier = Verifier(
        b64decode(value["salt"]),
        b64decode(value["stored_key"]),
        b64decode(value["server_key"]),
        value["iterations"],
    )
    return User(name, verifier, tuple(value["tags"]), value["loopback_only"])

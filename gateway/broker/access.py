"""Users, their passwords and permissions.

Passwords are kept as SCRAM-SHA-256 verifiers (RFC 5802) and never in clear. Permissions are
RabbitMQ's: three regular expressions per user and virtual host, searched for anywhere in a name.
"""

import hashlib
import hmac
import secrets
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, Protocol

from gateway.broker.names import MOST_OCTETS, check_name
from gateway.broker.policy_patterns import compile_pattern
from gateway.broker.store import Record
from gateway.broker.topic_permissions import KIND as TOPICS
from gateway.broker.topic_permissions import MOST_PATTERN, NOTHING, TopicPermissions
from gateway.errors import Condition, Refusal

ITERATIONS = 16_384
SALT_OCTETS = 32
MOST_PASSWORD_OCTETS = 1024
"""Longer passwords are refused: preparing one for its hash costs time."""
TAGS = ("administrator", "monitoring", "impersonator")

KINDS = ("user", "permission", TOPICS)
"""Of records that are kept here."""


class Records(Protocol):
    """The part of a store that keeps users."""

    def records(self, *kinds: str) -> Iterable[Record]: ...

    def save(self, kind: str, key: tuple[str, ...], value: dict[str, Any]) -> None: ...

    def forget(self, kind: str, key: tuple[str, ...]) -> None: ...


class Verifier(NamedTuple):
    """The means to check a password: salt, stored key, server key, iterations."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int


class RabbitHash(NamedTuple):
    """A password hash of RabbitMQ: the digest of salt and password."""

    algorithm: str
    salt: bytes
    digest: bytes


RABBIT_ALGORITHMS = {"md5": 16, "sha256": 32, "sha512": 64}
"""Octets of the digests of RabbitMQ's hashing modules, by the end of their names."""
RABBIT_MODULE = "rabbit_password_hashing_"
RABBIT_SHA256 = f"{RABBIT_MODULE}sha256"
"""RabbitMQ's default."""
RABBIT_SALT_OCTETS = 4

Secret = str | Verifier
"""A new password, or its verifier where it must not be hashed at once."""


class User(NamedTuple):
    """``loopback_only``: may only come from this machine; the caller of ``user`` sees to it.
    ``rabbit_hash``: of the password that the user had in RabbitMQ, until the first login with it;
    no password matches the verifier until then."""

    name: str
    verifier: Verifier
    tags: tuple[str, ...] = ()
    loopback_only: bool = False
    rabbit_hash: RabbitHash | None = None


class Permission(NamedTuple):
    """Rights of a user in a virtual host; an empty pattern matches nothing."""

    vhost: str
    configure: str
    write: str
    read: str


def make_verifier(password: str, iterations: int = ITERATIONS) -> Verifier:
    """Refuses (406) a password that SASLprep forbids, such as an empty one, and one that is too
    long."""
    if not password:
        raise Refusal(Condition.PRECONDITION_FAILED, "the password is empty")
    if len(password.encode("utf-8", "surrogatepass")) > MOST_PASSWORD_OCTETS:
        text = f"the password is longer than {MOST_PASSWORD_OCTETS} octets"
        raise Refusal(Condition.PRECONDITION_FAILED, text)
    try:
        return verifier_of(password, secrets.token_bytes(SALT_OCTETS), iterations)
    except ValueError as error:
        raise Refusal(
            Condition.PRECONDITION_FAILED, f"the password cannot be used: {error}"
        ) from None


def verifier_of(password: str, salt: bytes, iterations: int) -> Verifier:
    """RFC 5802 §3. Raises ``ValueError`` for a password that SASLprep forbids."""
    salted = hashlib.pbkdf2_hmac("sha256", prepared(password), salt, iterations)
    client_key = hmac.digest(salted, b"Client Key", "sha256")
    stored_key = hashlib.sha256(client_key).digest()
    return Verifier(salt, stored_key, hmac.digest(salted, b"Server Key", "sha256"), iterations)


def prepared(password: str) -> bytes:
    """A password after SASLprep (RFC 4013), which changes nothing in printable ASCII. Raises
    ``ValueError``."""
    if password.isascii() and password.isprintable():
        return password.encode()
    # Its imports take a twentieth of a start, and few passwords need it.
    from scramp.utils import ScramException, saslprep  # type: ignore[import-untyped]

    try:
        return bytes(saslprep(password).encode())
    except ScramException as error:
        raise ValueError(str(error)) from None


def fits(verifier: Verifier, password: str) -> bool:
    """Takes about ten milliseconds: not for the event loop."""
    try:
        found = verifier_of(password, verifier.salt, verifier.iterations)
    except ValueError:
        return False
    return hmac.compare_digest(found.stored_key, verifier.stored_key)


def read_rabbit_hash(text: str, module: str) -> RabbitHash:
    """``password_hash`` and ``hashing_algorithm`` of a user in RabbitMQ's definitions. Refuses
    (406) text that is no hash, and an algorithm that RabbitMQ does not have."""
    algorithm = module.removeprefix(RABBIT_MODULE)
    try:
        octets = b64decode(text, validate=True)
    except ValueError:
        octets = b""
    size = RABBIT_ALGORITHMS.get(algorithm)
    if size is None or len(octets) != RABBIT_SALT_OCTETS + size:
        raise Refusal(Condition.PRECONDITION_FAILED, f"no password hash of {module!r}")
    return RabbitHash(algorithm, octets[:RABBIT_SALT_OCTETS], octets[RABBIT_SALT_OCTETS:])


def write_rabbit_hash(rabbit_hash: RabbitHash) -> dict[str, str]:
    """The inverse of ``read_rabbit_hash``, as members of a user."""
    return {
        "password_hash": b64encode(rabbit_hash.salt + rabbit_hash.digest).decode(),
        "hashing_algorithm": f"{RABBIT_MODULE}{rabbit_hash.algorithm}",
    }


def fits_rabbit_hash(rabbit_hash: RabbitHash, password: str) -> bool:
    secret = rabbit_hash.salt + password.encode("utf-8", "surrogatepass")
    digest = hashlib.new(rabbit_hash.algorithm, secret, usedforsecurity=False).digest()
    return hmac.compare_digest(digest, rabbit_hash.digest)


def matched(user: User, password: str, iterations: int) -> Verifier | None:
    """The verifier that the password matches: the user's, or a new one if it was the user's
    password in RabbitMQ. Takes about ten milliseconds, also for a wrong password: not for the event
    loop."""
    if fits(user.verifier, password):
        return user.verifier
    if user.rabbit_hash is None or not fits_rabbit_hash(user.rabbit_hash, password):
        return None
    try:
        return make_verifier(password, iterations)
    except Refusal:
        return None  # SASLprep forbids it: the user needs another password


class Access:
    """All users and permissions. ``refresh`` is called before each login, for a process that must
    see the changes of another; it calls ``reload`` if there are any.

    ``external_user`` turns a certificate's subject into a user name (``None``: the subject is the
    name). ``removed`` is called with the name of each user that was removed. ``decoy_key`` makes
    the SCRAM data of unknown users; it is kept over restarts, as that of known users is.
    """

    def __init__(self, records: Records, iterations: int = ITERATIONS) -> None:
        self.records = records
        self.iterations = iterations
        self.refresh: Callable[[], None] | None = None
        self.changed: Callable[[], None] = lambda: None
        self.removed: Callable[[str], None] = lambda user: None
        self.decoy_key = secrets.token_bytes(32)
        self.external_user: Callable[[str], str | None] | None = None
        self._users: dict[str, User] = {}
        self.user: Callable[[str], User | None] = self._users.get
        """The user of a name, as it is now: a change makes another object of it."""
        self._permissions: dict[tuple[str, str], Permission] = {}
        self._patterns: dict[str, Callable[[str], bool]] = {}
        self.topics = TopicPermissions(records, lambda: self.changed())
        self.reload(records.records(*KINDS))

    def reload(self, records: Iterable[Record]) -> None:
        """Take users and permissions from the records of a store."""
        before = list(self._users)
        records = list(records)
        self.topics.reload(records)
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
        for name in before:
            if name not in self._users:
                self.removed(name)

    # --- authentication -------------------------------------------------------------------------

    def scram(self, user: str) -> Verifier:
        """For an unknown user a decoy: it fits no password, and looks like the verifier of a
        password that was set here, the same every time."""
        if self.refresh is not None:
            self.refresh()
        known = self._users.get(user)
        return self._decoy(user) if known is None else known.verifier

    def _decoy(self, user: str) -> Verifier:
        name = user.encode("utf-8", "surrogatepass")
        salt, stored_key, server_key = (
            hmac.digest(self.decoy_key, purpose + name, hashlib.sha256)
            for purpose in (b"salt ", b"stored key ", b"server key ")
        )
        return Verifier(salt[:SALT_OCTETS], stored_key, server_key, self.iterations)

    def external(self, subject: str) -> str | None:
        name = subject if self.external_user is None else self.external_user(subject)
        return name if name in self._users else None

    # --- permissions ----------------------------------------------------------------------------

    def may_enter(self, user: str, vhost: str) -> bool:
        """Whether the user has any permission record for the virtual host."""
        return user in self._users and (user, vhost) in self._permissions

    def allows(self, user: str, vhost: str, right: str, name: str) -> bool:
        """``right`` is "configure", "write" or "read"."""
        permission = self._permissions.get((user, vhost))
        if permission is None or user not in self._users:
            return False
        # A longer name is refused elsewhere; here it may not cost more than the longest there is.
        return self._pattern(getattr(permission, right))(name[: MOST_OCTETS + 1])

    def reason(self, user: str, vhost: str, right: str) -> str:
        """Why ``allows`` is false: the end of a sentence about the user, with the permission as its
        administrator wrote it."""
        permission = self._permissions.get((user, vhost))
        if permission is None:
            return ", who has no permissions in this vhost"
        return f": the {right} permission is '{getattr(permission, right)}'"

    def _pattern(self, text: str) -> Callable[[str], bool]:
        """Refuses everything for a pattern that is kept from a version which checked less."""
        found = self._patterns.get(text)
        if found is None:
            try:
                found = compile_pattern(text or NOTHING, MOST_PATTERN).matches
            except Refusal:
                found = compile_pattern(NOTHING).matches
            self._patterns[text] = found
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
        self,
        name: str,
        password: Secret,
        tags: Iterable[str] = (),
        loopback_only: bool = False,
    ) -> User:
        """Refuses a name that is taken (406) or a tag that means nothing."""
        if not name:
            raise Refusal(Condition.PRECONDITION_FAILED, "a user needs a name")
        check_name("name of the user", name)
        if name in self._users:
            raise Refusal(Condition.PRECONDITION_FAILED, f"user '{name}' exists already")
        verifier = self._verifier(password)
        return self._put(User(name, verifier, checked_tags(tags), loopback_only))

    def _verifier(self, password: Secret) -> Verifier:
        if isinstance(password, Verifier):
            return password
        return make_verifier(password, self.iterations)

    def change_password(self, name: str, password: Secret) -> User:
        """Also lifts the restriction to this machine, which is for the well-known first
        password."""
        known = self._known(name)
        verifier = self._verifier(password)
        return self._put(known._replace(verifier=verifier, loopback_only=False, rabbit_hash=None))

    def set_tags(self, name: str, tags: Iterable[str]) -> User:
        return self._put(self._known(name)._replace(tags=checked_tags(tags)))

    def remove_user(self, name: str) -> None:
        self._known(name)
        for permission in self.permissions_of(name):
            self.clear_permissions(name, permission.vhost)
        for topic in self.topics.all(user=name):
            self.topics.clear(name, topic.vhost)
        del self._users[name]
        self.records.forget("user", (name,))
        self.changed()
        self.removed(name)

    def set_permissions(self, user: str, vhost: str, configure: str, write: str, read: str) -> None:
        """Refuses (406) an invalid regular expression, and one that could take too long."""
        self._known(user)
        for pattern in (configure, write, read):
            if pattern not in self._patterns:
                self._patterns[pattern] = compile_pattern(pattern or NOTHING, MOST_PATTERN).matches
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


OCTETS = ("salt", "stored_key", "server_key")
"""Fields of a verifier that are octets."""


def user_record(user: User) -> dict[str, Any]:
    verifier = user.verifier
    return {
        **{name: b64encode(getattr(verifier, name)).decode() for name in OCTETS},
        "iterations": verifier.iterations,
        "tags": list(user.tags),
        "loopback_only": user.loopback_only,
        **({} if user.rabbit_hash is None else write_rabbit_hash(user.rabbit_hash)),
    }


def read_user(name: str, value: dict[str, Any]) -> User:
    salt, stored_key, server_key = (b64decode(value[name]) for name in OCTETS)
    verifier = Verifier(salt, stored_key, server_key, value["iterations"])
    rabbit_hash = None
    if "password_hash" in value:
        rabbit_hash = read_rabbit_hash(value["password_hash"], value["hashing_algorithm"])
    return User(name, verifier, tuple(value["tags"]), value["loopback_only"], rabbit_hash)

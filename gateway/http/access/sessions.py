"""Sessions of browsers and stream tickets: random ids whose records the store keeps.

An id is 32 random octets. Only its SHA-256 is stored, so neither the disk nor a memory dump reveals
it, and a session ends when its record is deleted. Records survive a restart, so that the event
stream of a browser can resume with the same credential.
"""

import base64
import hashlib
import secrets
from collections.abc import Callable
from typing import Any

from gateway.broker.access import Access
from gateway.broker.store import Store
from gateway.http.access.passwords import fingerprint
from gateway.http.access.principal import Principal
from gateway.http.access.rights import read_record
from gateway.http.dependencies import HttpDependencies

ID_LETTERS = 43


def digest_of(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def principal_record(principal: Principal) -> dict[str, Any]:
    rights = principal.rights
    return {
        "user": principal.user,
        "subject": principal.subject,
        "expires": principal.expires,
        "rights": None if rights is None else [right.record() for right in rights],
        "proof": list(principal.proof),
    }


def read_principal(record: dict[str, Any], scheme: str, proof: str) -> Principal:
    rights = record["rights"]
    return Principal(
        record["user"],
        scheme,
        record["subject"],
        record["expires"],
        None if rights is None else tuple([read_record(one) for one in rights]),
        (*record["proof"], proof),
    )


class Records:
    """Records of one kind by digest of their id, in memory and in the store. At most ``most`` are
    kept; the oldest are removed first."""

    def __init__(self, kind: str, store: Store, turns: HttpDependencies, most: int) -> None:
        self.kind = kind
        self.store = store
        self.turns = turns
        self.most = most
        self.found: dict[str, dict[str, Any]] = {}
        for _, key, value in store.records(kind):
            self.found[key[0]] = value

    def get(self, digest: str) -> dict[str, Any] | None:
        return self.found.get(digest)

    def make(self, record: dict[str, Any]) -> str:
        """Add a record. Returns its id."""
        made = base64.urlsafe_b64encode(secrets.token_bytes(32)).rstrip(b"=").decode()
        while len(self.found) >= self.most:
            self.forget(next(iter(self.found)))
        self.save(digest_of(made), record)
        return made

    def save(self, digest: str, record: dict[str, Any]) -> None:
        self.found[digest] = record
        self.turns.begin_turn()
        self.store.save(self.kind, (digest,), record)
        self.turns.end_turn()

    def forget(self, digest: str) -> None:
        if self.found.pop(digest, None) is not None:
            self.turns.begin_turn()
            self.store.forget(self.kind, (digest,))
            self.turns.end_turn()

    def sweep(self, over: Callable[[dict[str, Any]], bool]) -> None:
        for digest in [digest for digest, record in self.found.items() if over(record)]:
            self.forget(digest)


class Sessions:
    """``__Host-`` cookies. A session grants no more than the credential it was created from, and
    ends with that token, password or user."""

    def __init__(self, records: Records, access: Access, clock: Callable[[], float]) -> None:
        self.records = records
        self.access = access
        self.clock = clock

    def open(self, principal: Principal, seconds: float) -> tuple[str, Principal]:
        now = self.clock()
        self.records.sweep(lambda record: record["expires"] <= now)
        expires = now + seconds
        if principal.expires is not None:
            expires = min(expires, principal.expires)
        record = principal_record(principal._replace(expires=expires))
        made = self.records.make(record)
        return made, read_principal(record, "cookie", "session:" + digest_of(made))

    def find(self, text: str) -> Principal | None:
        """The principal of a session, or ``None`` if it is not valid."""
        if len(text) != ID_LETTERS:
            return None
        digest = digest_of(text)
        record = self.records.get(digest)
        if record is None:
            return None
        principal = read_principal(record, "cookie", "session:" + digest)
        if not holds(principal, self.access, self.records, self.clock()):
            self.records.forget(digest)
            return None
        return principal

    def close(self, text: str) -> None:
        self.records.forget(digest_of(text))


def holds(principal: Principal, access: Access, sessions: Records, now: float) -> bool:
    """Whether the basis of a principal is still valid: expiry, user, password and session."""
    if principal.expires is not None and now >= principal.expires:
        return False
    user = access.user(principal.user)
    if user is None:
        return False
    for proof in principal.proof:
        kind, _, digest = proof.partition(":")
        if kind == "password" and fingerprint(user.verifier) != proof:
            return False
        if kind == "session" and sessions.get(digest) is None:
            return False
    return True

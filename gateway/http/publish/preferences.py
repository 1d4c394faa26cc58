"""Preferences of a publish: idempotency key, time to wait, ordering key, digests to check."""

import hashlib
import hmac
from typing import Any, NamedTuple

import http_sf
from http_sf import StructuredFieldError

from gateway.http import problems
from gateway.http.fields import BadField, bare, in_quotes, string
from gateway.http.problems import Problem

MARKS = frozenset(
    {
        b"idempotency-key",
        b"prefer",
        b"content-digest",
        b"amqp-ordering-key",
        b"expect",
        b"ce-specversion",
        b"content-type",
    }
)
"""Fields that may ask for more than a plain publish."""
ORDERING = b"amqp-ordering-key"
FORMATS = (b"application/vnd.amqp-gateway", b"application/cloudevents", b"multipart/")
DIGESTS = {"sha-256": hashlib.sha256, "sha-512": hashlib.sha512}

Pairs = list[tuple[bytes, bytes]]


class PublishPreferences(NamedTuple):
    """``wait`` is how many seconds the caller waits for the outcome."""

    key: str | None
    wait: float | None
    asynchronous: bool
    unconfirmed: bool
    ordering: str | None
    digests: tuple[tuple[str, bytes], ...]


def needs_full_publish(headers: Pairs) -> bool:
    """Whether a publish is more than a body and its metadata. Hot."""
    for name, value in headers:
        if name in MARKS and (name != b"content-type" or value[:28].lower().startswith(FORMATS)):
            return True
    return False


def read_publish_preferences(headers: Pairs) -> PublishPreferences:
    """Raises ``Problem`` and ``BadField``."""
    keys = [value for name, value in headers if name == b"idempotency-key"]
    orders = [value for name, value in headers if name == ORDERING]
    digests = b", ".join(value for name, value in headers if name == b"content-digest")
    prefer = b", ".join(value for name, value in headers if name == b"prefer")
    if len(orders) > 1:
        raise BadField("amqp-ordering-key", "given twice")
    preferences = read_preferences(prefer)
    wait = preferences.get("wait")
    return PublishPreferences(
        key=read_key(keys) if keys else None,
        wait=float(wait) if isinstance(wait, int) and wait >= 0 else None,
        asynchronous="respond-async" in preferences,
        unconfirmed=str(preferences.get("confirm")) == "none",
        ordering=string("amqp-ordering-key", orders[0]) if orders else None,
        digests=read_digests(digests) if digests else (),
    )


def read_key(given: list[bytes]) -> str:
    """Raises ``Problem`` (400)."""
    if len(given) > 1:
        raise Problem(problems.BAD_KEY, "Idempotency-Key is given twice")
    try:
        key, why = bare("idempotency-key", given[0]), ""
    except BadField as error:
        key, why = None, f": {error.reason}"
    if type(key) is not str or not 0 < len(key) <= 255:
        why = in_quotes("Idempotency-Key", given[0]) or why
        raise Problem(
            problems.BAD_KEY,
            f"Idempotency-Key is a string in double quotes of 1 to 255 characters{why}",
        )
    return key


def read_preferences(raw: bytes) -> dict[str, Any]:
    """RFC 7240. Unreadable preferences are ignored."""
    found: dict[str, Any] = {}
    for part in raw.decode("latin-1").split(","):
        name, _, value = part.partition(";")[0].partition("=")
        name, value = name.strip().lower(), value.strip().strip('"')
        if name and name not in found:  # the first one counts
            found[name] = int(value) if value.isascii() and value.isdecimal() else value
    return found


def read_digests(raw: bytes) -> tuple[tuple[str, bytes], ...]:
    """The digests of known algorithms; others are ignored (RFC 9530). Raises ``BadField``."""
    name = "content-digest"
    try:
        members: Any = http_sf.parse(raw, tltype="dictionary")
    except StructuredFieldError as error:
        raise BadField(name, f"not a structured field dictionary ({error})") from None
    found = []
    for algorithm, member in members.items():
        value = member[0]
        if type(value) is not bytes:
            raise BadField(name, f"{algorithm} is not a byte sequence, :base64:")
        if algorithm in DIGESTS:
            found.append((algorithm, value))
    return tuple(found)


class Verifier:
    """Hashes the body while it is received and compares at the end."""

    def __init__(self, digests: tuple[tuple[str, bytes], ...]) -> None:
        self.wanted = digests
        self.hashes = [DIGESTS[algorithm]() for algorithm, _ in digests]

    def add(self, octets: bytes) -> None:
        for each in self.hashes:
            each.update(octets)

    def check(self) -> None:
        """Raises ``Problem`` (400)."""
        for (algorithm, wanted), each in zip(self.wanted, self.hashes, strict=True):
            if not hmac.compare_digest(each.digest(), wanted):
                raise Problem(problems.BAD_DIGEST, f"the content does not have this {algorithm}")


def applied(preferences: PublishPreferences) -> list[tuple[bytes, bytes]]:
    """``Preference-Applied``."""
    names = []
    if preferences.asynchronous:
        names.append("respond-async")
    if preferences.wait is not None:
        names.append(f"wait={preferences.wait:g}")
    if preferences.unconfirmed:
        names.append("confirm=none")
    return [(b"preference-applied", ", ".join(names).encode())] if names else []

"""HTTP Basic: reads credentials and reports errors as problem documents."""

import base64
import binascii
import hashlib
from functools import lru_cache

from gateway.broker.access import User, Verifier
from gateway.broker.broker import FIRST_USER
from gateway.http import problems
from gateway.http.problems import Problem, challenge
from gateway.net.passwords import Passwords, Stopping, TooMany, Wrong

WRONG = "Unknown user or wrong password."
FROM_ELSEWHERE = (
    f"{WRONG} The user {FIRST_USER} may log in from the gateway's own machine only, and through no "
    "proxy; `amqp-gateway user add NAME` adds one who may come from anywhere."
)
"""For the first user from other machines, whatever the password is and whether that user exists."""


def read_basic(given: bytes) -> tuple[str, str]:
    """User and password of Basic credentials. Raises ``Problem``."""
    try:
        pair = base64.b64decode(given.strip(), validate=True).decode()
    except (binascii.Error, UnicodeDecodeError, ValueError):
        raise challenge("The credentials are malformed.") from None
    user, colon, password = pair.partition(":")
    if not colon:
        raise challenge("The credentials are malformed.")
    return user, password


@lru_cache(4096)
def fingerprint(verifier: Verifier) -> str:
    """A value that changes with the password and does not reveal it."""
    return "password:" + hashlib.sha256(b"fingerprint" + verifier.stored_key).hexdigest()[:32]


async def checked(
    passwords: Passwords, user: str, password: str, peer: str, wrong: str = WRONG
) -> User:
    """Verify a password. Raises ``Problem``: 401 with the text ``wrong``, 429 after too many
    failures, 503 during shutdown."""
    try:
        return await passwords.check(user, password, peer)
    except Wrong:
        raise challenge(wrong) from None
    except TooMany as error:
        told = "too many failed attempts to authenticate"
        raise Problem(problems.QUOTA, told, retry_after=error.seconds) from None
    except Stopping as error:
        raise Problem(problems.DRAINING, str(error)) from None

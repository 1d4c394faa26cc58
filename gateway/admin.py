"""Users from the command line, in the same store that a running gateway uses.

The gateway notices within a second that another process has written.
"""

import contextlib
from collections.abc import Iterator
from typing import NamedTuple

from gateway.broker.access import Access
from gateway.config import Settings
from gateway.errors import GatewayError, Refusal, StoreError
from gateway.store import open_records


class AdminError(GatewayError):
    """The command cannot be carried out. The message is shown to the user of the command line."""


class UserRow(NamedTuple):
    """One user as a line of a table."""

    name: str
    tags: str
    origin: str
    rights: str


@contextlib.contextmanager
def change_users(settings: Settings) -> Iterator[Access]:
    """The users of a data directory. Changes are written when the block ends."""
    if not settings.durable:
        raise AdminError("durable = false: a volatile gateway has no users but guest")
    try:
        with open_records(settings.data_dir) as records:
            yield Access(records)
    except (OSError, StoreError, Refusal) as error:
        raise AdminError(f"{settings.data_dir}: {error}") from None


def read_users(settings: Settings) -> list[UserRow]:
    """All users by name."""
    with change_users(settings) as access:
        return [
            UserRow(
                user.name,
                ", ".join(user.tags) or "-",
                "this machine only" if user.loopback_only else "anywhere",
                "\n".join(
                    f"{right.vhost}: {right.configure} / {right.write} / {right.read}"
                    for right in access.permissions_of(user.name)
                )
                or "none",
            )
            for user in access.list_users()
        ]

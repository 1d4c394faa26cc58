"""Results of the probes for supported methods, which every family has.

A probe sends every method, command or type to an adapter of ours in both roles, on an open channel.
It counts as refused if the adapter answers with not-implemented; any other answer, also one that
refuses an argument, shows that the method is handled.
"""

from typing import NamedTuple

from gateway.adapters.contract import Answer


class Support(NamedTuple):
    """How a method, command or type of one version is treated. A role is "yes", "refused" (with
    not-implemented), or "-" if the specification lets the other side not send it."""

    name: str
    number: str
    extension: str
    """The broker that defined it, if not the standard; of commands and types, their section."""
    as_server: str
    as_client: str


class VersionSupport(NamedTuple):
    """One version as a row."""

    version: str
    header: str
    handled: tuple[str, ...]
    """Classes of which every method is handled; parts of 1.0."""
    refused: tuple[str, ...]
    """Classes or single methods that are refused."""
    methods: tuple[Support, ...]
    columns: tuple[str, str, str] = ("method", "number", "extension")


class AnyUser:
    """An authority that accepts every login."""

    def password(self, user: str, password: str, answer: Answer) -> None:
        answer(True)

    def scram(self, user: str) -> tuple[bytes, bytes, bytes, int]:
        return bytes(16), bytes(32), bytes(32), 4096

    def proved(self, user: str, right: bool, answer: Answer) -> None:
        answer(right)

    def anonymous(self) -> str:
        return "anyone"

    def external(self, subject: str) -> None:
        return None


def shown(header: bytes) -> str:
    """A protocol header as the documents write it."""
    return " ".join([header[:4].decode(), *map(str, header[4:])])

"""Results of the probes for supported methods, which every family has.

A probe sends every method, command or type to an adapter of ours in both roles, on an open channel.
It counts as refused if the adapter answers with not-implemented; any other answer, also one that
refuses an argument, shows that the method is handled. The family's module ``support`` has it as
``supported(version)``.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from gateway.adapters.contract import Adapter, Answer
from gateway.errors import Condition, Lost
from gateway.operations import (
    AttachSession,
    BeginSession,
    Closed,
    Done,
    Open,
    OpenDestination,
    Operation,
    Refused,
    SessionLost,
)


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


def connect(client: Adapter, server: Adapter) -> None:
    """Exchange octets until both are silent; requests are granted."""
    while True:
        up = b"".join(client.output())
        for operation in server.receive(up) if up else ():
            if isinstance(operation, AttachSession | Open | BeginSession | OpenDestination):
                server.send(Done(getattr(operation, "channel", 0), operation.token, ""))
        down = b"".join(server.output())
        if down:
            client.receive(down)
        if not up and not down:
            return


def understood(found: Iterable[Operation]) -> bool:
    """Whether an adapter answered with anything but not-implemented."""
    return not any(
        (
            isinstance(operation, Closed | SessionLost)
            or (isinstance(operation, Refused) and operation.lost is not Lost.NOTHING)
        )
        and operation.condition is Condition.NOT_IMPLEMENTED
        for operation in found
    )


def answers(
    from_client: bool, from_server: bool, understands: Callable[[int], bool]
) -> tuple[str, str]:
    """How both roles treat a method or command that these sides may send. ``understands`` is
    called with 0 for the server, 1 for the client."""
    server, client = (
        "-" if not sent else "yes" if understands(at) else "refused"
        for at, sent in enumerate((from_client, from_server))
    )
    return server, client


def summary(version: str, header: str, methods: tuple[Support, ...]) -> VersionSupport:
    """A version from its methods, whose names begin with their class. A class is refused if all
    its methods are."""
    classes: dict[str, list[Support]] = {}
    for method in methods:
        classes.setdefault(method.name.split(".")[0], []).append(method)
    bad = {
        name: [m.name for m in members if "refused" in (m.as_server, m.as_client)]
        for name, members in classes.items()
    }
    whole = [name for name, members in classes.items() if len(bad[name]) == len(members)]
    return VersionSupport(
        version,
        header,
        tuple(name for name in classes if not bad[name]),
        (*whole, *(method for name in classes if name not in whole for method in bad[name])),
        methods,
    )

"""Which commands of 0.8a2 are supported, found by sending every command to our adapter in both
roles."""

from gateway.adapters.commands.command import Command
from gateway.adapters.commands.engine import Engine
from gateway.adapters.commands.frames import frame
from gateway.adapters.commands.wire.tables import COMMANDS, HEADER, VERSION
from gateway.adapters.contract import Authority, Role
from gateway.adapters.core.support import AnyUser, Support, VersionSupport
from gateway.adapters.options import Credentials
from gateway.errors import Condition, Lost
from gateway.operations import (
    BeginSession,
    Closed,
    Done,
    Open,
    OpenDestination,
    Operation,
    Refused,
    Service,
    SessionLost,
)

CHANNEL = HANDLE = 1
EMPTY_MESSAGE = bytes(15)


def pair(authority: Authority) -> tuple[Engine, Engine]:
    """A server and a client with a channel and a handle open between them."""
    server = Engine(VERSION, Role.SERVER, authority=authority)
    client = Engine(VERSION, Role.CLIENT, credentials=Credentials("guest", "guest"))
    client.send(Open("open", "/", "guest"))
    carry(client, server)
    client.send(BeginSession(CHANNEL, "begin", restartable=True))
    carry(client, server)
    client.send(OpenDestination(CHANNEL, "handle", str(HANDLE), Service.QUEUE, "q"))
    carry(client, server)
    return server, client


def carry(client: Engine, server: Engine) -> None:
    """Exchange octets until both are idle; requests are granted."""
    while client.pending or server.pending:
        up = b"".join(client.output())
        for operation in server.receive(up) if up else ():
            if isinstance(operation, Open | BeginSession | OpenDestination):
                server.send(Done(getattr(operation, "channel", 0), operation.token, ""))
        down = b"".join(server.output())
        if down:
            client.receive(down)


def understands(engine: Engine, command: Command) -> bool:
    """Whether the command is answered by anything but not-implemented."""
    record = command.record()
    for name, value in (("channel_id", CHANNEL), ("handle_id", HANDLE)):
        if hasattr(record, name):
            setattr(record, name, value)
    fragment = b""
    if command.fragment:
        fragment = EMPTY_MESSAGE
        record.fragment_size = len(fragment)
    found = engine.receive(frame(record) + fragment)
    return not any(missing(operation) for operation in found)


def missing(operation: Operation) -> bool:
    if isinstance(operation, Closed | SessionLost):
        return operation.condition is Condition.NOT_IMPLEMENTED
    refused = isinstance(operation, Refused) and operation.lost is not Lost.NOTHING
    return refused and operation.condition is Condition.NOT_IMPLEMENTED  # type: ignore[attr-defined]


def supported() -> VersionSupport:
    """All commands of 0.8a2. Some fields are refused: ``docs/0-8a2.md``."""
    authority = AnyUser()
    rows = []
    for command in COMMANDS:
        answers = []
        for at, sent in enumerate((command.from_client, command.from_server)):
            known = sent and understands(pair(authority)[at], command)
            answers.append("-" if not sent else "yes" if known else "refused")
        rows.append(Support(command.name, str(command.number), command.section, *answers))
    groups = dict.fromkeys(row.name.split(".")[0] for row in rows)
    bad = [row.name for row in rows if "refused" in (row.as_server, row.as_client)]
    return VersionSupport(
        VERSION,
        " ".join(map(str, HEADER)),
        tuple(group for group in groups if not any(n.startswith(f"{group}.") for n in bad)),
        (*bad, "transfer out of band"),
        tuple(rows),
        ("command", "type", "section"),
    )

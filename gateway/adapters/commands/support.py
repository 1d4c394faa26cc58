"""Which commands of 0.8a2 are supported, found by sending every command to our adapter in both
roles."""

from gateway.adapters.commands.command import Command
from gateway.adapters.commands.engine import Engine
from gateway.adapters.commands.frames import frame
from gateway.adapters.commands.wire.tables import COMMANDS, HEADER, VERSION
from gateway.adapters.contract import Role
from gateway.adapters.core.support import (
    AnyUser,
    Support,
    VersionSupport,
    answers,
    connect,
    summary,
    understood,
)
from gateway.adapters.options import Credentials
from gateway.operations import BeginSession, Open, OpenDestination, Service

CHANNEL = HANDLE = 1
EMPTY_MESSAGE = bytes(15)


def pair() -> tuple[Engine, Engine]:
    """A server and a client with a channel and a handle open between them."""
    server = Engine(VERSION, Role.SERVER, authority=AnyUser())
    client = Engine(VERSION, Role.CLIENT, credentials=Credentials("guest", "guest"))
    client.send(Open("open", "/", "guest"))
    connect(client, server)
    client.send(BeginSession(CHANNEL, "begin", restartable=True))
    connect(client, server)
    client.send(OpenDestination(CHANNEL, "handle", str(HANDLE), Service.QUEUE, "q"))
    connect(client, server)
    return server, client


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
    return understood(engine.receive(frame(record) + fragment))


def tried(command: Command) -> Support:
    """One command, put to both roles."""
    found = answers(
        command.from_client,
        command.from_server,
        lambda at: understands(pair()[at], command),
    )
    return Support(command.name, str(command.number), command.section, *found)


def supported(version: str) -> VersionSupport:
    """All commands of 0.8a2. Some fields are refused: ``docs/0-8a2.md``."""
    found = summary(version, " ".join(map(str, HEADER)), tuple(map(tried, COMMANDS)))
    return found._replace(
        refused=(*found.refused, "transfer out of band"), columns=("command", "type", "section")
    )

"""Which controls and commands of 0-10 are supported, found out by trying."""

from gateway.adapters.contract import Role
from gateway.adapters.core.support import (
    AnyUser,
    Support,
    VersionSupport,
    answers,
    connect,
    shown,
    summary,
    understood,
)
from gateway.adapters.options import Credentials
from gateway.adapters.segments import operations as ops
from gateway.adapters.segments.engine import Engine
from gateway.adapters.segments.failures import Failure
from gateway.adapters.segments.frames import command, control
from gateway.adapters.segments.operation_types import OperationType
from gateway.adapters.segments.wire.tables import HEADER, OPERATIONS, VERSION, ErrorCode
from gateway.operations import BeginSession, Open, Operation, SessionLost

CHANNEL = 1


def pair() -> tuple[Engine, Engine]:
    """A server and a client with an attached session between them."""
    server = Engine(VERSION, Role.SERVER, authority=AnyUser())
    client = Engine(VERSION, Role.CLIENT, credentials=Credentials("guest", "guest"))
    client.send(Open("open", "/", "guest"))
    connect(client, server)
    client.send(BeginSession(CHANNEL, "begin"))
    connect(client, server)
    return server, client


def understands(engine: Engine, kind: OperationType) -> bool:
    """Whether it is answered, without any field, by anything but not-implemented."""
    record = kind.record()
    if kind.control:
        found = engine.receive(control(CHANNEL, ops.write_control(record)))
    else:
        found = engine.receive(command(CHANNEL, ops.write_command(record)))
    return understood(found) and not any(map(not_implemented, found))


def not_implemented(operation: Operation) -> bool:
    """Whether the server ends a session with this error code, which is told behind the answers to
    earlier commands."""
    token = operation.token if isinstance(operation, SessionLost) else None
    return isinstance(token, Failure) and token.code == ErrorCode.NOT_IMPLEMENTED


def tried(kind: OperationType) -> Support:
    """One control or command, put to both roles."""
    found = answers(kind.from_client, kind.from_server, lambda at: understands(pair()[at], kind))
    return Support(kind.name, f"{kind.code >> 8}, {kind.code & 0xFF}", "", *found)


def supported(version: str) -> VersionSupport:
    """All controls and commands."""
    rows = tuple(map(tried, OPERATIONS.values()))
    found = summary(version, shown(HEADER), rows)
    return found._replace(columns=("control or command", "code", "extension"))

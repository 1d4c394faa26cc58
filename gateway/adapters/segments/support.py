"""Which controls and commands of 0-10 are supported, found out by trying."""

from typing import Any

from gateway.adapters.contract import Role
from gateway.adapters.core.support import AnyUser, Support, VersionSupport, shown, summary
from gateway.adapters.segments import operations as ops
from gateway.adapters.segments.engine import Engine
from gateway.adapters.segments.frames import command, control
from gateway.adapters.segments.operation_types import OperationType
from gateway.adapters.segments.session import Failure
from gateway.adapters.segments.wire import layouts as w
from gateway.adapters.segments.wire.tables import HEADER, OPERATIONS, VERSION, ErrorCode
from gateway.operations import Done, Open, SessionLost

CHANNEL = 1
NOT_YET = "not yet"
"""The client role is missing."""


def opened() -> Engine:
    """A server with an attached session."""
    engine = Engine(VERSION, Role.SERVER, authority=AnyUser())
    engine.receive(HEADER)
    records: list[tuple[int, Any]] = [
        (0, w.ConnectionStartOk(b"", "PLAIN", b"\0guest\0guest", "en_US")),
        (0, w.ConnectionTuneOk()),
        (0, w.ConnectionOpen()),
        (CHANNEL, w.SessionAttach(b"probe")),
        (CHANNEL, w.SessionCommandPoint(0, 0)),
    ]
    for channel, record in records:
        for operation in engine.receive(control(channel, ops.write_control(record))):
            if isinstance(operation, Open):
                engine.send(Done(0, operation.token))
    return engine


def understands(kind: OperationType) -> bool:
    """Whether it is answered, without any field, by anything but not-implemented."""
    engine, record = opened(), kind.record()
    if kind.control:
        engine.receive(control(CHANNEL, ops.write_control(record)))
        return True
    for operation in engine.receive(command(CHANNEL, ops.write_command(record))):
        token = operation.token if isinstance(operation, SessionLost) else None
        if isinstance(token, Failure) and token.code == ErrorCode.NOT_IMPLEMENTED:
            return False
    return True


def tried(kind: OperationType) -> Support:
    """One control or command."""
    known = kind.from_client and understands(kind)
    server = "-" if not kind.from_client else "yes" if known else "refused"
    number = f"{kind.code >> 8}, {kind.code & 0xFF}"
    return Support(kind.name, number, "", server, NOT_YET if kind.from_server else "-")


def supported(version: str) -> VersionSupport:
    """All controls and commands."""
    rows = tuple(map(tried, OPERATIONS.values()))
    found = summary(version, shown(HEADER), tuple(row for row in rows if row.as_server != "-"))
    return found._replace(methods=rows, columns=("control or command", "code", "extension"))

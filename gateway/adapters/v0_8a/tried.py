"""How each command of 0.8a2 is treated, found out by putting it to an engine in both roles.

It is put with a channel and a handle open and with empty fields. It counts as refused if it is
answered with 540 (not implemented, RFC 011) at whatever level; anything else shows that it is known
and handled.
"""

from typing import Any, NamedTuple

from gateway.adapters.base import Role
from gateway.adapters.options import Credentials
from gateway.adapters.v0_8a.command import Command
from gateway.adapters.v0_8a.engine import Engine
from gateway.adapters.v0_8a.frames import Frames, frame
from gateway.adapters.v0_8a.wire import layouts as w
from gateway.adapters.v0_8a.wire.tables import COMMANDS, HEADER, REPLIES, VERSION
from gateway.operations import BeginSession, Done, Open, OpenDestination, Operation, Service

REFUSED = REPLIES["not-implemented"]
CHANNEL = HANDLE = 1
LARGEST = 1 << 20


class Tried(NamedTuple):
    """A role is "yes", "refused" (with not-implemented), or "-" if it is not for that role."""

    name: str
    number: int
    section: str
    as_server: str
    as_client: str


class _Anyone:
    """An authority that lets everybody in: nothing is behind it."""

    def password(self, user: str, password: str) -> bool:
        return True

    def scram(self, user: str) -> None:
        return None

    def anonymous(self) -> str:
        return "anyone"

    def external(self, subject: str) -> None:
        return None


class Bench:
    """A server and a client; when all is said, channel 1 and handle 1 are open between them."""

    def __init__(self, before: bool) -> None:
        """``before``: nothing is said yet but the initiation."""
        self.server = Engine(VERSION, Role.SERVER, authority=_Anyone())
        self.client = Engine(VERSION, Role.CLIENT, credentials=Credentials("guest", "guest"))
        if before:
            self.client.output()
            self.server.receive(HEADER)
            self.server.output()
            return
        self.client.send(Open("open", "/", "guest"))
        self.carry()
        self.client.send(BeginSession(CHANNEL, "begin"))
        self.carry()
        self.client.send(OpenDestination(CHANNEL, "use", str(HANDLE), Service.QUEUE, "q"))
        self.carry()

    def carry(self) -> None:
        """Let them talk until both are silent; requests are granted."""
        moved = True
        while moved:
            moved = False
            for source, target in ((self.client, self.server), (self.server, self.client)):
                octets = b"".join(source.output())
                moved = moved or bool(octets)
                if octets:
                    self._grant(target, target.receive(octets))

    def _grant(self, engine: Engine, found: list[Operation]) -> None:
        for operation in found if engine.server else ():
            token = getattr(operation, "token", None)
            if token is not None:
                result = "" if isinstance(operation, OpenDestination) else None
                engine.send(Done(getattr(operation, "channel", 0), token, result))

    def refuses(self, command: Command, server: bool) -> bool:
        """Whether this side answers the command with not-implemented."""
        engine = self.server if server else self.client
        said = frame(_filled(command)) if not command.fragment else _with_body(command)
        engine.receive(said)
        codes: list[int] = []

        def look(_: Command, record: Any, __: bytes) -> None:
            codes.append(getattr(record, "reply_code", 0))

        Frames(look, LARGEST).feed(b"".join(engine.output()))
        return REFUSED in codes


def _filled(command: Command) -> Any:
    """The command with numbers of what is open, or of what is to be opened."""
    record = command.record()
    if hasattr(record, "channel_id"):
        record.channel_id = CHANNEL + (command.record is w.ChannelOpen)
    if hasattr(record, "handle_id"):
        record.handle_id = HANDLE + (command.record is w.HandleOpen)
    if hasattr(record, "service_type"):
        record.service_type = 1
    if isinstance(record, w.ConnectionChallenge):
        record.version, record.mechanisms = HEADER[1], "PLAIN"
    return record


def _with_body(command: Command) -> bytes:
    record = _filled(command)
    fragment = w.write_message_properties(w.MessageProperties())
    record.fragment_size = len(fragment)
    return frame(record) + fragment


GREETING = ("connection.challenge", "connection.response", "connection.tune", "connection.open")


def tried() -> list[Tried]:
    """All commands, in the order of their numbers."""
    rows: list[Tried] = []
    for command in sorted(COMMANDS, key=lambda one: one.number):
        answers = []
        for server, sent in ((True, command.from_client), (False, command.from_server)):
            known = sent and not Bench(command.name in GREETING).refuses(command, server)
            answers.append("-" if not sent else "yes" if known else "refused")
        rows.append(Tried(command.name, command.number, command.section, *answers))
    return rows


__all__ = ["Tried", "tried"]

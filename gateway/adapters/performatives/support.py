"""How each composite of 1.0 is treated, found out by putting it to an engine in both roles.

It counts as refused if the answer has amqp:not-implemented in any frame; any other answer shows
that it is known and handled.
"""

from collections.abc import Callable
from typing import Any

from gateway.adapters.contract import Role
from gateway.adapters.core.support import AnyUser, Support, VersionSupport, shown
from gateway.adapters.options import Credentials
from gateway.adapters.performatives.composite_fields import CompositeType
from gateway.adapters.performatives.composites import write
from gateway.adapters.performatives.engine import Engine
from gateway.adapters.performatives.frames import frame
from gateway.adapters.performatives.wire import layouts as w
from gateway.adapters.performatives.wire.tables import (
    COMPOSITE_TYPES,
    FRAME_SASL,
    HEADER,
    SASL_HEADER,
    TLS_HEADER,
    AmqpError,
    SaslCode,
)
from gateway.operations import (
    Attached,
    AttachSource,
    AttachTarget,
    BeginSession,
    DeclareTransaction,
    Done,
    Open,
)
from gateway.values import Described, ULong

REFUSED = AmqpError.NOT_IMPLEMENTED.encode()

CHANNEL, HANDLE, OTHER = 0, 0, 1

PARTS = {"2": "transport", "3": "messaging", "4": "transactions", "5": "security"}
"""Parts of the specification of 1.0 that have composite types."""


class Bench:
    """An engine with an open session, and a link over which it receives (as server, also one to
    its coordinator)."""

    def __init__(self, server: bool) -> None:
        role = Role.SERVER if server else Role.CLIENT
        self.engine = Engine(
            "1.0", role, authority=AnyUser(), credentials=Credentials(mechanism="")
        )
        self.server = server
        if not server:
            self.engine.send(Open("open", "/", "anyone"))
        self.engine.receive(HEADER)
        self.say(w.Open("bench"))
        if server:
            self.say(w.Begin(None, 0, 100, 100))
            self.attach(HANDLE, w.Source(), w.Target("q"))
            self.attach(OTHER, w.Source(), w.Coordinator())
        else:
            self.engine.send(BeginSession(CHANNEL, "begin"))
            self.say(w.Begin(CHANNEL, 0, 100, 100))
        self.engine.output()

    def attach(self, handle: int, source: Any, target: Any, role: bool = False) -> bytes:
        name = f"link {handle}"
        return self.say(w.Attach(name, handle, role, source=source, target=target))

    def say(self, record: Any, payload: bytes = b"", channel: int = CHANNEL) -> bytes:
        """Put it to the engine, whose requests are granted; returns the output."""
        found = self.engine.receive(frame(channel, write(record) + payload))
        for operation in found + self.engine.found():
            if isinstance(operation, AttachSource | AttachTarget):
                result: Any = Attached(operation.terminus, "", "q")
            elif isinstance(operation, DeclareTransaction):
                result = b"work"
            else:
                result = None
            token = getattr(operation, "token", None)
            if token is not None and self.server:
                self.engine.send(Done(getattr(operation, "channel", 0), token, result))
        return b"".join(self.engine.output())

    def transfer(self, value: Any) -> bytes:
        """A message to the coordinator."""
        record = w.Transfer(OTHER, 0, b"tag", 0)
        return self.say(record, b"\x00\x53\x77" + write(value))

    def disposition(self, state: Any) -> bytes:
        return self.say(w.Disposition(True, 0, None, True, state))


def _sasl(record: Any, server: bool) -> bytes:
    """Put a frame of the SASL layer to an engine that waits for it."""
    role = Role.SERVER if server else Role.CLIENT
    engine = Engine("1.0", role, authority=AnyUser())
    engine.receive(SASL_HEADER)
    if isinstance(record, w.SaslResponse):
        engine.receive(frame(0, write(w.SaslInit("PLAIN")), FRAME_SASL))
    elif not server and not isinstance(record, w.SaslMechanisms):
        engine.receive(frame(0, write(w.SaslMechanisms(("PLAIN",))), FRAME_SASL))
    engine.output()
    engine.receive(frame(0, write(record), FRAME_SASL))
    return REFUSED if engine.closing else b"".join(engine.output())


Trial = Callable[[Bench], bytes]

BOTH: dict[type[Any], Trial] = {
    w.Open: lambda bench: bench.say(w.Open("again")),
    w.Begin: lambda bench: bench.say(w.Begin(None, 0, 1, 1), channel=3),
    w.Attach: lambda bench: bench.attach(5, w.Source("q"), w.Target("q")),
    w.Flow: lambda bench: bench.say(w.Flow(0, 100, 0, 100, echo=True)),
    w.Transfer: lambda bench: bench.say(w.Transfer(HANDLE, 0, b"tag", 0), b"\x00\x53\x75\xa0\0"),
    w.Disposition: lambda bench: bench.disposition(None),
    w.Detach: lambda bench: bench.say(w.Detach(HANDLE, True)),
    w.End: lambda bench: bench.say(w.End()),
    w.Close: lambda bench: bench.say(w.Close()),
    w.Error: lambda bench: bench.say(w.Close(w.Error("amqp:internal-error"))),
    w.Received: lambda bench: bench.disposition(w.Received(0, 0)),
    w.Accepted: lambda bench: bench.disposition(w.Accepted()),
    w.Rejected: lambda bench: bench.disposition(w.Rejected()),
    w.Released: lambda bench: bench.disposition(w.Released()),
    w.Modified: lambda bench: bench.disposition(w.Modified()),
    w.TransactionalState: lambda bench: bench.disposition(w.TransactionalState(b"work")),
}
SERVER: dict[type[Any], Trial] = {
    w.Source: lambda bench: bench.attach(5, w.Source("q"), w.Target(), True),
    w.Target: lambda bench: bench.attach(5, w.Source(), w.Target("q")),
    w.Coordinator: lambda bench: bench.attach(5, w.Source(), w.Coordinator()),
    w.Declare: lambda bench: bench.transfer(w.Declare()),
    w.Discharge: lambda bench: bench.transfer(w.Discharge(b"none")),
    **{
        policy: lambda bench, policy=policy: bench.attach(  # type: ignore[misc]
            5,
            w.Source(dynamic=True, dynamic_node_properties={"lifetime-policy": policy()}),
            w.Target(),
            True,
        )
        for policy in (
            w.DeleteOnClose,
            w.DeleteOnNoLinks,
            w.DeleteOnNoMessages,
            w.DeleteOnNoLinksOrMessages,
        )
    },
}
SASL: dict[type[Any], tuple[bool, Any]] = {
    w.SaslMechanisms: (False, w.SaslMechanisms(("PLAIN",))),
    w.SaslInit: (True, w.SaslInit("PLAIN", b"\0a\0a")),
    w.SaslChallenge: (False, w.SaslChallenge(b"")),
    w.SaslResponse: (True, w.SaslResponse(b"\0a\0a")),
    w.SaslOutcome: (False, w.SaslOutcome(SaslCode.OK)),
}
GLOBAL = Described(ULong(0), b"")


def supported(version: str) -> VersionSupport:
    """All composite types of 1.0, in the order of the specification; sections of messages are only
    carried."""
    rows: list[Support] = []
    for kind in COMPOSITE_TYPES:
        if "section" in kind.provides or kind.record is w.Declared:
            continue
        answers = [_answer(kind, server) for server in (True, False)]
        rows.append(Support(kind.name, f"{kind.code:#04x}", kind.section, *answers))
    refused = [row.name for row in rows if row.as_server == "refused"]
    missing = {row.extension[0] for row in rows if row.as_server == "refused"}
    if not distributed():
        refused.append("distributed transactions")
        missing.add("4")
    return VersionSupport(
        version,
        ", ".join(map(shown, (HEADER, SASL_HEADER, TLS_HEADER))),
        tuple(name for part, name in PARTS.items() if part not in missing),
        tuple(refused),
        tuple(rows),
        ("type", "code", "section"),
    )


def _answer(kind: CompositeType, server: bool) -> str:
    record = kind.record
    if record in SASL:
        hears, said = SASL[record]
        octets = _sasl(said, server) if hears is server else None
    else:
        trial = BOTH.get(record) or (SERVER.get(record) if server else None)
        octets = None if trial is None else trial(Bench(server))
    if octets is None:
        return "-"
    return "refused" if REFUSED in octets else "yes"


def distributed() -> bool:
    """Is a transaction with a global id taken (§4.5.2)?"""
    return REFUSED not in Bench(True).transfer(w.Declare(GLOBAL))

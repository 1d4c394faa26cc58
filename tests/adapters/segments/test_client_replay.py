"""Recorded brokers of Qpid talk to our client role, which is asked for what the recorded clients
did: it sends the same commands, and understands the answers."""

import contextlib
import random
from collections.abc import Callable
from typing import Any

import pytest

from gateway.adapters import Credentials, Limits, Role
from gateway.adapters.segments.completion import unwrapped
from gateway.adapters.segments.content import canonical, received
from gateway.adapters.segments.decoding import read_map
from gateway.adapters.segments.engine import Engine
from gateway.adapters.segments.essentials import arrived
from gateway.adapters.segments.session_state import State
from gateway.adapters.segments.splicing import delivery_properties, message_properties
from gateway.adapters.segments.wire import layouts as w
from gateway.adapters.segments.wire.tables import BY_RECORD, HEADER
from gateway.errors import LocalError
from gateway.operations import (
    Acquire,
    BeginSession,
    Bind,
    BranchTimeout,
    Close,
    Closed,
    Commit,
    CommitBranch,
    DeclareExchange,
    DeclareQueue,
    DeleteExchange,
    DeleteQueue,
    Deliver,
    Done,
    EndBranch,
    EndSession,
    Fetch,
    FindBindings,
    FindExchange,
    FindQueue,
    Open,
    Operation,
    Outcome,
    PrepareBranch,
    Publish,
    PurgeQueue,
    RecoverBranches,
    Refused,
    Rollback,
    Select,
    SelectBranches,
    SessionLost,
    SetBranchTimeout,
    SettleMany,
    StartBranch,
    Subscribe,
    Synchronize,
    Unbind,
    Unsubscribe,
    Xid,
)
from tests.adapters.segments.recorded import NAMES, frames
from tests.adapters.segments.serving import Decoder, Said
from tests.adapters.test_fuzz import mutate

CHANNEL = 1
COMMAND_FRAME, SESSION_CLASS = 1, 2


def moved(octets: bytes) -> bytes:
    """A frame of a session, on our channel: some recorded clients use channel 0 for it."""
    of_session = octets[1:2] != b"\0" or octets[12] == SESSION_CLASS
    if octets[:4] == b"AMQP" or len(octets) < 12 or not of_session:
        return octets
    return octets[:6] + CHANNEL.to_bytes(2) + octets[8:]


# --- commands of the recorded clients as operations ----------------------------------------------


def table(octets: bytes | None) -> dict[str, Any]:
    return read_map(octets) if octets else {}


def declare_queue(m: w.QueueDeclare, replay: "Replay") -> Operation:
    arguments = table(m.arguments)
    if m.alternate_exchange:
        arguments["x-dead-letter-exchange"] = m.alternate_exchange
    flags = m.passive, m.durable, m.exclusive, m.auto_delete
    return DeclareQueue(CHANNEL, None, m.queue or "", *flags, arguments)


def declare_exchange(m: w.ExchangeDeclare, replay: "Replay") -> Operation:
    arguments = table(m.arguments)
    if m.alternate_exchange:
        arguments["alternate-exchange"] = m.alternate_exchange
    flags = m.passive, m.durable, m.auto_delete
    return DeclareExchange(CHANNEL, None, m.exchange or "", m.type or "", *flags, False, arguments)


def subscribe(m: w.MessageSubscribe, replay: "Replay") -> Operation:
    return Subscribe(
        CHANNEL,
        None,
        m.queue or "",
        m.destination or "",
        m.accept_mode == 1,
        m.exclusive,
        arguments=table(m.arguments),
        copy=m.acquire_mode == 1,
    )


def find_bindings(m: w.ExchangeBound, replay: "Replay") -> Operation:
    arguments = table(m.arguments) or None
    return FindBindings(CHANNEL, m, m.exchange or "", m.queue, m.binding_key, arguments)


def settle(outcome: Outcome) -> Callable[[Any, "Replay"], Operation]:
    return lambda m, replay: SettleMany(CHANNEL, replay.deliveries(m.transfers), outcome)


def bind(kind: Callable[..., Operation]) -> Callable[[Any, "Replay"], Operation]:
    def make(m: Any, replay: "Replay") -> Operation:
        arguments = table(getattr(m, "arguments", None))
        place = m.queue or "", m.exchange or "", m.binding_key or ""
        return kind(CHANNEL, None, *place, arguments)

    return make


def xid(m: Any) -> Xid:
    return Xid(m.xid.format, m.xid.global_id, m.xid.branch_id)


ASKED: dict[type[Any], Callable[[Any, "Replay"], Operation]] = {
    w.QueueDeclare: declare_queue,
    w.QueueQuery: lambda m, _: FindQueue(CHANNEL, m, m.queue),
    w.QueuePurge: lambda m, _: PurgeQueue(CHANNEL, None, m.queue),
    w.QueueDelete: lambda m, _: DeleteQueue(CHANNEL, None, m.queue, m.if_unused, m.if_empty),
    w.ExchangeDeclare: declare_exchange,
    w.ExchangeQuery: lambda m, _: FindExchange(CHANNEL, m, m.name),
    w.ExchangeDelete: lambda m, _: DeleteExchange(CHANNEL, None, m.exchange, m.if_unused),
    w.ExchangeBind: bind(Bind),
    w.ExchangeUnbind: bind(Unbind),
    w.ExchangeBound: find_bindings,
    w.MessageSubscribe: subscribe,
    w.MessageCancel: lambda m, _: Unsubscribe(CHANNEL, m, m.destination),
    w.MessageAccept: settle(Outcome.ACCEPT),
    w.MessageReject: settle(Outcome.REJECT),
    w.MessageRelease: settle(Outcome.RELEASE),
    w.MessageAcquire: lambda m, replay: Acquire(CHANNEL, m, replay.deliveries(m.transfers)),
    w.ExecutionSync: lambda m, _: Synchronize(CHANNEL, m),
    w.TxSelect: lambda m, _: Select(CHANNEL, m),
    w.TxCommit: lambda m, _: Commit(CHANNEL, m),
    w.TxRollback: lambda m, _: Rollback(CHANNEL, m),
    w.DtxSelect: lambda m, _: SelectBranches(CHANNEL, m),
    w.DtxStart: lambda m, _: StartBranch(CHANNEL, m, xid(m), m.join, m.resume),
    w.DtxEnd: lambda m, _: EndBranch(CHANNEL, m, xid(m), m.fail, m.suspend),
    w.DtxSetTimeout: lambda m, _: SetBranchTimeout(CHANNEL, m, xid(m), m.timeout),
    w.DtxGetTimeout: lambda m, _: BranchTimeout(CHANNEL, m, xid(m)),
    w.DtxPrepare: lambda m, _: PrepareBranch(CHANNEL, m, xid(m)),
    w.DtxRecover: lambda m, _: RecoverBranches(CHANNEL, m),
    w.DtxCommit: lambda m, _: CommitBranch(CHANNEL, m, xid(m), m.one_phase),
}
OTHERWISE = (w.MessageFlow, w.MessageSetFlowMode, w.MessageStop, w.MessageFlush, w.MessageResume)
"""Credit, which our role gives at other times."""


def common(record: Any) -> dict[str, Any]:
    """Fields without the difference between absent and empty, and without what is our choice."""
    found = {name: getattr(record, name) or None for name in record.__slots__}
    if isinstance(found.get("xid"), w.Xid):
        found["xid"] = xid(record)
    arguments = found.get("arguments")
    if arguments is not None:
        found["arguments"] = read_map(arguments) or None
    for name in ("code", "text", "set_redelivered"):  # of settlements
        found.pop(name, None)
    if isinstance(record, w.MessageTransfer):
        del found["accept_mode"]
    return found


def content(said: Said) -> Any:
    """Properties and body of a publish."""
    header = said.header or b""
    delivery = delivery_properties(header)[0]
    properties = canonical(delivery, message_properties(header)[0])
    body = None if said.body is None else said.body[:]
    return properties.given(), delivery.routing_key or "", body


class Replay:
    """Our client in place of the recorded one, on one connection."""

    def __init__(self, size: int) -> None:
        self.client = Engine("0-10", Role.CLIENT, credentials=Credentials(), limits=Limits(0))
        self.client.send(Open("open", "/", "guest"))
        self.recorded = Decoder(from_client=True)
        self.ours = Decoder(from_client=True)
        self.size = size
        self.number = 0
        """Of the next command of the recorded client."""
        self.heard: list[Operation] = []
        self.asked: list[Any] = []
        self.compared = 0
        """Commands."""
        self._early = b""
        """Commands that the recorded client sent before it knew that its session was attached."""
        assert self.ours.read(b"".join(self.client.output())) == []

    def hears(self, octets: bytes) -> None:
        """From the recorded broker."""
        octets = moved(octets)
        for at in range(0, len(octets), self.size):
            self.heard += self.client.receive(octets[at : at + self.size])
            self.heard += self.client.found()
        if self._early and self.attached:
            early, self._early = self._early, b""
            self.follows(early)

    @property
    def attached(self) -> bool:
        session = self.client.sessions.get(CHANNEL)
        return session is None or session.state is State.ATTACHED

    def deliveries(self, ranges: Any) -> list[int]:
        """Those of the transfers in these ranges."""
        session = self.client.sessions[CHANNEL]
        wanted = unwrapped(ranges, session.received.following)
        return [
            delivery
            for delivery, arrival in session.deliveries.unsettled.items()
            if any(low <= arrival.number <= high for low, high in wanted)
        ]

    def follows(self, octets: bytes) -> None:
        """Do what the recorded client did."""
        if octets[1] and not self.attached:
            self._early += octets
            return
        for said in self.recorded.read(moved(octets)):
            record = said.record
            if isinstance(record, w.SessionAttach):
                self.number = 0
                self.client.send(BeginSession(CHANNEL, "begin"))
            elif isinstance(record, w.SessionDetach):
                self.client.send(EndSession(CHANNEL, "end"))
            elif isinstance(record, w.ConnectionClose):
                self.client.send(Close())
            elif not BY_RECORD[type(record)].control:
                self._command(said)
                self.number += 1

    def _command(self, said: Said) -> None:
        record, session = said.record, self.client.sessions[CHANNEL]
        self.ours.read(b"".join(self.client.output()))
        session.sent = self.number
        if isinstance(record, w.MessageTransfer):
            message = received(arrived(said.header), said.body, record.destination or "")
            self.client.send(Publish(CHANNEL, message, record.accept_mode == 0, False))
        elif type(record) in ASKED:
            operation = ASKED[type(record)](record, self)
            if getattr(operation, "token", None) is not None:
                self.asked.append(operation)
            self.client.send(operation)
        else:
            assert isinstance(record, OTHERWISE), said.name
            return
        answered = self.ours.read(b"".join(self.client.output()))
        (same,) = [each for each in answered if type(each.record) is type(record)]
        assert common(same.record) == common(record)
        self.compared += 1
        if isinstance(record, w.MessageTransfer):
            assert content(same) == content(said)


def replayed(name: str, size: int) -> dict[str, Replay]:
    found: dict[str, Replay] = {}
    for frame in frames(name):
        replay = found.setdefault(frame.connection, Replay(size))
        if replay.client.closing or not frame.octets:
            continue
        (replay.follows if frame.from_client else replay.hears)(frame.octets)
    return found


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("size", [1, 7, 1 << 20])
def test_the_client_sends_what_the_recorded_client_sent(name: str, size: int) -> None:
    compared = 0
    for connection, replay in replayed(name, size).items():
        said = [
            each
            for decoder in [Decoder()]
            for frame in frames(name)
            if not frame.from_client and frame.connection == connection
            for each in decoder.read(moved(frame.octets))
        ]
        transfers = [each.body for each in said if isinstance(each.record, w.MessageTransfer)]
        heard = replay.heard
        delivered = [each for each in heard if isinstance(each, Deliver)]
        assert [each.message.body[:] for each in delivered] == [
            b"" if body is None else body[:] for body in transfers
        ]
        exceptions = sum(isinstance(each.record, w.ExecutionException) for each in said)
        assert sum(isinstance(each, SessionLost) for each in heard) == exceptions
        done = [each.token for each in heard if isinstance(each, Done)]
        refused = [each.token for each in heard if isinstance(each, Refused)]
        for operation in replay.asked:
            assert (operation.token in done) + (operation.token in refused) == 1, operation
        assert isinstance(heard[-1], Closed) or not replay.client.closing
        compared += replay.compared
    assert compared or name in ("cpp-badauth", "cpp-heartbeat", "java-busy"), "nothing was tried"


# --- noise ---------------------------------------------------------------------------------------

NEXT: dict[str, tuple[Operation, ...]] = {
    "open": (BeginSession(CHANNEL, "begin"),),
    "begin": (
        DeclareQueue(CHANNEL, "declare", "q"),
        Subscribe(CHANNEL, "subscribe", "q", "sub"),
        Fetch(CHANNEL, "fetch", "q"),
        FindBindings(CHANNEL, "find", "x", "q"),
    ),
}


@pytest.mark.parametrize("name", NAMES)
def test_mutated_servers(name: str) -> None:
    """Nothing is raised, and nothing grows."""
    chance = random.Random(name)
    octets = [moved(each.octets) for each in frames(name) if not each.from_client]
    whole = HEADER + b"".join(octets).replace(HEADER, b"")
    limits = Limits(8192, 100, 0, 20_000)
    for _ in range(60):
        client = Engine("0-10", Role.CLIENT, credentials=Credentials(), limits=limits)
        client.send(Open("open", "/", "guest"))
        data, size = mutate(whole, chance), chance.choice([7, 60, 500, 1 << 20])
        heard: list[Operation] = []
        for at in range(0, len(data), size):
            more = client.receive(data[at : at + size]) + client.found()
            heard += more
            if not client.closing:
                assert client.frames.held <= limits.max_message_octets + (1 << 16)
            for operation in more:
                if isinstance(operation, Done):
                    for following in NEXT.get(operation.token, ()):
                        with contextlib.suppress(LocalError):  # the session may have ended
                            client.send(following)
            client.output()
        heard += client.lost()
        assert client.closing and not client.sessions
        assert [type(each) for each in heard].count(Closed) == 1
        asked = [each.token for each in heard if isinstance(each, Done | Refused)]
        assert len(asked) == len(set(asked)), "answered twice"

"""Sessions and links in disorder: conversations cut anywhere, frames mutated, frames that make no
sense in any order. Nothing escapes from ``receive``, and what we write is always in order."""

import random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.adapters.options import Limits
from gateway.adapters.performatives.composites import write
from gateway.adapters.performatives.links import MASK
from gateway.adapters.performatives.wire import layouts as w
from gateway.operations import AttachSource, AttachTarget, DetachLink, Operation
from gateway.values import Described, Symbol
from tests.adapters.performatives.peer import PLAIN, Peer
from tests.adapters.performatives.wire import Heard, packed
from tests.drawing import examples

# --- our frames are in order -------------------------------------------------------------------


class Auditor:
    """Reads the frames of a server engine, and checks them by §2.5 and §2.6."""

    def __init__(self) -> None:
        self.sessions: dict[int, dict[str, Any]] = {}
        self.closed = False

    def reads(self, heard: list[Heard]) -> None:
        for channel, record, _ in heard:
            assert not self.closed, record
            if isinstance(record, w.Close):
                self.closed = True
            elif isinstance(record, w.Begin):
                assert channel not in self.sessions
                self.sessions[channel] = {"handles": {}, "id": -1, "open": False}
            elif isinstance(record, w.End):
                del self.sessions[channel]
            else:
                self._link(self.sessions[channel], record)

    def _link(self, session: dict[str, Any], record: Any) -> None:
        handles = session["handles"]
        if isinstance(record, w.Attach):
            assert record.handle not in handles
            handles[record.handle] = record.role
        elif isinstance(record, w.Detach):
            del handles[record.handle]
        elif isinstance(record, w.Flow):
            assert record.handle is None or record.handle in handles
        elif isinstance(record, w.Transfer):
            assert handles[record.handle] is False
            if record.delivery_id != session["id"]:
                assert record.delivery_id == session["id"] + 1 and not session["open"]
                assert record.delivery_tag is not None
            session["id"], session["open"] = record.delivery_id, bool(record.more)
        else:
            assert isinstance(record, w.Disposition)


class Watched(Peer):
    """A peer whose every turn is audited."""

    def __init__(self, **options: Any) -> None:
        self.auditor = Auditor()
        super().__init__(begin=False, **options)

    def feed(self, octets: bytes) -> list[Operation]:
        found = super().feed(octets)
        self.broker.perform(self.engine.found())
        self.auditor.reads(self.heard())
        return found


def balanced(peer: Peer) -> None:
    """Each link that was granted ends once."""
    live: set[tuple[int, str]] = set()
    for op in peer.broker.heard:
        if isinstance(op, (AttachSource, AttachTarget)) and op not in peer.broker.refused:
            assert (op.channel, op.link) not in live
            live.add((op.channel, op.link))
        elif isinstance(op, DetachLink):
            live.discard((op.channel, op.link))
    assert not live


# --- a conversation cut anywhere ---------------------------------------------------------------


def value(record: Any) -> bytes:
    return b"\x00\x53\x77" + write(record)


def conversation() -> list[list[bytes]]:
    """Everything once: frames that may be sent at once, and those that wait for an answer."""
    link = w.Attach("in", 0, False, source=w.Source(), target=w.Target("q"))
    control = w.Attach("control", 2, False, target=w.Coordinator(), initial_delivery_count=0)
    selector = {Symbol("s"): Described(Symbol("apache.org:selector-filter:string"), "a=1")}
    out = w.Attach("out", 1, True, 2, 1, w.Source("q", filter=selector), w.Target("me"))
    return [[
        packed(w.Begin(None, 0, 100, 100)),
        packed(link),
        packed(out),
        packed(control),
        packed(w.Flow(0, 100, 0, 100, 1, 0, 50)),
    ], [
        packed(w.Transfer(0, 0, b"a", 0), 0, PLAIN),
        packed(w.Transfer(0, 1, b"b", 0, True), 0, PLAIN),
        packed(w.Transfer(0, 2, b"c", 0, more=True), 0, PLAIN[:4]),
        packed(w.Transfer(2, 3, b"a", 0), 0, value(w.Declare())),
        packed(w.Transfer(0, more=True), 0, PLAIN[4:6]),
        packed(w.Transfer(0), 0, PLAIN[6:]),
    ], [
        packed(w.Disposition(True, 0, 1, True, w.ACCEPTED)),
        packed(w.Transfer(0, 4, b"d", 0, state=w.TransactionalState(b"work-1")), 0, PLAIN),
        packed(w.Disposition(True, 2, None, False, w.TransactionalState(b"work-1", w.ACCEPTED))),
        packed(w.Transfer(2, 5, b"b", 0), 0, value(w.Discharge(b"work-1", False))),
        packed(w.Flow(3, 100, 6, 100, 1, 3, 50, drain=True)),
    ], [
        packed(w.Detach(1)),
        packed(w.Attach("out", 1, True, source=w.Source("q"), unsettled={b"x": None})),
        packed(w.Detach(1, True)),
        packed(w.Detach(2, True)),
        packed(w.End()),
    ]]  # fmt: skip


def told(operations: list[Operation]) -> list[str]:
    """Operations as text, without their tokens and messages."""
    found = []
    for op in operations:
        names = [name for name in op.__slots__ if name not in ("token", "message")]
        fields = {name: getattr(op, name, None) for name in names}
        found.append(f"{type(op).__name__} {fields}")
    return found


def spoken(pieces: list[bytes]) -> tuple[list[str], list[str]]:
    peer = Watched()
    heard: list[Heard] = []
    peer.auditor.reads = heard.extend  # type: ignore[method-assign, assignment]
    for piece in pieces:
        peer.feed(piece)
    check = Auditor()
    check.reads(heard)
    assert not peer.engine.connection.sessions
    # Dispositions say the same in one frame or in several, sooner or later.
    answers = [str(frame.record) for frame in heard if not isinstance(frame.record, w.Disposition)]
    return told(peer.broker.heard), sorted(answers)


def cut(phases: list[list[bytes]], size: int) -> list[bytes]:
    found = []
    for frames in phases:
        octets = b"".join(frames)
        found += [octets[at : at + size] for at in range(0, len(octets), size)]
    return found


def test_a_conversation_may_be_cut_anywhere() -> None:
    phases = conversation()
    usual = spoken([frame for frames in phases for frame in frames])
    assert len(usual[0]) > 15
    for size in (1, 2, 3, 7, 50):
        assert spoken(cut(phases, size)) == usual
    for size in (333, 10_000):  # credit and handles depend on what was answered before
        operations, _ = spoken(cut(phases, size))
        assert [op.split()[0] for op in operations] == [op.split()[0] for op in usual[0]]


# --- mutated frames ----------------------------------------------------------------------------


def mutated(frames: list[bytes], chance: random.Random) -> list[bytes]:
    found = list(frames)
    for _ in range(chance.randrange(1, 6)):
        at = chance.randrange(len(found))
        frame = bytearray(found[at])
        match chance.randrange(5):
            case 0:
                frame[chance.randrange(len(frame))] = chance.randrange(256)
            case 1:
                frame[chance.randrange(8, len(frame))] ^= 1 << chance.randrange(8)
            case 2:
                other = chance.randrange(len(found))
                found[at], found[other] = found[other], found[at]
                continue
            case 3:
                found.insert(at, bytes(frame))
                continue
            case 4:
                del found[at]
                found = found or [b"\0\0\0\x08\x02\0\0\0"]
                continue
        found[at] = bytes(frame)
    return found


@pytest.mark.parametrize("seed", range(8))
def test_mutated_conversations(seed: int) -> None:
    chance = random.Random(seed)
    frames = [frame for frames in conversation() for frame in frames]
    for _ in range(150):
        peer = Watched(limits=Limits(max_message_octets=1000))
        for frame in mutated(frames, chance):
            peer.feed(frame)
        peer.broker.heard += peer.engine.receive(b"")
        if not peer.auditor.closed:
            balanced(peer)


# --- frames in any order -----------------------------------------------------------------------

few = st.integers(0, 3)
numbers = st.one_of(few, st.sampled_from([MASK, MASK - 1, 1 << 31, 1000]))
flags = st.sampled_from([None, False, True])
tags = st.sampled_from([None, b"", b"a", b"b", b"\0\0\0\0\0\0\0\1", b"x" * 33])
outcomes = st.sampled_from(
    [w.ACCEPTED, w.Released(), w.Rejected(), w.Modified(True, True), w.Modified()]
)
works = st.sampled_from([b"work-1", b"work-2", b"other"])
states = st.one_of(
    st.none(),
    outcomes,
    st.sampled_from([w.Received(0, 3), w.Declared(b"x")]),
    st.builds(w.TransactionalState, works, st.one_of(st.none(), outcomes)),
)
addresses = st.sampled_from(["q", "r", "missing", None, "nowhere", "/management"])
sources = st.one_of(
    st.none(),
    st.builds(w.Source, addresses, dynamic=flags, default_outcome=st.one_of(st.none(), outcomes)),
)
targets = st.one_of(st.none(), st.builds(w.Target, addresses), st.just(w.Coordinator()))
maps = st.one_of(
    st.none(),
    st.dictionaries(st.sampled_from([b"a", b"\0\0\0\0\0\0\0\1", b"z"]), states, max_size=3),
)
modes = st.sampled_from([None, 0, 1, 2])
payloads = st.sampled_from(
    [PLAIN, b"", PLAIN[:3], b"\x40", value(w.Declare()), value(w.Discharge(b"work-1")),
     value(w.Discharge(b"work-2", True)), b"x" * 700]
)  # fmt: skip
attaches = st.builds(
    w.Attach, st.sampled_from("abc"), few, st.booleans(), modes, st.sampled_from([None, 0, 1]),
    sources, targets, maps, flags, st.sampled_from([None, 0, MASK]),
    st.sampled_from([None, 0, 5, 1000]),
)  # fmt: skip
flows = st.builds(
    w.Flow, st.one_of(st.none(), numbers), numbers, numbers, numbers, st.one_of(st.none(), few),
    st.one_of(st.none(), numbers), st.one_of(st.none(), numbers), st.none(), flags, flags,
)  # fmt: skip
transfers = st.builds(
    w.Transfer, few, st.one_of(st.none(), numbers), tags, st.sampled_from([None, 0, 0, 1]), flags,
    flags, st.sampled_from([None, 0, 1]), states, flags, flags,
)  # fmt: skip
dispositions = st.builds(
    w.Disposition, st.booleans(), numbers, st.one_of(st.none(), numbers), flags, states
)
detaches = st.builds(w.Detach, few, flags, st.sampled_from([None, w.Error("amqp:not-found")]))
others = st.one_of(st.just(w.End()), st.builds(w.Begin, st.none(), numbers, numbers, numbers))
steps = st.lists(
    st.tuples(
        st.one_of(attaches, flows, transfers, transfers, dispositions, detaches, others), payloads
    ),
    max_size=40,
)


@settings(max_examples=examples(300), deadline=None, suppress_health_check=list(HealthCheck))
@given(steps, st.sampled_from([512, 4096]), st.booleans())
def test_frames_in_any_order(said: list[tuple[Any, bytes]], size: int, hold: bool) -> None:
    peer = Watched(limits=Limits(max_message_octets=600), opens={"max_frame_size": size})
    if hold:
        peer.broker.hold |= {AttachSource, AttachTarget}
    peer.says(w.Begin(None, 0, 5, 5))
    peer.says(w.Attach("a", 0, False, target=w.Target("q"), initial_delivery_count=0))
    peer.says(w.Attach("b", 1, True, source=w.Source("q")))
    peer.says(w.Attach("c", 2, False, target=w.Coordinator(), initial_delivery_count=0))
    for record, payload in said:
        peer.says(record, payload if isinstance(record, w.Transfer) else b"")
        if peer.engine.closing:
            break
    peer.broker.release()
    peer.broker.perform(peer.engine.found())
    peer.auditor.reads(peer.heard())
    if not peer.engine.closing:
        assert peer.engine.connection.under_way >= 0
        peer.broker.heard += peer.engine.receive(b"")
    assert peer.engine.connection.under_way == 0
    balanced(peer)

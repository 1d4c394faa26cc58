"""Composites of AMQP 1.0: every one both ways, absent stays absent, nothing malformed passes."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.adapters.performatives.composite_fields import MissingField
from gateway.adapters.performatives.composites import (
    as_record,
    condition_for,
    effective,
    read_composite,
    read_performative,
    symbol_for,
    write,
)
from gateway.adapters.performatives.decoding import FieldError, decode
from gateway.adapters.performatives.encoding import write_value
from gateway.adapters.performatives.wire import layouts as w
from gateway.adapters.performatives.wire import tables
from gateway.errors import Condition, Lost
from gateway.values import Array, Described, Symbol, UInt, ULong
from specs.codegen import ir
from specs.codegen.__main__ import ROOT, SOURCE_1_0
from specs.codegen.emit_composites import composites
from specs.codegen.layouts import snake
from specs.codegen.load import load
from tests.adapters.performatives.amqp_values import BY_TYPE, scalars
from tests.drawing import examples

PROTOCOL = load(ROOT / "specs" / SOURCE_1_0)
STRUCTS = {struct.name: struct for struct in composites(PROTOCOL)}
KINDS = {kind.name: kind for kind in tables.COMPOSITE_TYPES}
SYMBOLS = BY_TYPE["symbol"].map(str)

outcomes = st.one_of(
    st.just(w.Accepted()),
    st.just(w.Released()),
    st.builds(w.Rejected, st.none() | st.builds(w.Error, SYMBOLS, st.none() | BY_TYPE["string"])),
    st.builds(w.Modified, st.none() | st.booleans(), st.none() | st.booleans()),
)
ANYTHING: dict[str, st.SearchStrategy[Any]] = {
    "message-id": st.one_of(
        BY_TYPE["ulong"], BY_TYPE["uuid"], BY_TYPE["binary"], BY_TYPE["string"]
    ),
    "address": BY_TYPE["string"],
    "txn-id": BY_TYPE["binary"],
    "global-tx-id": BY_TYPE["binary"],
    "outcome": outcomes,
    "delivery-state": st.one_of(
        outcomes,
        st.builds(w.Received, BY_TYPE["uint"].map(int), BY_TYPE["ulong"].map(int)),
        st.builds(w.TransactionalState, BY_TYPE["binary"], outcomes),
        st.builds(Described, st.just(Symbol("other:state")), st.integers(0, 9)),
    ),
    "source": st.builds(w.Source, BY_TYPE["string"]),
    "target": st.builds(w.Target, BY_TYPE["string"]) | st.builds(w.Coordinator),
}


def strategy(item: ir.Field) -> st.SearchStrategy[Any]:
    found: st.SearchStrategy[Any]
    if item.type == "*":
        found = ANYTHING[item.requires]
    elif item.type == "error":
        found = st.builds(w.Error, SYMBOLS, st.none() | BY_TYPE["string"])
    else:
        name = PROTOCOL.wire_type(item.type).name
        if name == "map":
            found = st.dictionaries(BY_TYPE["symbol"], scalars, max_size=3)
        else:
            found = BY_TYPE[name]
        if name not in ("map", "boolean", "binary", "string", "uuid"):
            plain: Callable[[Any], Any] = str if name == "symbol" else int
            found = found.map(plain)
    if item.multiple:
        found = st.lists(found, min_size=1 if item.required else 0, max_size=3).map(tuple)
    return found if item.required else st.none() | found


def records(name: str) -> st.SearchStrategy[Any]:
    fields = {snake(item.name): strategy(item) for item in STRUCTS[name].fields}
    return st.builds(KINDS[name].record, **fields)


@pytest.mark.parametrize("name", STRUCTS)
def test_composites_round_trip(name: str) -> None:
    kind = KINDS[name]

    @settings(max_examples=examples(25), deadline=None)
    @given(records(name))
    def check(record: Any) -> None:
        octets = kind.write(record)
        assert octets[:3] == bytes((0, 0x53, kind.code))
        found, end = read_composite(b"." + octets + b"..", 1, 1 + len(octets))
        assert found == record and type(found) is type(record) and end == 1 + len(octets)
        assert write(found) == octets == write_value(record)
        bare = decode(octets)
        assert bare.descriptor == kind.code and (not bare.value or bare.value[-1] is not None)
        wide = b"\x00\xa3" + bytes((len(kind.symbol),)) + kind.symbol.encode()
        items = b"".join(map(write_value, bare.value))
        wide += b"\xd0" + (len(items) + 4).to_bytes(4, "big")
        wide += len(bare.value).to_bytes(4, "big") + items
        assert read_composite(wide) == (record, len(wide))

    check()


@pytest.mark.parametrize("name", STRUCTS)
def test_broken_composites_are_refused_or_read(name: str) -> None:
    @settings(max_examples=examples(25), deadline=None)
    @given(records(name), st.data())
    def check(record: Any, data: st.DataObject) -> None:
        octets = bytearray(write(record))
        for _ in range(data.draw(st.integers(1, 3))):
            octets[data.draw(st.integers(0, len(octets) - 1))] = data.draw(st.integers(0, 255))
        cut = bytes(octets[: data.draw(st.integers(0, len(octets)))])
        for broken in (bytes(octets), cut):
            for sasl in (False, True):
                with suppress(FieldError):
                    read_performative(broken, 0, len(broken), sasl)
            with suppress(FieldError):
                read_composite(broken)

    check()


@pytest.mark.parametrize("name", STRUCTS)
def test_every_cut_is_noticed(name: str) -> None:
    @settings(max_examples=4, deadline=None)
    @given(records(name))
    def check(record: Any) -> None:
        octets = write(record)
        for size in range(len(octets)):
            with pytest.raises(FieldError):
                read_composite(octets[:size])
            with pytest.raises(FieldError):
                read_composite(octets + b"\x40" * 99, 0, size)

    check()


@pytest.mark.parametrize(
    "name", [name for name, s in STRUCTS.items() if any(f.required for f in s.fields)]
)
def test_required_fields_are_required(name: str) -> None:
    struct = STRUCTS[name]
    places = [place for place, item in enumerate(struct.fields) if item.required]
    empty = bytes((0, 0x53, struct.code or 0, 0x45))
    nulls = bytes((0, 0x53, struct.code or 0)) + write_value([None] * len(struct.fields))
    for octets in (empty, nulls):
        with pytest.raises(MissingField):
            read_composite(octets)
    assert places


def test_too_many_fields_and_wrong_types_are_refused() -> None:
    for octets in ("005316c00a0543424040404040", "005316c0030156", "005316c0020141", "00531640"):
        with pytest.raises(FieldError):
            read_composite(bytes.fromhex(octets))
    with pytest.raises(FieldError, match="provides no delivery-state"):
        read_composite(write(w.Disposition(True, 1, 1, True, w.Source("q"))))
    with pytest.raises(FieldError, match="expected error"):
        read_composite(write(w.Detach(1, True, w.Accepted())))  # type: ignore[arg-type]
    with pytest.raises(FieldError):
        write_value(w.Open("c", channel_max=65536))


def test_frames_belong_to_their_layer() -> None:
    opening, outcome = write(w.Open("c")), write(w.SaslOutcome(0))
    assert read_performative(opening + b"pay", 0, len(opening) + 3) == (w.Open("c"), len(opening))
    assert read_performative(outcome, 0, len(outcome), sasl=True)[0] == w.SaslOutcome(0)
    for octets, sasl in ((opening, True), (outcome, False), (write(w.Accepted()), False)):
        with pytest.raises(FieldError, match="no performative"):
            read_performative(octets, 0, len(octets), sasl)


def test_absent_stays_absent_and_its_meaning_is_known() -> None:
    opening = read_composite(write(w.Open("c")))[0]
    assert opening.channel_max is None and effective(opening, "channel_max") == 65535
    assert effective(opening, "max_frame_size") == 4294967295
    assert effective(opening, "idle_time_out") is None
    assert effective(w.Open("c", channel_max=0), "channel_max") == 0
    attach = w.Attach("l", 0, tables.Role.SENDER)
    assert effective(attach, "snd_settle_mode") == tables.SenderSettleMode.MIXED == 2
    assert effective(w.Header(), "priority") == 4 and effective(w.Header(), "durable") is False
    assert effective(w.Source(), "expiry_policy") == "session-end"
    assert write(w.Header()) == b"\x00\x53\x70\x45"


def test_one_symbol_stands_alone() -> None:
    for given_, octets in (((), "e00200a3"), (("a",), "a30161"), (("a", "b"), "e00602a301610162")):
        record = w.SaslMechanisms(given_)
        assert write(record)[-len(octets) // 2 :].hex() == octets
        if given_:
            assert read_composite(write(record))[0] == record
    with pytest.raises(MissingField):
        read_composite(write(w.SaslMechanisms(())))
    of_uints = b"\x00\x53\x40" + write_value([Array([UInt(1)])])
    with pytest.raises(FieldError, match="array of symbol"):
        read_composite(of_uints)


def test_records_stand_in_maps_and_come_back() -> None:
    attach = w.Attach("l", 0, False, unsettled={b"t": w.Accepted(), b"u": None})
    found = read_composite(write(attach))[0].unsettled
    assert {tag: as_record(state) for tag, state in found.items()} == attach.unsettled
    unknown = Described(ULong(0x9999), 1)
    assert as_record(unknown) == unknown and as_record(5) == 5


def test_ids_keep_their_type() -> None:
    for value in (ULong(7), UUID(int=9), b"x", "x"):
        found = read_composite(write(w.Properties(value)))[0].message_id
        assert type(found) is type(value) and found == value
    with pytest.raises(FieldError, match="provides no message-id"):
        read_composite(write(w.Properties(UInt(7))))


def test_conditions_have_symbols_and_symbols_conditions() -> None:
    for condition in Condition:
        for lost in Lost:
            assert symbol_for(condition, lost) in tables.ERRORS
    assert symbol_for(Condition.CONNECTION_FORCED, Lost.LINK) == tables.LinkError.DETACH_FORCED
    assert symbol_for(Condition.FRAME_ERROR, Lost.CONNECTION) == "amqp:connection:framing-error"
    for symbol in tables.ERRORS:
        assert isinstance(condition_for(symbol), Condition)
    assert condition_for("amqp:not-found") is Condition.NOT_FOUND
    assert condition_for("com.example:x") is Condition.INTERNAL_ERROR

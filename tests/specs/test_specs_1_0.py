"""The transcription of AMQP 1.0 is complete: counts taken from the published definitions."""

from collections import Counter

import pytest

from gateway.adapters.performatives.wire import layouts, tables
from gateway.errors import Condition
from specs.codegen.__main__ import ROOT, SOURCE_1_0
from specs.codegen.emit_composites import composites, emit_composites
from specs.codegen.ir import NoEmitter, SpecError
from specs.codegen.load import load, parse
from specs.codegen.symbols import error_symbols

PROTOCOL = load(ROOT / "specs" / SOURCE_1_0)
TEXT = (ROOT / "specs" / SOURCE_1_0).read_text("utf-8")

FIELDS = {
    "open": 10, "begin": 8, "attach": 14, "flow": 11, "transfer": 11, "disposition": 6,
    "detach": 3, "end": 1, "close": 1, "error": 3,
    "header": 5, "properties": 13, "received": 2, "accepted": 0, "rejected": 1, "released": 0,
    "modified": 3, "source": 11, "target": 7, "delete-on-close": 0, "delete-on-no-links": 0,
    "delete-on-no-messages": 0, "delete-on-no-links-or-messages": 0,
    "coordinator": 1, "declare": 1, "discharge": 2, "declared": 1, "transactional-state": 2,
    "sasl-mechanisms": 1, "sasl-init": 3, "sasl-challenge": 1, "sasl-response": 1,
    "sasl-outcome": 2,
}  # fmt: skip
CODES = [*range(0x10, 0x19), 0x1D, *range(0x23, 0x2A), *range(0x2B, 0x2F), *range(0x30, 0x35)]
CODES += [*range(0x40, 0x45), *range(0x70, 0x79)]


def test_types_and_encodings() -> None:
    assert len(PROTOCOL.types) == 24
    assert sum(len(kind.encodings) for kind in PROTOCOL.types.values()) == 39
    categories = Counter(e.category for t in PROTOCOL.types.values() for e in t.encodings)
    assert categories == {"fixed": 27, "variable": 6, "compound": 4, "array": 2}


def test_composites_and_their_fields() -> None:
    assert {s.name: len(s.fields) for s in composites(PROTOCOL)} == FIELDS
    assert len(FIELDS) == len(tables.COMPOSITE_TYPES) == 33 and sum(FIELDS.values()) == 125
    assert sorted(s.code or 0 for s in PROTOCOL.structs) == sorted(CODES)
    assert len(PROTOCOL.structs) == 40 and len(tables.SECTIONS) == 9
    assert len(tables.FRAMES) == 9 and len(tables.SASL_FRAMES) == 5


def test_restricted_types_and_choices() -> None:
    assert len(PROTOCOL.restricted) == 32
    choices = {d.name: len(d.values) for d in PROTOCOL.restricted if d.values}
    assert choices == {
        "role": 2, "sender-settle-mode": 3, "receiver-settle-mode": 2, "amqp-error": 13,
        "connection-error": 3, "session-error": 4, "link-error": 5, "terminus-durability": 3,
        "terminus-expiry-policy": 4, "std-dist-mode": 2, "txn-capability": 5,
        "transaction-error": 3, "sasl-code": 5,
    }  # fmt: skip


def test_defaults_and_required_fields() -> None:
    fields = [field for struct in PROTOCOL.structs for field in struct.fields]
    assert sum(field.required for field in fields) == 25
    assert sum(field.multiple for field in fields) == 13
    assert sum(bool(field.default) for field in fields) == 27
    assert sum(map(len, tables.DEFAULTS.values())) == 27


def test_error_conditions_have_a_scope() -> None:
    scopes = Counter(error_symbols(PROTOCOL.restricted).values())
    assert scopes == {"": 13, "connection": 3, "session": 4, "link": 5, "transaction": 3}
    assert len(tables.ERRORS) == 28
    assert {row.name for row in PROTOCOL.conditions} == {c.value for c in Condition}


def test_everything_says_its_section() -> None:
    assert all(struct.section for struct in PROTOCOL.structs)
    assert all(domain.section for domain in PROTOCOL.restricted)


def test_headers_and_constants() -> None:
    assert (
        tables.HEADER == b"AMQP\x00\x01\x00\x00" and tables.SASL_HEADER == b"AMQP\x03\x01\x00\x00"
    )
    assert tables.TLS_HEADER == b"AMQP\x02\x01\x00\x00"
    assert (tables.PORT, tables.SECURE_PORT, tables.MIN_MAX_FRAME_SIZE) == (5672, 5671, 512)
    assert (tables.FRAME_AMQP, tables.FRAME_SASL, tables.MESSAGE_FORMAT) == (0, 1, 0)


def test_every_composite_has_a_record_a_reader_and_a_writer() -> None:
    for kind in tables.COMPOSITE_TYPES:
        assert issubclass(kind.record, layouts.Composite)
        assert layouts.LISTS[kind.code] is layouts.LISTS[kind.symbol] is kind.read
        assert kind.code == kind.record.CODE and kind.provides == kind.record.PROVIDES


REFUSED = {
    "a condition without symbol": ('symbol="amqp:not-allowed"', "", "is no error condition"),
    "an unknown symbol": ('symbol="amqp:not-allowed"', 'symbol="x"', "is no error condition"),
    "a descriptor given twice": ('code="0x11"', 'code="0x10"', "duplicate code '0x10'"),
    "a constructor given twice": ('code="0x53"', 'code="0x50"', "duplicate code '0x50'"),
    "an unknown scope": ('scope="session" section', 'scope="world" section', "is not one of"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case: str) -> None:
    old, new, message = REFUSED[case]
    assert old in TEXT
    with pytest.raises(SpecError) as caught:
        parse(TEXT.replace(old, new, 1), "x.xml")
    assert message in str(caught.value)


def test_the_emitter_refuses_unknown_layouts() -> None:
    for old, new, message in (
        ('code="0x1d"', 'code="0x11d"', "code in one octet"),
        ('name="last" type="delivery-number"', 'name="last" type="ulong"', "nothing is usual"),
        ('name="last" type="delivery-number"', 'name="last" type="char"', "fields of type 'char'"),
        ('name="outcomes" type="symbol"', 'name="outcomes" type="string"', "several values"),
    ):
        assert old in TEXT
        with pytest.raises(SpecError, match=message):
            emit_composites(parse(TEXT.replace(old, new, 1)), "")
    with pytest.raises(NoEmitter, match="no emitter for the family"):
        emit_composites(load(ROOT / "specs" / "amqp-0-9.xml"), "")

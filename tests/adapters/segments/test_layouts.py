"""Every control, command and struct is written and read back; whatever octets come, readers say so
instead of failing."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from gateway.adapters.segments import operations as ops
from gateway.adapters.segments.types import FieldError
from gateway.adapters.segments.wire import layouts as w
from gateway.adapters.segments.wire import tables
from gateway.errors import Condition
from tests.adapters.segments import records


@pytest.mark.parametrize("name", records.OPERATIONS)
@given(data=some.data())
def test_operations(name: str, data: Any) -> None:
    record = data.draw(records.OPERATIONS[name])
    kind = tables.BY_RECORD[type(record)]
    assert kind.name == name == record.NAME
    if kind.control:
        octets = ops.write_control(record)
        assert octets[:2] == kind.code.to_bytes(2)
        read = ops.read_fields(kind, octets, 2, len(octets))
    else:
        octets = ops.write_command(record, sync=True)
        assert ops.read_command_start(octets, 0, len(octets)) == (kind.code, True)
        read = ops.read_fields(kind, octets, 4, len(octets))
    assert read == record
    assert ops.write_fields(kind, read) == ops.write_fields(kind, record)


@pytest.mark.parametrize("name", records.STRUCTS)
@given(data=some.data())
def test_structs(name: str, data: Any) -> None:
    _, declared = records.STRUCTS[name]
    record = data.draw(records.structs(declared))
    kind = tables.BY_STRUCT.get(type(record))
    if kind is not None:
        octets = ops.write_struct(record)
        assert ops.read_struct(octets) == record
        header = ops.coded(kind.code, octets[2:])
        ((code, at, end),) = ops.structs(header)
        assert (code, ops.read_fields(kind, header, at, end)) == (kind.code, record)
    else:
        stem = declared.name.replace("-", "_")
        octets = getattr(w, f"write_{stem}")(record)
        assert getattr(w, f"read_{stem}")(octets, 0) == (record, len(octets))


KINDS = [*tables.OPERATION_TYPES, *tables.STRUCT_TYPES]


@given(some.sampled_from(KINDS), some.binary(max_size=80))
def test_any_octets(kind: Any, octets: bytes) -> None:
    flags = octets[:1] + bytes(1) + octets[1:]
    for given_octets in (octets, flags):
        try:
            record = ops.read_fields(kind, given_octets, 0, len(given_octets))
        except FieldError:
            continue
        assert ops.write_fields(kind, record) == given_octets, "what is read is written the same"


@given(some.binary(max_size=80))
def test_any_header(octets: bytes) -> None:
    try:
        found = list(ops.structs(octets))
    except FieldError:
        return
    assert sum(end - at + 6 for _, at, end in found) == len(octets)


def test_flags_of_fields_that_there_are_not() -> None:
    with pytest.raises(FieldError, match="no such fields"):
        w.read_message_transfer(b"\x08\x00", 0)
    with pytest.raises(FieldError, match="no such fields"):
        w.read_connection_close_ok(b"\x00\x01", 0)


def test_octets_of_the_notes() -> None:
    """Examples written down from recordings."""
    declare = bytes.fromhex("08010101310005") + b"cap.q"
    kind = tables.OPERATIONS[0x0801]
    record = ops.read_fields(kind, declare, 4, len(declare))
    assert record == w.QueueDeclare("cap.q", exclusive=True, auto_delete=True)
    assert ops.write_command(record, True) == declare
    header = bytes.fromhex("0000001604013802 07 02 000000000000ea60 07") + b"cap.key"
    ((code, at, end),) = ops.structs(header)
    found = ops.read_fields(tables.STRUCTS[code], header, at, end)
    assert found == w.DeliveryProperties(
        priority=7, delivery_mode=2, ttl=60000, routing_key="cap.key"
    )


@pytest.mark.parametrize(
    "record",
    [
        w.QueueDeclare("x" * 256),
        w.SessionAttach(b"x" * 65536),
        w.MessageFlow("d", 0, 1 << 32),
        w.MessageFlow("d", -1),
        w.ConnectionRedirect("x" * 65536),
        w.MessageAccept(((0, 1),) * 8192),
        w.DtxStart(w.Xid(1, b"x" * 256, b"")),
    ],
)
def test_values_that_do_not_fit(record: Any) -> None:
    with pytest.raises(FieldError):
        ops.write_command(record)
    with pytest.raises(FieldError):
        ops.write_struct(w.MessageProperties(message_id=b"short"))


def test_codes_of_conditions() -> None:
    assert tables.CODES.keys() == {condition.value for condition in Condition}
    assert tables.CODES["not-found"] == (404, False) and tables.CODES["frame-error"] == (501, True)
    assert tables.EXCEPTIONS["exchange.declare"]["exchange reserved-names"] == 530
    assert tables.EXCEPTIONS["message.subscribe"]["queue-not-found"] == 404


def test_tables_agree() -> None:
    assert len(tables.OPERATIONS) == 84 and len(tables.STRUCTS) == 14
    for kind in tables.OPERATION_TYPES:
        assert all(code in tables.STRUCTS for code in kind.header)
        assert not kind.result or kind.result in tables.STRUCTS
        names = {each.name for each in tables.OPERATION_TYPES}
        assert set(kind.replies) <= names

"""Readers decode what writers encode, for every method and property list of every version.

Hypothesis fills the records from the transcriptions' own types; ``pamqp``, which nobody here wrote,
is the judge of 0-9-1.
"""

import struct
from typing import Any

import pamqp.commands
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.adapters.methods.geometry import Method, Version
from gateway.adapters.methods.unimplemented import complete
from gateway.adapters.methods.wire import layouts as w
from gateway.adapters.methods.wire.tables import V0_9, V0_9_1
from gateway.adapters.methods.wire.tables_0_10_07 import VERSIONS as TRANSITIONAL
from specs.codegen import ir
from specs.codegen.__main__ import REVISIONS, ROOT, SOURCES
from specs.codegen.__main__ import TRANSITIONAL as SOURCE_0_10_07
from specs.codegen.layouts import snake
from specs.codegen.load import load
from tests.drawing import examples

PROTOCOLS = {protocol.name: protocol for protocol in (load(ROOT / "specs" / s) for s in SOURCES)}
PROTOCOLS |= {name: load(ROOT / "specs" / SOURCE_0_10_07, name) for name in REVISIONS}

raw = st.binary(max_size=300)
short_text = st.binary(max_size=255).map(lambda b: b.decode("utf-8", "surrogateescape"))


def strategy(kind: str, width: int) -> st.SearchStrategy[Any]:
    return {
        "bit": st.booleans(),
        "unsigned": st.integers(0, 256**width - 1),
        "text": short_text,
        "octets": raw,
        "table": raw,
        "content": st.binary(min_size=1, max_size=300),
        "set": st.lists(st.binary(min_size=4, max_size=4)).map(b"".join),
    }[kind]


def tables_of(name: str) -> Version:
    """The tables of a version, with the arguments of all its methods."""
    return TRANSITIONAL.get(name) or complete(name)


def carried(protocol: ir.Protocol, item: ir.Field) -> bool:
    """Whether a field has a value: neither reserved nor a placeholder."""
    wire = protocol.wire_type(item.type)
    return not item.reserved and (wire.kind != "set" or bool(wire.count))


def values(protocol: ir.Protocol, items: tuple[ir.Field, ...]) -> dict[str, st.SearchStrategy[Any]]:
    """A strategy for each field that this version's layout carries."""
    found = {}
    for item in items:
        if carried(protocol, item):
            wire = protocol.wire_type(item.type)
            found[snake(item.name)] = strategy(wire.kind, wire.width)
    return found


METHODS = [
    pytest.param(protocol, class_, operation, id=f"{name}-{class_.name}.{operation.name}")
    for name, protocol in PROTOCOLS.items()
    for class_ in protocol.classes
    for operation in class_.operations
]
CONTENTS = [
    pytest.param(protocol, class_, id=f"{name}-{class_.name}")
    for name, protocol in PROTOCOLS.items()
    for class_ in protocol.classes
    if class_.properties is not None
]


@pytest.mark.parametrize(("protocol", "class_", "operation"), METHODS)
def test_methods_come_back(
    protocol: ir.Protocol, class_: ir.Class, operation: ir.Operation
) -> None:
    method = tables_of(protocol.name).by_name[f"{class_.name}.{operation.name}"]
    assert method.number == class_.number << 16 | operation.number
    record = method.record

    @settings(max_examples=examples(8), deadline=None, database=None)
    @given(st.fixed_dictionaries(values(protocol, operation.fields)), st.binary(max_size=3))
    def check(chosen: dict[str, Any], before: bytes) -> None:
        layout = method.extended or method
        written = layout.write(record(**chosen))
        assert layout.read(before + written + b"\xce", len(before)) == (
            record(**chosen),
            len(before) + len(written),
        )

    check()


@pytest.mark.parametrize(("protocol", "class_"), CONTENTS)
def test_properties_come_back(protocol: ir.Protocol, class_: ir.Class) -> None:
    content = tables_of(protocol.name).contents[class_.number]

    @settings(max_examples=examples(40), deadline=None, database=None)
    @given(st.fixed_dictionaries({}, optional=values(protocol, class_.properties or ())))
    def check(chosen: dict[str, Any]) -> None:
        record = content.record(**chosen)
        written = content.write(record)
        assert content.read(b"\x00" + written, 1) == (record, 1 + len(written))

    check()


@pytest.mark.parametrize(("protocol", "class_", "operation"), METHODS)
def test_octets_cut_short_stop_past_the_end_or_raise(
    protocol: ir.Protocol, class_: ir.Class, operation: ir.Operation
) -> None:
    method = tables_of(protocol.name).by_name[f"{class_.name}.{operation.name}"]
    whole = method.write(full(protocol, method, operation))
    for size in range(len(whole)):
        try:
            _, stop = method.read(whole[:size], 0)
        except (struct.error, IndexError):
            continue
        assert stop > size


def full(protocol: ir.Protocol, method: Method, operation: ir.Operation) -> Any:
    """A record whose every value is there and not empty."""
    samples = {"bit": True, "unsigned": 1, "text": "abc", "octets": b"abc", "table": b"abc",
               "content": b"\x00abc", "set": b"abcdefgh"}  # fmt: skip
    return method.record(
        **{
            snake(item.name): samples[protocol.wire_type(item.type).kind]
            for item in operation.fields
            if carried(protocol, item)
        }
    )


def test_bits_share_octets_lowest_first() -> None:
    written = V0_9_1.by_name["queue.declare"].write(
        w.QueueDeclare(queue="q", durable=True, no_wait=True)
    )
    assert written == b"\x00\x00\x01q\x12\x00\x00\x00\x00"


def test_reserved_fields_are_empty_and_skipped() -> None:
    method = V0_9_1.by_name["connection.open"]
    assert method.write(w.ConnectionOpen("/", "caps", True)) == b"\x01/\x00\x00"
    assert method.read(b"\x01/\x04caps\x01", 0) == (w.ConnectionOpen("/"), 8)


def test_a_ticket_is_real_until_0_9() -> None:
    message = w.BasicPublish(ticket=7, exchange="e", routing_key="k", mandatory=True)
    assert V0_9.by_name["basic.publish"].write(message) == b"\x00\x07\x01e\x01k\x01"
    assert V0_9_1.by_name["basic.publish"].write(message) == b"\x00\x00\x01e\x01k\x01"


def test_names_that_are_not_utf_8_survive() -> None:
    record, _ = w.read_queue_declare_ok(b"\x02\xff\xfe" + bytes(8), 0)
    assert w.write_queue_declare_ok(record).startswith(b"\x02\xff\xfe")


def test_a_short_string_that_is_too_long() -> None:
    with pytest.raises(ValueError, match=r"queue.bind routing-key: .* 255 octets, not 256"):
        w.write_queue_bind(w.QueueBind(routing_key="é" * 128))
    with pytest.raises(ValueError, match=r"basic properties reply-to: .* 255 octets, not 300"):
        w.write_basic_properties(w.BasicProperties(reply_to="x" * 300))


def test_content_of_0_9_is_its_discriminator_and_octets() -> None:
    transfer = complete("0-9").by_name["message.transfer"]
    written = transfer.write(transfer.record(body=b"\x01ref"))
    assert written.endswith(b"\x01\x00\x00\x00\x03ref")
    assert transfer.read(written, 0)[0].body == b"\x01ref"
    assert transfer.write(transfer.record(body=b"")).endswith(bytes(5))


def test_undefined_property_flags() -> None:
    with pytest.raises(ValueError, match="a second word of flags"):
        w.read_basic_properties(b"\x80\x01\x00\x00\x01a", 0)
    with pytest.raises(ValueError, match="flags 0002 name an unknown property"):
        w.read_basic_properties(b"\x00\x02", 0)


def test_absent_is_not_empty() -> None:
    assert w.write_basic_properties(w.BasicProperties()) == b"\x00\x00"
    empty = w.BasicProperties(content_type="", headers=b"", delivery_mode=0)
    written = w.write_basic_properties(empty)
    assert written == b"\xb0\x00\x00\x00\x00\x00\x00\x00"
    assert w.read_basic_properties(written, 0)[0] == empty


# pamqp: another reading of 0-9-1.

THEIRS: dict[int, Any] = dict(pamqp.commands.INDEX_MAPPING)
ENTRY = b"\x01kS\x00\x00\x00\x01v"


def test_pamqp_knows_no_method_that_we_do_not() -> None:
    # The same numbers must lead to the same names: "Basic.GetOk" and "basic.get-ok".
    for number, theirs in THEIRS.items():
        assert theirs.name.lower().replace(".", "") == V0_9_1.methods[number].name.replace(
            ".", ""
        ).replace("-", "")


@pytest.mark.filterwarnings("ignore:This command is deprecated:DeprecationWarning")
@pytest.mark.parametrize("number", THEIRS, ids=lambda n: V0_9_1.methods[n].name)
def test_pamqp_and_we_read_each_other(number: int) -> None:
    method = V0_9_1.methods[number]
    protocol = PROTOCOLS["0-9-1"]
    (operation,) = (
        operation
        for class_ in protocol.classes
        for operation in class_.operations
        if f"{class_.name}.{operation.name}" == method.name
    )
    record = full(protocol, method, operation)
    expected: dict[str, Any] = {}
    for item in operation.fields:
        if item.reserved:
            continue
        kind = protocol.wire_type(item.type).kind
        name = snake(item.name)
        if kind == "table":
            setattr(record, name, ENTRY)
        attribute = {"no_wait": "nowait", "type": "exchange_type"}.get(name, name)
        expected[attribute] = {"bit": True, "unsigned": 1, "table": {"k": "v"}}.get(kind, "abc")
    written = method.write(record)

    decoded = THEIRS[number]()
    decoded.unmarshal(written)
    found = {name: getattr(decoded, name) for name in expected}
    assert {n: v.decode() if isinstance(v, bytes) else v for n, v in found.items()} == expected
    theirs = THEIRS[number]()
    for name, value in found.items():
        setattr(theirs, name, value)
    # Not equal to ours octet for octet: it puts "0" into reserved fields, which a reader skips.
    marshalled = theirs.marshal()
    assert method.read(marshalled, 0) == (record, len(marshalled))


def test_pamqp_agrees_on_properties() -> None:
    ours = w.BasicProperties(
        content_type="text/plain", content_encoding="gzip", headers=ENTRY, delivery_mode=2,
        priority=3, correlation_id="c", reply_to="r", expiration="10", message_id="m",
        timestamp=1_700_000_000, type="t", user_id="u", app_id="a", cluster_id="x",
    )  # fmt: skip
    written = w.write_basic_properties(ours)
    theirs = pamqp.commands.Basic.Properties()
    (flags,) = struct.unpack(">H", written[:2])
    theirs.unmarshal(flags, written[2:])
    assert (theirs.content_type, theirs.delivery_mode, theirs.app_id) == ("text/plain", 2, "a")
    assert theirs.timestamp is not None
    assert theirs.headers == {"k": "v"} and theirs.timestamp.timestamp() == ours.timestamp
    assert theirs.marshal() == written

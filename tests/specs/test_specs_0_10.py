"""The transcription of AMQP 0-10 is complete: facts taken from the published definitions and from
recordings, not from our file."""

from collections import Counter

import pytest

from gateway.errors import Condition
from specs.codegen import ir
from specs.codegen.__main__ import ROOT
from specs.codegen.ir import SpecError
from specs.codegen.load import load, parse

PROTOCOL = load(ROOT / "specs" / "amqp-0-10.xml")
TEXT = (ROOT / "specs" / "amqp-0-10.xml").read_text("utf-8")

# Class and code, who sends it, name: the wire types of its fields; "!" required.
OPERATIONS = """
0101 s connection.start: map array! array!
0102 c connection.start-ok: map str8! vbin32! str8!
0103 s connection.secure: vbin32!
0104 c connection.secure-ok: vbin32!
0105 s connection.tune: uint16 uint16 uint16 uint16
0106 c connection.tune-ok: uint16! uint16 uint16
0107 c connection.open: str8! array bit
0108 s connection.open-ok: array
0109 s connection.redirect: str16! array
010a cs connection.heartbeat:
010b cs connection.close: uint16! str8
010c cs connection.close-ok:
0201 cs session.attach: vbin16! bit
0202 cs session.attached: vbin16!
0203 cs session.detach: vbin16!
0204 cs session.detached: vbin16! uint8!
0205 cs session.request-timeout: uint32
0206 cs session.timeout: uint32
0207 cs session.command-point: sequence-no! uint64!
0208 cs session.expected: sequence-set! array
0209 cs session.confirmed: sequence-set array
020a cs session.completed: sequence-set bit
020b cs session.known-completed: sequence-set
020c cs session.flush: bit bit bit
020d cs session.gap: sequence-set
0301 cs execution.sync:
0302 cs execution.result: sequence-no! struct32
0303 cs execution.exception: uint16! sequence-no uint8 uint8 uint8 str16 map
0401 cs message.transfer: str8 uint8! uint8!
0402 cs message.accept: sequence-set!
0403 cs message.reject: sequence-set! uint16! str8
0404 cs message.release: sequence-set! bit
0405 c message.acquire: sequence-set!
0406 cs message.resume: str8 str16!
0407 c message.subscribe: str8! str8 uint8! uint8! bit str16 uint64 map
0408 c message.cancel: str8!
0409 cs message.set-flow-mode: str8 uint8!
040a cs message.flow: str8 uint8! uint32
040b c message.flush: str8
040c cs message.stop: str8
0501 c tx.select:
0502 c tx.commit:
0503 c tx.rollback:
0601 c dtx.select:
0602 c dtx.start: xid! bit bit
0603 c dtx.end: xid! bit bit
0604 c dtx.commit: xid! bit
0605 c dtx.forget: xid!
0606 c dtx.get-timeout: xid!
0607 c dtx.prepare: xid!
0608 c dtx.recover:
0609 c dtx.rollback: xid!
060a c dtx.set-timeout: xid! uint32!
0701 c exchange.declare: str8! str8! str8 bit bit bit map
0702 c exchange.delete: str8! bit
0703 c exchange.query: str8
0704 c exchange.bind: str8! str8! str8! map
0705 c exchange.unbind: str8! str8! str8!
0706 c exchange.bound: str8 str8! str8 map
0801 c queue.declare: str8! str8 bit bit bit bit map
0802 c queue.delete: str8! bit bit
0803 c queue.purge: str8!
0804 c queue.query: str8!
0901 c file.qos: uint32 uint16 bit
0902 s file.qos-ok:
0903 c file.consume: str8 str8 bit bit bit bit map
0904 s file.consume-ok: str8
0905 c file.cancel: str8
0906 cs file.open: str8 uint64
0907 cs file.open-ok: uint64
0908 cs file.stage:
0909 c file.publish: str8 str8 bit bit str8
090a s file.return: uint16 str8 str8 str8
090b s file.deliver: str8 uint64 bit str8 str8 str8
090c c file.ack: uint64 bit
090d c file.reject: uint64 bit
0a01 c stream.qos: uint32 uint16 uint32 bit
0a02 s stream.qos-ok:
0a03 c stream.consume: str8 str8 bit bit bit map
0a04 s stream.consume-ok: str8
0a05 c stream.cancel: str8
0a06 c stream.publish: str8 str8 bit bit
0a07 s stream.return: uint16 str8 str8 str8
0a08 s stream.deliver: str8 uint64 str8 str8!
"""

# Code (0 without one), octets of size and of flags, name: the wire types of the fields.
STRUCTS = """
0000 1 1 session.header: bit
0000 0 0 session.command-fragment: sequence-no! byte-ranges!
0401 4 2 message.delivery-properties: bit bit bit uint8! uint8! uint64 datetime datetime str8
    str8 str16 uint64
0402 4 2 message.fragment-properties: bit bit uint64
0000 2 2 message.reply-to: str8 str8
0403 4 2 message.message-properties: uint64 uuid vbin16 reply-to str8 str8 vbin16 vbin16 map
0404 4 2 message.acquired: sequence-set!
0405 4 2 message.message-resume-result: uint64
0601 4 2 dtx.xa-result: uint16!
0604 4 2 dtx.xid: uint32! vbin8! vbin8!
0602 4 2 dtx.get-timeout-result: uint32!
0603 4 2 dtx.recover-result: array!
0701 4 2 exchange.exchange-query-result: str8 bit bit map
0702 4 2 exchange.exchange-bound-result: bit bit bit bit bit
0801 4 2 queue.queue-query-result: str8! str8 bit bit bit map uint32! uint32!
0901 4 2 file.file-properties: str8 str8 map uint8 str8 str8 str8 datetime str8
0a01 4 2 stream.stream-properties: str8 str8 map uint8 datetime
"""

TYPES = """
bin8:00:1: int8:01:1: uint8:02:1: char:04:1: boolean:08:1: bin16:10:2: int16:11:2: uint16:12:2:
bin32:20:4: int32:21:4: uint32:22:4: float:23:4: char-utf32:27:4: sequence-no:--:4: bin64:30:8:
int64:31:8: uint64:32:8: double:33:8: datetime:38:8: bin128:40:16: uuid:48:16: bin256:50:32:
bin512:60:64: bin1024:70:128: vbin8:80::1 str8-latin:84::1 str8:85::1 str8-utf16:86::1
vbin16:90::2 str16-latin:94::2 str16:95::2 str16-utf16:96::2 byte-ranges:--::2
sequence-set:--::2 vbin32:a0::4 map:a8::4 list:a9::4 array:aa::4 struct32:ab::4 bin40:c0:5:
dec32:c8:5: bin72:d0:9: dec64:d8:9: void:f0:0: bit:f1:0:
"""

VALUES = {
    "segment-type": "0,1,2,3",
    "track": "0,1",
    "connection.close-code": "200,320,402,501",
    "session.detach-code": "0,1,2,3,4",
    "execution.error-code": "403,404,405,406,408,409,503,506,530,531,540,541,542",
    "message.accept-mode": "0,1",
    "message.acquire-mode": "0,1",
    "message.reject-code": "0,1,2",
    "message.delivery-mode": "1,2",
    "message.delivery-priority": "0,1,2,3,4,5,6,7,8,9",
    "message.flow-mode": "0,1",
    "message.credit-unit": "0,1",
    "dtx.xa-status": "0,1,2,3,4,5,6,7",
    "file.return-code": "311,312,313",
    "stream.return-code": "311,312,313",
}

EXCEPTIONS = {
    "message.transfer": "404",
    "message.resume": "404",
    "message.subscribe": "408 404 530 405",
    "message.cancel": "404",
    "tx.select": "409 409 530",
    "tx.commit": "409",
    "tx.rollback": "409",
    "dtx.start": "409 530 530 530 540",
    "dtx.end": "409 530 409",
    "dtx.commit": "409 404 409 409 409",
    "dtx.forget": "409 404 409",
    "dtx.get-timeout": "404",
    "dtx.prepare": "409 404 409",
    "dtx.rollback": "409 404 409",
    "dtx.set-timeout": "404",
    "exchange.declare": "530 542 530 404 530 404 540",
    "exchange.delete": "404 542 530 406",
    "exchange.bind": "542 404 404 542 540",
    "exchange.unbind": "404 404 542 404",
    "queue.declare": "530 530 404 404 405 540",
    "queue.delete": "542 404 406 406",
    "queue.purge": "542 404",
    "file.consume": "530 530 530 405",
    "file.publish": "540",
    "stream.consume": "530 530 530 405",
    "stream.publish": "540",
}


REPLIES = {
    "connection.start": "start-ok", "connection.secure": "secure-ok",
    "connection.tune": "tune-ok", "connection.open": "open-ok redirect",
    "connection.close": "close-ok", "session.attach": "attached detached",
    "session.detach": "detached", "session.request-timeout": "timeout", "file.qos": "qos-ok",
    "file.consume": "consume-ok", "file.open": "open-ok", "file.open-ok": "stage",
    "stream.qos": "qos-ok", "stream.consume": "consume-ok",
}  # fmt: skip
RESULTS = {
    "message.acquire": "acquired", "message.resume": "message-resume-result",
    "dtx.start": "xa-result", "dtx.end": "xa-result", "dtx.commit": "xa-result",
    "dtx.get-timeout": "get-timeout-result", "dtx.prepare": "xa-result",
    "dtx.recover": "recover-result", "dtx.rollback": "xa-result",
    "exchange.query": "exchange-query-result", "exchange.bound": "exchange-bound-result",
    "queue.query": "queue-query-result",
}  # fmt: skip
CONTENTS = {
    "message.transfer": "delivery-properties fragment-properties message-properties",
    "file.stage": "file-properties", "file.return": "file-properties",
    "stream.publish": "stream-properties", "stream.return": "stream-properties",
    "stream.deliver": "stream-properties",
}  # fmt: skip


def lines(text: str) -> dict[str, str]:
    """What stands before each colon, and behind it."""
    joined = text.replace("\n    ", " ").strip().splitlines()
    return {head: rest.strip() for head, _, rest in (line.partition(":") for line in joined)}


def structs() -> dict[str, ir.Struct]:
    return {f"{c.name}.{s.name}": s for c in PROTOCOL.classes for s in c.structs}


def types(fields: tuple[ir.Field, ...]) -> str:
    """The wire types of fields."""
    known = structs()
    names = [
        f.type.partition(".")[2] if f.type in known else PROTOCOL.wire_type(f.type).name
        for f in fields
    ]
    return " ".join(name + "!" * item.required for name, item in zip(names, fields, strict=True))


def operations() -> dict[str, ir.Operation]:
    return {f"{c.name}.{o.name}": o for c in PROTOCOL.classes for o in c.operations}


def test_operations_and_their_fields() -> None:
    found = {}
    for class_ in PROTOCOL.classes:
        for o in class_.operations:
            senders = "".join(sender[0] for sender in o.senders)
            head = f"{class_.number:02x}{o.number:02x} {senders} {class_.name}.{o.name}"
            found[head] = types(o.fields)
    assert found == lines(OPERATIONS)
    assert len(found) == 84
    controls = {c.name for c in PROTOCOL.classes for o in c.operations if o.kind == "control"}
    commands = {c.name for c in PROTOCOL.classes for o in c.operations if o.kind == "command"}
    assert controls == {"connection", "session"} and not controls & commands


def test_structs_and_their_fields() -> None:
    numbers = {c.name: c.number << 8 for c in PROTOCOL.classes}
    found = {
        f"{numbers[name.split('.')[0]] | s.code if s.code else 0:04x} {s.size} {s.pack} {name}":
        types(s.fields)
        for name, s in structs().items()
    }  # fmt: skip
    assert found == lines(STRUCTS)
    fragment = structs()["message.fragment-properties"]
    assert [f.default for f in fragment.fields] == ["1", "1", ""]


def test_types() -> None:
    found = {
        f"{t.name}:{'--' if t.code is None else format(t.code, '02x')}:"
        f"{'' if t.length else t.width}:{t.length or ''}"
        for t in PROTOCOL.types.values()
    }
    assert found == set(TYPES.split())
    assert PROTOCOL.types["sequence-set"].of == "sequence-no"
    assert PROTOCOL.domains["connection.amqp-host-array"].of == "connection.amqp-host-url"


def test_values_of_domains() -> None:
    found = {
        name: ",".join(v.value for v in domain.values)
        for name, domain in PROTOCOL.domains.items()
        if domain.values
    }
    assert found == VALUES and len(PROTOCOL.domains) == 25


def test_exceptions_and_their_codes() -> None:
    found = {
        name: " ".join(
            str(e.code) for e in (*o.exceptions, *(e for f in o.fields for e in f.exceptions))
        )
        for name, o in operations().items()
    }
    assert {name: codes for name, codes in found.items() if codes} == EXCEPTIONS


def test_replies_results_and_contents() -> None:
    known = operations()
    assert {n: " ".join(o.replies) for n, o in known.items() if o.replies} == REPLIES
    results = {n: o.result.partition(".")[2] for n, o in known.items() if o.result}
    assert results == RESULTS
    contents = {
        n: " ".join(s.partition(".")[2] for s in o.header) for n, o in known.items() if o.content
    }
    assert contents == CONTENTS
    required = {n for n, o in known.items() if o.header_required}
    assert required == CONTENTS.keys() - {"message.transfer"}


def test_roles() -> None:
    roles = {c.name: c.roles for c in PROTOCOL.classes}
    both = {"server": "must", "client": "must"}
    may = {"server": "may", "client": "may"}
    assert roles == {
        "connection": both, "session": {**both, "sender": "must", "receiver": "must"},
        "execution": both, "message": both, "tx": {"server": "should"}, "dtx": may,
        "exchange": both, "queue": both, "file": may, "stream": may,
    }  # fmt: skip
    levels = Counter(pair for o in operations().values() for pair in o.handling.items())
    assert levels == {
        ("server", "must"): 51, ("client", "must"): 31,
        ("server", "may"): 11, ("client", "may"): 3,
        ("sender", "must"): 5, ("receiver", "must"): 6,
    }  # fmt: skip


def test_errata() -> None:
    """What the errata of Qpid changed: two facts, which all known programs follow."""
    assert structs()["dtx.xid"].errata == "qpid"
    assert operations()["connection.heartbeat"].errata == "qpid"
    assert TEXT.count(' errata="qpid"') == 2 + 1, "two facts and the remark"


def test_every_condition_has_a_code() -> None:
    assert {row.name for row in PROTOCOL.conditions} == {c.value for c in Condition}
    assert PROTOCOL.header == b"AMQP\x01\x01\x00\x0a" and PROTOCOL.port == 5672
    assert PROTOCOL.constants["min-max-frame-size"].value == 4096


REFUSED = {
    "unknown error": ('error="not-found"', 'error="gone"', "has no value 'gone'"),
    "unknown role": ('must="server"', 'must="broker"', "must='broker' is no role"),
    "handled twice": ('must="server"', 'must="server" may="server"', "but must it as well"),
    "unknown level": ('implement="should"', 'implement="shall"', "is not one of"),
    "role given twice": (
        '<role name="server" implement="should"/>',
        '<role name="server" implement="should"/><role name="server" implement="may"/>',
        "duplicate name 'server'",
    ),
    "condition of no set": ('scope="session"', 'scope="link"', "neither|scope='link'|scope"),
    "condition without a code": ('constant="not-found"', 'constant="gone"', "has no value 'gone'"),
    "domain of another class": ('type="queue.name"', 'type="tx.name"', "unknown domain or type"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_of_the_loader(name: str) -> None:
    old, new, message = REFUSED[name]
    assert old in TEXT
    with pytest.raises(SpecError, match=message):
        parse(TEXT.replace(old, new, 1))

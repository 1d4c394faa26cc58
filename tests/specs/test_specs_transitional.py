"""The transitional 0-10: nothing was forgotten, and the two revisions differ where they should.

The counts were taken from the published definition, not from our file.
"""

import pytest

from gateway.adapters.methods.geometry import Version
from gateway.adapters.methods.wire import layouts_0_10_07 as w
from gateway.adapters.methods.wire import transitional
from gateway.adapters.methods.wire.tables_0_10_07 import V0_10_07_24, V0_10_07_27, VERSIONS
from gateway.errors import Condition
from specs.codegen.__main__ import REVISIONS, ROOT
from specs.codegen.__main__ import TRANSITIONAL as SOURCE
from specs.codegen.ir import SpecError
from specs.codegen.load import load, parse

PUBLISHED = {
    "connection": 11, "session": 14, "channel": 6, "access": 2, "exchange": 4, "queue": 8,
    "basic": 13, "file": 14, "stream": 9, "tx": 3, "dtx-demarcation": 5, "dtx-coordination": 12,
    "tunnel": 1, "message": 15, "binding": 2, "execution": 2,
}  # fmt: skip
CONTENTS = {60: ("basic", 13), 70: ("file", 9), 80: ("stream", 5), 110: ("tunnel", 5)}

both = pytest.mark.parametrize("version", VERSIONS.values(), ids=list(VERSIONS))


@both
def test_published_methods(version: Version) -> None:
    counts: dict[str, int] = {}
    for method in version.methods.values():
        prefix = method.name.partition(".")[0]
        counts[prefix] = counts.get(prefix, 0) + 1
    gone = version.name == "0-10-07-27"
    assert counts == PUBLISHED | {"message": PUBLISHED["message"] - gone}
    assert all(method.implemented and not method.extension for method in version.methods.values())


@both
def test_content_classes(version: Version) -> None:
    found = {
        content.number: (content.name, len(content.record.__slots__))
        for content in version.contents.values()
    }
    assert found == CONTENTS
    assert {m.number >> 16 for m in version.methods.values() if m.content} == set(CONTENTS)


@both
def test_every_condition_has_a_code_and_every_code_its_scope(version: Version) -> None:
    assert set(version.codes) == {condition.value for condition in Condition}
    for code, text, hard in version.codes.values():
        assert version.constants[text.lower().replace("_", "-")] == code
        assert hard == (code not in (310, 311, 312, 313, 403, 404, 405, 406))


@both
def test_opening_and_geometry(version: Version) -> None:
    assert version.header == b"AMQP\x01\x01\x00\x0a"
    assert (version.major, version.minor) == (0, 10)
    geometry = version.geometry
    assert geometry.head.size == 7 and geometry.tail == b"\xce" and not geometry.size_counts_tail
    assert geometry.heartbeat == bytes.fromhex("08000000000000ce")


def test_only_the_older_revision_answers_messages() -> None:
    older, newer = V0_10_07_24.by_name, V0_10_07_27.by_name
    assert set(older) - set(newer) == {"message.ok"} and not set(newer) - set(older)
    differing = {name for name in newer if newer[name].replies != older[name].replies}
    assert differing == {"message.transfer", "message.get"}
    assert older["message.transfer"].replies == ("message.ok", "message.reject")
    assert older["message.get"].replies == ("message.ok", "message.empty")
    assert newer["message.transfer"].replies == newer["message.get"].replies == ()


def test_sets_in_their_two_forms() -> None:
    older, newer = (v.by_name["execution.complete"] for v in (V0_10_07_24, V0_10_07_27))
    record = w.ExecutionComplete(3, bytes.fromhex("0000000500000007"))
    assert older.write(record) == bytes.fromhex("00000003 0000")
    assert older.read(bytes.fromhex("00000003 0000"), 0) == (w.ExecutionComplete(3), 6)
    octets = bytes.fromhex("00000003 0002 00000005 00000007")
    assert newer.write(record) == octets
    assert newer.read(octets, 0) == (record, len(octets))


def test_requests_and_responses() -> None:
    assert (transitional.REQUEST, transitional.RESPONSE) == (9, 10)
    assert transitional.REQUEST_HEAD.size == transitional.RESPONSE_HEAD.size == 20


def test_the_types_of_entries_have_the_width_that_their_codes_announce() -> None:
    fixed = {0: 1, 1: 2, 2: 4, 3: 8, 4: 16, 5: 32, 6: 64, 7: 128, 0xC: 5, 0xD: 9, 0xF: 0}
    lengths = {8: 1, 9: 2, 0xA: 4}
    assert len(transitional.FIELD_TYPES) == 46
    for code, (_, _, width, length) in transitional.FIELD_TYPES.items():
        assert (width, length) == (fixed.get(code >> 4, 0), lengths.get(code >> 4, 0))


def test_a_file_with_revisions_is_loaded_as_one_of_them() -> None:
    path = ROOT / "specs" / SOURCE
    assert [load(path, name).name for name in REVISIONS] == list(REVISIONS)
    for name in ("", "0-10"):
        with pytest.raises(SpecError, match="there are 0-10-07-24, 0-10-07-27"):
            load(path, name)
    with pytest.raises(SpecError, match="there are none"):
        load(ROOT / "specs" / "amqp-0-8.xml", "0-8")


def test_a_mark_names_a_revision_of_the_file() -> None:
    text = (ROOT / "specs" / SOURCE).read_text()
    for mark in (' in="0-10-07-24"', ' replies-in="0-10-07-24"'):
        broken = text.replace(mark, mark.replace("24", "25"), 1)
        assert broken != text
        with pytest.raises(SpecError, match="no revision '0-10-07-25'"):
            parse(broken, "x.xml", "0-10-07-27")

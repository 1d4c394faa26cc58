"""Contents of the drafts <-> the canonical properties: nothing is lost on the way through any
version, and what peers of the drafts wrote comes back octet by octet while it stays among them."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from gateway.adapters.methods.content import BASIC
from gateway.adapters.methods.contents.dialect import CHILDREN, ClassDialect, child
from gateway.adapters.methods.drafts import types as tables
from gateway.adapters.methods.drafts.content import CONTENTS
from gateway.adapters.methods.tags import FieldError
from gateway.adapters.performatives.content import SECTIONS
from gateway.message import DIALECTS, Message, Properties
from gateway.values import Float, Int, Seconds, ULong
from tests.drawing import examples

DIALECTS_HERE = sorted(
    {d.name: d for d in CONTENTS.values() if not d.name.endswith("-test")}.items()
)
TEXT = some.text(max_size=60)
NAMES = some.text(min_size=1, max_size=10).filter(lambda name: not name.startswith("x-"))
VALUES = (
    some.text(max_size=400)
    | some.booleans()
    | some.none()
    | some.builds(Int, some.integers(-(1 << 31), (1 << 31) - 1))
    | some.integers(-(1 << 63), (1 << 63) - 1)
    | some.floats(allow_nan=False)
    | some.binary(max_size=40)
    | some.builds(Seconds, some.integers(0, 1 << 40))
    | some.lists(some.integers(0, 5), max_size=3)
    | some.dictionaries(NAMES, some.text(max_size=300), max_size=3)
)
ANY = some.builds(
    Properties,
    durable=some.none() | some.booleans(),
    priority=some.none() | some.integers(0, 255),
    ttl=some.none() | some.integers(1, 1 << 32),
    message_id=some.none() | some.text(min_size=1, max_size=300) | some.uuids()
    | some.binary(max_size=300) | some.builds(ULong, some.integers(0, (1 << 64) - 1)),
    correlation_id=some.none() | some.text(min_size=1, max_size=60),
    user_id=some.none() | some.binary(min_size=1, max_size=300),
    to=some.none() | some.text(min_size=1, max_size=60),
    subject=some.none() | TEXT,
    reply_to=some.none() | some.text(min_size=1, max_size=300),
    content_type=some.none() | some.text(min_size=1, max_size=60),
    content_encoding=some.none() | some.text(min_size=1, max_size=60),
    creation_time=some.none() | some.integers(1, 10**13),
    group_id=some.none() | TEXT,
    type=some.none() | some.text(min_size=1, max_size=60),
    app_id=some.none() | some.text(min_size=1, max_size=60),
    cluster_id=some.none() | some.text(min_size=1, max_size=60),
    application=some.none() | some.dictionaries(NAMES, VALUES, min_size=1, max_size=4),
)  # fmt: skip


@pytest.mark.parametrize("name", [name for name, _ in DIALECTS_HERE])
@settings(max_examples=examples(30))
@given(given_=ANY)
def test_any_properties_come_back(name: str, given_: Properties) -> None:
    dialect = DIALECTS[name]
    assert isinstance(dialect, ClassDialect)
    header = dialect.write(given_)
    found = dialect.read(header)
    expected = BASIC.read(BASIC.write(given_))
    expected.to, found.to = given_.to, given_.to and found.to
    expected.application = expected.application or None
    found.application = found.application or None
    assert found == expected
    essentials = dialect.essentials(header)
    assert essentials.durable == (given_.durable is True and "delivery" in essential_names(dialect))


def essential_names(dialect: ClassDialect) -> str:
    """Whether the class can say that a message is durable."""
    return "delivery" if "-jms" in dialect.name else ""


@pytest.mark.parametrize("name", [name for name, _ in DIALECTS_HERE])
@pytest.mark.parametrize("other", ["0-9-1", "1.0"])
@settings(max_examples=examples(20))
@given(given_=ANY)
def test_the_way_through_another_version_changes_nothing(
    name: str, other: str, given_: Properties
) -> None:
    dialect = DIALECTS[name]
    between = BASIC if other == "0-9-1" else SECTIONS
    header = dialect.write(given_)
    crossed = between.read(between.write(dialect.read(header)))
    again = dialect.read(dialect.write(crossed))
    first = dialect.read(header)
    if other == "1.0":
        for name_ in ("type", "app_id", "cluster_id"):  # no home in 1.0 but in its annotations
            assert getattr(again, name_) == getattr(first, name_)
    again.application, first.application = again.application or None, first.application or None
    assert again == first


@given(some.recursive(
    some.binary(max_size=20).map(lambda body: child(7, b"\0\0", [], body)),
    lambda inner: some.lists(inner, max_size=3).map(lambda c: child(7, b"\x80\0\1x", c, b"b")),
    max_leaves=8,
))  # fmt: skip
def test_children_cross_everything(inner: bytes) -> None:
    dialect = DIALECTS["0-9a6-jms"]
    header = dialect.write(Properties(content_type="a/b")) + inner
    message = Message(dialect, header, b"", "", "", dialect.essentials(header))
    assert message.properties.annotations == {CHILDREN: inner}
    for between in (BASIC, SECTIONS):
        crossed = between.read(between.write(message.properties))
        crossed.application = crossed.application or None
        assert dialect.write(crossed) == header


@pytest.mark.parametrize("broken", [b"\0", b"\0" * 15, child(7, b"", [b""], b"")[:-1] + b"\1"])
def test_broken_children_are_refused(broken: bytes) -> None:
    dialect = DIALECTS["0-9a6-jms"]
    with pytest.raises(ValueError, match="cut short"):
        dialect.essentials(b"\0\0" + broken)
    given_ = Properties(annotations={CHILDREN: broken})
    assert dialect.write(given_) == b"\0\0"


@pytest.mark.parametrize("first", [True, False])
@given(table=some.dictionaries(some.text(max_size=20), VALUES, max_size=5))
def test_tables_come_back(first: bool, table: dict[str, object]) -> None:
    assert tables.read_table(tables.write_table(table, first), first) == table


def test_a_time_that_is_no_number() -> None:
    """In 0-9a0 a time is text of an unspecified format."""
    dialect = DIALECTS["0-9a0-jms"]
    for stamp, time in (("1117411200", 1117411200_000), ("30 May 2005", None), ("9" * 40, None)):
        record = dialect._content.record(timestamp=stamp)  # type: ignore[attr-defined]
        header = dialect._content.write(record)  # type: ignore[attr-defined]
        assert dialect.read(header).creation_time == time
        crossed = BASIC.read(BASIC.write(dialect.read(header)))
        assert dialect.record(dialect.write(crossed))[0].timestamp == stamp  # type: ignore[attr-defined]


def test_tables_in_their_several_readings() -> None:
    assert tables.write_table({"a": "b", "n": 5}, True) == b"\1aS\1b\1nI\0\0\0\5"
    assert tables.write_table({"a": "b" * 300}, True)[:5] == b"\1aL\1\x2c"
    assert tables.write_table({"a": "b"}, False) == b"\1aS\0\0\0\1b"
    assert tables.read_table(b"\1aS\1b", False) == {"a": "b"}  # as the text of 0-9a6 has it
    assert tables.read_table(b"\1aS\0\0\0\1b", True) == {"a": "b"}
    assert tables.read_table(b"\1aL\0\0\0\1b", False) == {"a": "b"}
    assert tables.read_table(b"\1aI\0\0\0\1\1aI\0\0\0\2", False) == {"a": 1}  # the first counts
    assert tables.read_table(b"\1af\x3f\x80\0\0", False) == {"a": Float(1)}
    for broken in (b"\1", b"\1a", b"\1aS", b"\1aS\0\0\0\5b", b"\1aI\0", b"\1a?\0", b"\5a"):
        for first in (True, False):
            with pytest.raises(FieldError):
                tables.read_table(broken, first)

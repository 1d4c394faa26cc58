"""Tagged JSON: every value that a table can hold comes back as the same type."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway import values
from gateway.errors import LocalError
from gateway.store.plain import read_plain, write_plain

leaves = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(), st.binary(),
    st.uuids(),
    st.builds(values.Seconds, st.integers(0, 2**63)), st.builds(values.Timestamp, st.integers()),
    st.builds(values.UByte, st.integers(0, 255)), st.builds(values.Float, st.just(0.5)),
    st.builds(values.Symbol, st.just("sym")), st.builds(values.ShortString, st.text()),
    st.builds(values.Scaled, st.integers(0, 255), st.integers(-(2**31), 2**31)),
)  # fmt: skip
keys = st.one_of(st.text(), st.just("$"), st.just("v"), st.integers())
tables = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner) | st.dictionaries(keys, inner) | st.tuples(inner, inner)
        | st.builds(values.Described, leaves, inner)
    ),
    max_leaves=12,
)  # fmt: skip


def typed(value: object) -> object:
    """The value with its types, so that equality sees them."""
    if isinstance(value, dict):
        return type(value), [(typed(k), typed(v)) for k, v in value.items()]
    if isinstance(value, list | tuple):
        return type(value), [typed(item) for item in value]
    return type(value), value


@given(tables)
def test_round_trip(value: object) -> None:
    assert typed(read_plain(write_plain(value))) == typed(value)


def test_plain_values_are_plain_json() -> None:
    assert write_plain({"a": [1, "x", None, True, 0.5]}) == '{"a":[1,"x",null,true,0.5]}'


@pytest.mark.parametrize("value", [float("inf"), float("-inf"), values.Float("inf")])
def test_infinities(value: float) -> None:
    assert typed(read_plain(write_plain([value]))) == typed([value])


def test_not_a_number() -> None:
    found = read_plain(write_plain({"x": float("nan")}))["x"]
    assert found != found


def test_unknown_types_are_refused() -> None:
    with pytest.raises(LocalError, match="type object"):
        write_plain({"x": object()})


def test_unknown_tags_are_refused() -> None:
    with pytest.raises(LookupError):
        read_plain('{"$":"os.system","v":"x"}')


def test_uuid_is_a_uuid() -> None:
    value = UUID(int=7)
    assert read_plain(write_plain(value)) == value

"""The checker in steps says what the parser of the standard library says."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.http import json_check
from gateway.http.message_json import is_json

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(), inner, max_size=5),
    max_leaves=25,
)  # fmt: skip


def check(octets: bytes) -> tuple[bool, int]:
    steps = json_check.json_steps(octets)
    count = 0
    while True:
        try:
            next(steps)
            count += 1
        except StopIteration as ended:
            return ended.value, count


@given(VALUES, st.sampled_from([None, 1]), st.booleans())
def test_valid_json(value: Any, indent: int | None, plain: bool) -> None:
    octets = json.dumps(value, indent=indent, ensure_ascii=plain).encode("utf-8", "replace")
    assert check(octets)[0] == is_json(octets)


@given(VALUES, st.integers(0), st.binary(max_size=3), st.integers(0, 3))
def test_invalid_json(value: Any, at: int, put: bytes, gone: int) -> None:
    octets = json.dumps(value).encode()
    at %= len(octets) + 1
    octets = octets[:at] + put + octets[at + gone :]
    assert check(octets)[0] == is_json(octets), octets


@given(st.text(st.sampled_from('[]{},:"\\ 01-+.eEtruefalsn\n\x00\ufeffu')))
def test_soup(text: str) -> None:
    octets = text.encode()
    assert check(octets)[0] == is_json(octets), octets


@pytest.mark.parametrize("window", [8, 9, 16, 31])
@given(value=VALUES, at=st.integers(0), put=st.binary(max_size=2))
def test_wherever_a_window_ends(window: int, value: Any, at: int, put: bytes) -> None:
    octets = json.dumps({"k": [value, "x" * 40, " " * 20]}, indent=3).encode()
    at %= len(octets) + 1
    octets = octets[:at] + put + octets[at:]
    before, json_check.WINDOW = json_check.WINDOW, window
    try:
        said = check(octets)[0]
    finally:
        json_check.WINDOW = before
    # A number that is longer than a window is refused.
    assert said == is_json(octets) or (not said and b"e" in octets or len(octets) > 40)
    if said:
        assert is_json(octets)


@pytest.mark.parametrize(
    ("octets", "steps"),
    [
        (b'"' + b"x" * 3_000_000 + b'"', 40),
        (b" " * 3_000_000 + b"1", 40),
        (b"[" + b"1," * 1_500_000 + b"1]", 40),
        (b'["' + b'","' * 1_000_000 + b'"]', 40),
        (b"[" + b'{"a":1,"b":"c"},' * 200_000 + b"1]", 40),
        (b"[" + b'"\\u0041",' * 300_000 + b"1]", 40),
    ],
)
def test_a_large_body_takes_many_steps(octets: bytes, steps: int) -> None:
    assert check(octets)[0] is True
    assert check(octets)[1] >= steps
    assert check(octets[:-1] + b"}")[0] is False or octets.endswith(b" 1")

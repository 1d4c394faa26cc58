"""What selectors say about a message: the table of JMS 2.0 §3.8.1, row by row."""

from typing import Any

import pytest

from gateway.selector.errors import DEEPEST, LONGEST, MOST_TERMS, SelectorError
from gateway.selector.evaluation import Reader, Value, compiled
from gateway.selector.like import EFFORT, LONGEST_TEXT, MOST_STEPS
from gateway.selector.parser import parse

GIVEN: dict[str, Value] = {
    "a": 1, "b": 2, "big": (1 << 63) - 1, "f": 2.5, "s": "hello", "quote": "it's", "yes": True,
    "no": False, "empty": "", "percent": "50%", "under": "a_b", "lines": "one\ntwo",
    "a.b": 7, "odd name": 8, "nan": float("nan"), "$dollar": 9, "ünïcode": 10, "unsigned": 1 << 63,
}  # fmt: skip


def given(name: str) -> Reader[dict[str, Value]]:
    return lambda values: values.get(name)


def evaluate(text: str, values: dict[str, Value] | None = None) -> Value:
    EFFORT.begin()
    return compiled(parse(text), given)(GIVEN if values is None else values)


TRUE = """
a = 1
a = 1.0
a <> 2
a < 2 AND b > 1
a <= 1 AND a >= 1
a+1 = b
a + b * 2 = 5
(a + b) * 2 = 6
b - a - a = 0
7 / 2 = 3
-7 / 2 = -3
7.0 / 2 = 3.5
7 / 2.0 = 3.5
f = 2.5
f * 2 = 5
2.5e0 = f
25E-1 = f
2.5f = f
2.5D = f
1d = a
1L = a
7. = 7
.5 = 0.5
0x10 = 16
0X1fL = 31
017 = 15
0b101 = 5
00 = 0
- -a = 1
+a = 1
-a = -1
- (a + b) = -3
-9223372036854775808 < 0
big = 9223372036854775807
unsigned > big
s = 'hello'
s <> 'world'
quote = 'it''s'
empty = ''
yes
yes = TRUE
NOT no
no = false
yes <> no
(a = 1) = TRUE
NOT NOT yes
not no and YES IS NULL
a BETWEEN 1 AND 2
a NOT BETWEEN 2 AND 3
f between a and b + 1
a + 1 BETWEEN 2 AND 2 AND b = 2
s IN ('x', 'hello')
s NOT IN ('x', 'y')
a IN (3, 1.0)
a IN (-1, +1)
yes IN (TRUE)
a NOT IN (TRUE)
s LIKE 'hello'
s LIKE 'h%'
s LIKE '%o'
s LIKE '%ell%'
s LIKE '_____'
s LIKE '_e%_'
s LIKE '%'
s LIKE 'h%l_'
s LIKE '%l%l%'
s NOT LIKE '%l%l%l%'
s NOT LIKE 'HELLO'
s NOT LIKE '______'
s NOT LIKE 'hell'
empty LIKE ''
empty LIKE '%%'
empty NOT LIKE '_'
percent LIKE '50!%' ESCAPE '!'
percent LIKE '%%'
s NOT LIKE '50!%' ESCAPE '!'
under LIKE 'a\\_b' ESCAPE '\\'
under LIKE '%\\_%' ESCAPE '\\'
s NOT LIKE '%\\_%' ESCAPE '\\'
under LIKE 'aa_ab' ESCAPE 'a' OR under LIKE 'aaa_b' ESCAPE 'a'
lines LIKE 'one_two'
lines LIKE 'o%o'
nothing IS NULL
a IS NOT NULL
a is not null
(nothing = 1) IS NULL
(a / 0) IS NULL
(a / 0.0) IS NULL
(big + 1) IS NOT NULL
(big * 4) IS NULL
(s + 1) IS NULL
(-s) IS NULL
(yes * 2) IS NULL
(a / 0 = 1) IS NULL
a.b = 7
"odd name" = 8
"a" = 1
$dollar = 9
ünïcode = 10
yes OR nothing
nothing OR yes
NOT (no AND nothing)
NOT (nothing AND no)
a = 1 AND b = 2 OR nothing
no AND no OR yes
yes OR no AND no
NOT no AND yes
NOT a = 2
nan <> nan
s='hello'AND(b)=2
a<>2
TRUE
1 = 1
"""

FALSE = """
a = 2
a = '1'
'1' = a
a <> '1'
s = 1
yes = 'TRUE'
yes = 1
s > 1
1 < s
yes > 0
yes <= 1
s BETWEEN 1 AND 2
s NOT BETWEEN 1 AND 2
a LIKE '1'
s IN ('x')
a IN ('1')
yes IN (1)
s LIKE 'ello'
s LIKE 'h%x'
s LIKE 'he%ello'
s LIKE 'hello_'
percent LIKE '5!%' ESCAPE '!'
A = 1 AND no
no
no AND nothing
nothing AND no
NOT yes
NOT (yes OR nothing)
a IS NULL
nothing IS NOT NULL
nan = nan
nan < 1
nan >= 1
FALSE
"""

UNKNOWN = """
nothing
nothing = 1
nothing <> 1
nothing < 1
1 = nothing
nothing = nothing
NOT nothing
nothing AND yes
nothing OR no
nothing BETWEEN 1 AND 2
nothing NOT BETWEEN 1 AND 2
a BETWEEN nothing AND 2
nothing IN ('x')
nothing NOT IN ('x')
nothing LIKE 'x'
nothing NOT LIKE 'x'
nothing + 1 = 2
-nothing = 1
a / 0 = 1
a + s = 1
A = 1
NOT s
s AND yes
a OR no
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (text, expected)
        for table, expected in ((TRUE, True), (FALSE, False), (UNKNOWN, None))
        for text in table.replace("\\\\", "\\").strip().splitlines()
    ],
)
def test_table(text: str, expected: bool | None) -> None:
    found = evaluate(text)
    if expected is None:
        assert found is not True and found is not False
    else:
        assert found is expected


@pytest.mark.parametrize("text", ["a\t=\n1", "  a = 1  ", "a\r=\f1"])
def test_space(text: str) -> None:
    assert evaluate(text) is True


WRONG = [
    ("", 0, "expected a value, found the end"),
    ("   ", 3, "expected a value"),
    ("a =", 3, "expected a value"),
    ("= 1", 0, "expected a value"),
    ("a = 1 b", 6, "expected the end, found 'b'"),
    ("a = b = c", 6, "expected the end, found '='"),
    ("a IS NULL IS NULL", 10, "expected the end"),
    ("(a = 1", 6, "expected ), found the end"),
    ("a = 1)", 5, "expected the end"),
    ("a == 1", 3, "expected a value"),
    ("a != 1", 2, "unexpected character '!'"),
    ("a = 'x", 4, "missing closing '"),
    ('"a', 0, 'missing closing "'),
    ('"" = 1', 0, "empty identifier"),
    ("a = 12abc", 4, "malformed number"),
    ("a = 09", 4, "malformed number"),
    ("a = 0x", 4, "malformed number"),
    ("a = 0b2", 4, "malformed number"),
    ("a = 1.2.3", 4, "malformed number"),
    ("a = 9223372036854775808", 4, "number is too large"),
    ("a = -9223372036854775809", 5, "number is too large"),
    ("a = 1e999", 4, "number is too large"),
    ("a = NULL", 4, "expected a value, found 'NULL'"),
    ("AND = 1", 0, "expected a value"),
    ("a IN ()", 6, "expected a value"),
    ("a IN (b)", 6, "expected a literal"),
    ("a IN ('x'", 9, "expected ), found the end"),
    ("a IN 'x'", 5, "expected ("),
    ("a NOT = 1", 6, "expected BETWEEN, IN or LIKE"),
    ("a NOT NULL", 6, "expected BETWEEN, IN or LIKE"),
    ("a IS 1", 5, "expected NULL"),
    ("a LIKE 1", 7, "expected a pattern"),
    ("a LIKE b", 7, "expected a pattern"),
    ("a LIKE 'x' ESCAPE 'yy'", 18, "expected one escape character"),
    ("a LIKE 'x' ESCAPE ''", 18, "expected one escape character"),
    ("a LIKE 'x!' ESCAPE '!'", 7, "cannot end with its escape character"),
    ("1 LIKE 'x'", 0, "expected a string, found an integer"),
    ("a BETWEEN 1 OR 2", 12, "expected AND"),
    ("a BETWEEN 'x' AND 'y'", 10, "expected a number, found a string"),
    ("a < 'x'", 4, "expected a number, found a string"),
    ("a > TRUE", 4, "expected a number, found a condition"),
    ("'a' + 1 = 2", 0, "expected a number, found a string"),
    ("1", 0, "expected a condition, found an integer"),
    ("'x'", 0, "expected a condition, found a string"),
    ("a + 1", 0, "expected a condition, found a number"),
    ("a AND 1", 6, "expected a condition, found an integer"),
    ("NOT 1", 4, "expected a condition"),
    ("-'x' = 1", 1, "expected a number"),
    ("+TRUE = 1", 1, "expected a number"),
    ("a = NOT b", 4, "expected a value, found 'NOT'"),
    ("a = 1 # comment", 6, "unexpected character '#'"),
    ("a = 1;", 5, "unexpected character ';'"),
    ("a = 1\x00", 5, "unexpected character"),
]


@pytest.mark.parametrize(("text", "position", "why"), WRONG)
def test_errors_have_a_position_and_a_reason(text: str, position: int, why: str) -> None:
    with pytest.raises(SelectorError) as caught:
        parse(text)
    assert caught.value.position == position
    assert why in str(caught.value)
    assert str(caught.value).endswith(f"at position {position + 1}")


# --- limits -------------------------------------------------------------------------------------


def test_length_is_limited() -> None:
    parse("a = '" + "x" * (LONGEST - 6) + "'")
    with pytest.raises(SelectorError, match="too long"):
        parse("a = '" + "x" * (LONGEST - 5) + "'")


@pytest.mark.parametrize(
    "text",
    [
        "(" * 1000 + "a" + ")" * 1000,
        "NOT " * 1000 + "a",
        "a = " + "- " * 1000 + "b",
        "a = " + "(b + c * " * 400 + "1" + ")" * 400,
        "".join("(a OR b AND c + d * " for _ in range(150)),
        "a = 1 AND (b = 2 OR " * 100 + "c" + ")" * 100,
    ],
)
def test_nesting_is_limited(text: str) -> None:
    with pytest.raises(SelectorError, match="nested deeper|expected"):
        parse(text[:LONGEST])


def test_as_deep_as_allowed() -> None:
    assert evaluate("NOT " * (DEEPEST - 2) + "yes") is True
    assert evaluate("(" * DEEPEST + "yes" + ")" * DEEPEST) is True
    with pytest.raises(SelectorError, match="nested deeper"):
        parse("NOT " * DEEPEST + "yes")


def test_terms_are_limited() -> None:
    assert evaluate(" OR ".join(["a"] * MOST_TERMS)) is None
    with pytest.raises(SelectorError, match="more than"):
        parse(" OR ".join(["a"] * (MOST_TERMS + 1)))
    assert evaluate("b = " + "+".join(["1"] * (MOST_TERMS - 1))) is False


def test_hard_patterns_take_one_pass() -> None:
    """Each of these is exponential or quadratic for a matcher that backtracks."""
    text = "a" * (LONGEST_TEXT - 1) + "b"
    assert evaluate(f"t LIKE '{'%a' * 1000}%c'", {"t": text}) is False
    assert evaluate(f"t LIKE '%{'a_' * 1000}c%'", {"t": text}) is False
    assert evaluate(f"t LIKE '%{'a' * 2000}c%'", {"t": text}) is False
    assert evaluate(f"t LIKE '{'%a' * 1000}%b'", {"t": text}) is True
    assert evaluate("t LIKE '%'", {"t": text + "b"}) is False


HARD = {
    "fifty with _": " OR ".join([f"t LIKE '%_{'a' * 40}b%'"] * 50),
    "fifty without": " OR ".join([f"t LIKE '%{'a' * 20}b{'a' * 20}%'"] * 50),
    "one long": f"t LIKE '%_{'a' * 4000}b%'",
    "twenty long": " OR ".join([f"t LIKE '%_{'a' * 180}b%'"] * 20),
    "many short": " OR ".join(["t LIKE '%_b%'"] * 200),
    "many pieces": f"t LIKE '{'%_a' * 1300}%b_%'",
}


@pytest.mark.parametrize("case", HARD)
@pytest.mark.parametrize("letter", ["a", "ä"])
def test_hard_selectors_take_few_steps(case: str, letter: str) -> None:
    """A character of the text is passed over a few times for each piece, and pieces with ``_`` move
    through it together, a machine word at a time."""
    selector = HARD[case].replace("a", letter)
    text = letter * LONGEST_TEXT
    spent = EFFORT.steps
    assert evaluate(selector, {"t": text}) is False
    assert EFFORT.steps - spent < MOST_STEPS


def test_arithmetic_stays_small() -> None:
    values: dict[str, Any] = {"a": (1 << 63) - 1}
    assert evaluate(" * ".join(["a"] * 500) + " IS NULL", values) is True
    assert evaluate(" * ".join(["a * 1.0"] * 200) + " > 1e300", values) is True

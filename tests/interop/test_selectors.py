"""Our selectors against those of Artemis: the same answers, except where the standard wants others.

The table of tests/selector is asked row by row, with the differences written down; then generated
conditions over properties of known types, where there may be none.
"""

import shutil
import subprocess
from pathlib import Path
from random import Random

import pytest

from gateway.selector.errors import SelectorError
from gateway.selector.evaluation import Value
from tests.interop.compiled import compiled
from tests.interop.servers import INSTALL, PEERS
from tests.selector.test_evaluation import FALSE, GIVEN, TRUE, UNKNOWN, WRONG, evaluate

PROGRAM = Path(__file__).parent / "clients" / "SelectorTable.java"

pytestmark = pytest.mark.interop

# Ours first. What Artemis says instead, and why it need not be followed.
DIFFERENT = {
    # Exact numbers divide exactly (Java promotion, JMS 2.0 §3.8.1.1); Artemis makes them doubles.
    "7 / 2 = 3", "-7 / 2 = -3", "(a / 0) IS NULL", "(a / 0.0) IS NULL", "(a / 0 = 1) IS NULL",
    # Literals are those of Java (§3.8.1.1).
    "2.5f = f", "2.5D = f", "1d = a", "0X1fL = 31", "0b101 = 5",
    "a = 9223372036854775808", "a = -9223372036854775809", "a = 1e999",
    # Lists of numbers and truth values: more than the standard asks for.
    "a IN (3, 1.0)", "a IN (-1, +1)", "yes IN (TRUE)", "a NOT IN (TRUE)", "yes IN (1)",
    # Identifiers are those of Java (§3.8.1.1), and those of AMQP have dots.
    "a.b = 7", "ünïcode = 10",
    # NULL is unknown, so is arithmetic with what is no number (§3.8.1.2); overflow does not wrap.
    "nothing = nothing", "(big * 4) IS NULL", "(s + 1) IS NULL", "(yes * 2) IS NULL", "NOT s",
    "a + s = 1",
    # Values of unlike types are not compared (§3.8.1.1).
    "a <> '1'",
    # NOT binds as in SQL: looser than comparisons.
    "NOT a = 2",
    # No grammar says so; Artemis answers something.
    "a = b = c", "a IS NULL IS NULL", '"" = 1', "a LIKE 'x!' ESCAPE '!'", "1 LIKE 'x'",
    "'a' + 1 = 2", "-'x' = 1", "a = NOT b",
}  # fmt: skip

NOT_CARRIED = {"lines", "unsigned", "nan"}
"""Properties that the lines between the programs or a Java long cannot carry."""


@pytest.fixture(scope="module")
def artemis() -> list[str]:
    """The command that answers lines."""
    if shutil.which("javac") is None:
        pytest.skip(f"javac is not installed; {INSTALL}")
    jars = []
    for name in ("artemis-selector", "artemis-commons"):
        found = sorted((PEERS / "java").rglob(f"{name}-*.jar"))
        if not found:
            pytest.skip(f"{name} is not there; {INSTALL}")
        jars.append(str(found[-1]))
    path = ":".join(jars)
    out = compiled([PROGRAM], path)
    return ["java", "-Xmx128m", "-XX:TieredStopAtLevel=1", "-cp", f"{path}:{out}", "SelectorTable"]


def line(text: str, values: dict[str, Value]) -> str:
    fields = [text]
    for name, value in values.items():
        if isinstance(value, bool):
            fields.append(f"b:{name}={str(value).lower()}")
        else:
            letter = {int: "l", float: "d", str: "s"}[type(value)]
            fields.append(f"{letter}:{name}={value}")
    return "\x1f".join(fields) + "\n"


def ask(command: list[str], rows: list[tuple[str, dict[str, Value]]]) -> list[str]:
    lines = "".join(line(text, values) for text, values in rows)
    done = subprocess.run(command, input=lines.encode(), capture_output=True, timeout=100)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode().split()


def ours(text: str, values: dict[str, Value]) -> str:
    try:
        return "TRUE" if evaluate(text, values) is True else "FALSE"
    except SelectorError:
        return "ERROR"


def test_the_table(artemis: list[str]) -> None:
    values = {name: value for name, value in GIVEN.items() if name not in NOT_CARRIED}
    texts = [text for table in (TRUE, FALSE, UNKNOWN) for text in table.strip().splitlines()]
    texts += [text for text, _, _ in WRONG]
    texts = [text for text in texts if not any(name in text for name in NOT_CARRIED)]
    answers = ask(artemis, [(text, values) for text in texts])
    pairs = zip(texts, answers, strict=True)
    assert {text for text, answer in pairs if ours(text, values) != answer} == DIFFERENT


class Maker:
    """Conditions over ``n``, ``x`` (numbers), ``s``, ``t`` (strings), ``p``, ``q`` (truths), which
    may be absent. As many parentheses as Artemis needs, and literals on the right: there Artemis
    takes NULL for a value, and 0.0 for larger than -0.0."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)

    def condition(self, depth: int) -> str:
        one = self.random.random()
        if depth and one < 0.5:
            left, right = self.condition(depth - 1), self.condition(depth - 1)
            return f"({left}) {self.random.choice(['AND', 'OR', 'and', 'or'])} ({right})"
        if depth and one < 0.6:
            return f"NOT ({self.condition(depth - 1)})"
        return self.predicate()

    def predicate(self) -> str:
        no = self.random.choice(["", "NOT "])
        match self.random.randrange(7):
            case 0 | 1:
                sign = self.random.choice(["=", "<>", "<", "<=", ">", ">="])
                return f"{self.number(3)} {sign} {self.number(0)}"
            case 2:
                return f"{self.number(2)} {no}BETWEEN {self.number(0)} AND {self.number(0)}"
            case 3:
                choices = ", ".join(self.text() for _ in range(self.random.randint(1, 3)))
                return f"{self.random.choice('st')} {no}IN ({choices})"
            case 4:
                pattern = "".join(self.random.choices("ab%_", k=self.random.randint(0, 5)))
                return f"{self.random.choice('st')} {no}LIKE '{pattern}'"
            case 5:
                return f"{self.random.choice('nxstpq')} IS {no}NULL"
            case _:
                sign = self.random.choice(["=", "<>"])
                return f"{self.random.choice('st')} {sign} {self.text()}"

    def number(self, depth: int) -> str:
        """A literal if ``depth`` is 0, else anything not deeper than that."""
        if depth > 1 and self.random.random() < 0.4:
            sign = self.random.choice("+-*")
            return f"({self.number(depth - 1)} {sign} {self.number(depth - 1)})"
        names = ["n", "x"] if depth else []
        return self.random.choice([*names, "1", "2", "0.5", "-3", "1e1"])

    def text(self) -> str:
        return "'" + "".join(self.random.choices("ab", k=self.random.randint(0, 2))) + "'"

    def values(self) -> dict[str, Value]:
        text = self.text()[1:-1]
        every: dict[str, Value] = {
            "n": self.random.randint(-3, 3),
            "x": self.random.choice([-1.5, 0.5, 2.0]),
            "s": text,
            "t": self.text()[1:-1] + text,
            "p": self.random.random() < 0.5,
            "q": self.random.random() < 0.5,
        }
        return {name: value for name, value in every.items() if self.random.random() < 0.8}


def test_generated_conditions(artemis: list[str]) -> None:
    maker = Maker(7)
    rows = [(maker.condition(3), maker.values()) for _ in range(3000)]
    answers = ask(artemis, rows)
    assert {"TRUE", "FALSE"} == set(answers)
    wrong = [
        (text, values, answer)
        for (text, values), answer in zip(rows, answers, strict=True)
        if ours(text, values) != answer
    ]
    assert wrong == []

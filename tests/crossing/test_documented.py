"""docs/crossing.md agrees with the code."""

import re
from pathlib import Path

import pytest
from hypothesis import find, settings

from gateway.adapters.commands.content import MORE
from gateway.adapters.methods import types as fields
from gateway.adapters.methods.content import BASIC, IN_HEADERS, read_header
from gateway.adapters.methods.contents.dialect import FILE_NAME, STAMP
from gateway.adapters.performatives.content import SECTIONS
from gateway.crossing.bodies import TYPES
from gateway.crossing.capsule import LARGEST
from gateway.crossing.crossing import Fidelity
from gateway.crossing.forms import CARRIERS
from gateway.crossing.natural import APPLICATION
from gateway.message import Properties
from tests.adapters.performatives.amqp_values import BY_TYPE
from tests.crossing.messages import to_basic

TEXT = (Path(__file__).parents[2] / "docs" / "crossing.md").read_text()


def rows(heading: str) -> list[list[str]]:
    """The cells of the first table under a heading."""
    lines = TEXT.split(f"## {heading}\n")[1].split("\n## ")[0].splitlines()
    found = [line for line in lines if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in found[2:]]


def test_every_carrier_is_named() -> None:
    named = [header for header, _ in IN_HEADERS] + [APPLICATION]
    spelt = TEXT.replace("`-", "`x-amqp10-")
    unused = {"x-amqp10-delivery-annotations", "x-amqp10-user-id", "x-amqp10-reply-to"}
    unused |= {"x-amqp10-group-id", "x-amqp10-group-sequence"}
    assert [name for name in named if f"`{name}`" not in spelt and name not in unused] == []
    assert all(f"`{one}`" in TEXT for one in Fidelity)
    assert all(each in TEXT for each in (*CARRIERS, MORE, FILE_NAME, STAMP))
    assert all(one in TEXT for one in TYPES.values()) and str(LARGEST) in TEXT


TAGS = {
    name: set(re.findall(r"`(\w)`", cells[1]))
    for cells in rows("Types")
    for name in re.split(r", | or ", cells[0])
}


@pytest.mark.parametrize("name", sorted(BY_TYPE))
def test_types_have_the_tags_that_are_told(name: str) -> None:
    value = find(BY_TYPE[name], lambda _: True, settings=settings(max_examples=5))
    header, _ = to_basic(SECTIONS.write(Properties(application={"k": value})), b"")
    table = read_header(header).headers or b""
    assert chr(table[2]) in TAGS[name], TAGS[name]
    assert fields.read_table(table) and BASIC.read(header)

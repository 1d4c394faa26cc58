"""The examples of docs/shovels.md are settings that a gateway takes."""

import re
from pathlib import Path

import pytest

from gateway.bridge.address_inventory import compiled
from gateway.config import read_settings
from gateway.config.addresses import read_address_rules
from tests.test_floors import ROOT

UPSTREAMS = """
[[upstreams]]
name = "old"
addresses = ["amqp://127.0.0.1"]
"""
WRITTEN = (ROOT.parent / "docs" / "shovels.md").read_text()
EXAMPLES = re.findall(r"^```toml\n(.*?)^```", WRITTEN, re.M | re.S)
RULES = re.findall(r"^```toml address rules\n(.*?)^```", WRITTEN, re.M | re.S)


@pytest.mark.parametrize("example", EXAMPLES)
def test_examples_are_good(tmp_path: Path, example: str) -> None:
    file = tmp_path / "gateway.toml"
    file.write_text(UPSTREAMS + example)
    assert read_settings(file).shovels


@pytest.mark.parametrize("example", RULES)
def test_examples_of_address_rules_are_unambiguous(tmp_path: Path, example: str) -> None:
    file = tmp_path / "rules.toml"
    file.write_text(example)
    assert compiled(read_address_rules(file)).check() == []


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 2
    assert RULES

"""The examples of docs/shovels.md are settings that a gateway takes."""

import re
from pathlib import Path

import pytest

from gateway.config import read_settings
from tests.test_floors import ROOT

UPSTREAMS = """
[[upstreams]]
name = "old"
addresses = ["amqp://127.0.0.1"]
"""
EXAMPLES = re.findall(
    r"^```toml\n(.*?)^```", (ROOT.parent / "docs" / "shovels.md").read_text(), re.M | re.S
)


@pytest.mark.parametrize("example", EXAMPLES)
def test_examples_are_good(tmp_path: Path, example: str) -> None:
    file = tmp_path / "gateway.toml"
    file.write_text(UPSTREAMS + example)
    assert read_settings(file).shovels


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 2

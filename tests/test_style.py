"""ruff and mypy have nothing to say; the same commands run before each commit."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def hooks() -> dict[str, list[str]]:
    """Each hook of the pre-commit configuration, and the arguments that it gives to Python."""
    text = (ROOT / ".pre-commit-config.yaml").read_text()
    found = re.findall(r"^ +- id: (\S+)\n(?: +name: .*\n)? +entry: python -m (.+)$", text, re.M)
    return {name: command.split() for name, command in found}


def test_the_hooks_are_these() -> None:
    assert list(hooks()) == ["lint", "format", "types"]


@pytest.mark.slow  # and so begun first: mypy without a cache takes more than a minute
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", ["lint", "format", "types"])
def test_clean(name: str) -> None:
    command = hooks()[name]
    if importlib.util.find_spec(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed: pip install -e '.[test]'")
    done = subprocess.run(
        [sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True, timeout=580
    )
    assert done.returncode == 0, done.stdout + done.stderr

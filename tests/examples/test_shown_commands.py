"""Every ``amqp-gateway`` command in a block of a page is one that the program would take: commands,
options and the number of arguments; and every block of settings is one that a gateway takes. What
they do is tested elsewhere."""

from __future__ import annotations

import contextlib
import re
import shlex
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.main import get_command

from gateway.__main__ import cli
from gateway.config import read_settings
from tests.interop.servers import ROOT

FENCED = re.compile(r"^ *```([^\n`]*)\n(.*?)^ *```$", re.DOTALL | re.MULTILINE)
SHELLS = ("sh", "console", "text", "")
PROGRAM = "amqp-gateway"
ENDS = {"&&", "||", "|", ";", "&", ">", "<", "2>", ">>"}
BEFORE = {*ENDS, "$", "exec", "--"}
"""Words behind which a command begins."""
ALL = (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md")))


def pasted(text: str) -> list[str]:
    """The blocks of a page that are for a terminal."""
    return [block for language, block in FENCED.findall(text) if language in SHELLS]


PAGES = [page for page in ALL if PROGRAM in "".join(pasted(page.read_text()))]


def lines(block: str) -> Iterator[list[str]]:
    """The words of each line; one that ends within quotes goes on in the next."""
    text = ""
    for line in block.replace("\\\n", " ").splitlines():
        text += line
        try:
            yield shlex.split(text, comments=True)
        except ValueError:
            text += "\n"
        else:
            text = ""
    assert text == "", block


def commands(text: str) -> list[list[str]]:
    """Words behind the name of the program, as far as the command goes."""
    found = []
    for words in (words for block in pasted(text) for words in lines(block)):
        begins = True
        for at, word in enumerate(words):
            if begins and Path(word).name == PROGRAM:
                rest = words[at + 1 :]
                found.append([*takewhile(lambda one: one not in ENDS, rest)])
            begins = word in BEFORE or bool(begins and re.match(r"\w+=", word))
    return found


def take(words: list[str]) -> None:
    """Raise an error if the program would not know these."""
    command: Any = get_command(cli)
    context = command.context_class(command, info_name=PROGRAM)
    while hasattr(command, "commands") and words and not words[0].startswith("-"):
        name, command, words = command.resolve_command(context, words)
        more = command.context_settings
        context = command.context_class(command, info_name=name, parent=context, **more)
    with contextlib.suppress(typer.Exit):  # --version has done its work then
        command.parse_args(context, list(words))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_are_taken(page: Path) -> None:
    for words in commands(page.read_text()):
        take(words)


@pytest.mark.parametrize("words", [["nothing"], ["check"], ["serve", "--nothing"], ["user", "x"]])
def test_others_are_not(words: list[str]) -> None:
    with pytest.raises(Exception, match="(?i)no such|missing"):
        take(words)


ELSEWHERE = ("shovels.md",)
"""Pages whose settings have a test of their own."""


def test_settings_are_taken(tmp_path: Path) -> None:
    file = tmp_path / "gateway.toml"
    tried = 0
    for page in (page for page in ALL if page.name not in ELSEWHERE):
        for language, text in FENCED.findall(page.read_text()):
            if language in ("toml", f"toml {file.name}"):
                file.write_text(text)
                read_settings(file)
                tried += 1
    assert tried > 5


def test_the_words_of_commands() -> None:
    page = """```sh
A='[{}]' .venv/bin/amqp-gateway serve && amqp-gateway publish a '{
  "b": 1}' > file
python3 -m venv /opt/amqp-gateway  # amqp-gateway
```"""
    assert commands(page) == [["serve"], ["publish", "a", '{\n  "b": 1}']]

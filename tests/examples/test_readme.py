"""What the first page and the table of commands name is there. test_guides.py runs commands."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from gateway.__main__ import cli
from tests.interop.servers import ROOT

README = (ROOT / "README.md").read_text()
LONGEST = 150
GUIDES = {
    "publish-over-http", "follow-in-a-browser", "old-and-new-clients", "facade", "migrate",
    "pipeline", "operations", "compare",
}  # fmt: skip


def test_the_first_page_is_short() -> None:
    assert len(README.splitlines()) <= LONGEST


def test_the_table_of_wishes_leads_to_one_guide_each() -> None:
    table = README.partition("## I have this, I want that\n")[2].partition("\n## ")[0]
    rows = [row for row in table.splitlines() if row.startswith("| ")][1:]
    guides = [re.findall(r"\]\(docs/([\w-]+)\.md\)", row) for row in rows]
    assert [len(found) for found in guides] == [1] * len(rows)
    assert {found[0] for found in guides} == GUIDES


PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text())
    assert [one for one in links if "://" not in one and not (page.parent / one).exists()] == []


def test_every_command_is_in_the_table() -> None:
    guide = (ROOT / "docs" / "cli.md").read_text()
    table = guide.partition("## All commands\n")[2].partition("\n## ")[0]
    cells = [row.split(" | ")[0] for row in table.splitlines() if row.startswith("| `")]
    shown = {name for cell in cells for name in re.findall(r"`(?:amqp-gateway )?([a-z]+)", cell)}
    program: Any = get_command(cli)
    assert shown == set(program.list_commands(None))
    for group, name in re.findall(r"`(?:amqp-gateway )?([a-z]+) ([a-z]+)\b", "".join(cells)):
        if members := getattr(program.get_command(None, group), "commands", None):
            assert name in members, (group, name)

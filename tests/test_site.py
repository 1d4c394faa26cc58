"""The pages as a site: all are in it, links lead somewhere, nothing is loaded from other hosts."""

import importlib.util
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = {path.name for path in (ROOT / "docs").glob("*.md")}
SETTINGS = (ROOT / "mkdocs.yml").read_text()
LOADS = {"script": "src", "img": "src", "iframe": "src", "source": "src", "object": "data"}
"""Elements that make a browser load something, and the attribute with its address. ``link`` may."""
LINKS = {"canonical", "next", "prev", "alternate"}
"""Relations of ``link`` that load nothing."""


def test_every_page_is_in_the_navigation() -> None:
    navigation = re.findall(r"([\w-]+\.md)$", SETTINGS.partition("\nnav:\n")[2], re.MULTILINE)
    assert len(navigation) == len(set(navigation))
    assert set(navigation) >= PAGES


def test_every_page_is_in_the_list() -> None:
    listed = re.findall(r"^\| \[[^]]+\]\(([\w-]+\.md)\)", read("README.md"), re.MULTILINE)
    assert len(listed) == len(set(listed))
    assert set(listed) == PAGES - {"README.md"}


def test_figures_of_the_comparison_are_those_of_the_benchmarks() -> None:
    table = read("compare.md").partition("## Throughput\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (.+?) \| (.+?) \| ([\d.]+) \|$", table, re.MULTILINE)
    assert len(rows) > 10
    measured = read("benchmarks.md").splitlines()
    for row, peer, ratio in rows:
        peer = peer.partition(",")[0]
        found = [line for line in measured if line.startswith(f"| {row} |")]
        # A table whose rows name no peer has it in its head.
        found = [line for line in found if peer in line] or found
        assert found, f"no row {row} in benchmarks.md"
        assert any(f" {ratio} (" in line for line in found), (row, peer, ratio)


def test_figures_of_the_benchmarks_are_those_of_the_table_of_all_rows() -> None:
    """Those whose tables have the same columns: label, our figure, the peer's, and the ratio."""
    all_rows = rows_in(read("benchmark-table.md"))
    labels = {row[0] for row in all_rows}
    compared = 0
    for section, text in sections("benchmarks.md").items():
        for label, *figures in rows_in(text):
            whole = label if ": " in label else f"throughput {section.split()[-1]}: {label}"
            if whole in labels:
                assert [whole, *figures[:3]] in [row[:4] for row in all_rows], label
                compared += 1
    assert compared > 150


def sections(name: str) -> dict[str, str]:
    """The text below each heading of the third level."""
    parts = re.split(r"^### (.+)$", read(name), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def rows_in(text: str) -> list[list[str]]:
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def read(name: str) -> str:
    return (ROOT / "docs" / name).read_text()


class Loaded(HTMLParser):
    """Addresses that a browser loads with a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag == "link" and not LINKS & set(given.get("rel", "").split()):
            self.found.append(given.get("href", ""))
        elif tag in LOADS and LOADS[tag] in given:
            self.found.append(given[LOADS[tag]])
        # A script that the theme fetches from elsewhere once a page has a diagram.
        assert "mermaid" not in given.get("class", "").split()


@pytest.mark.extras
def test_the_site(tmp_path: Path) -> None:
    if any(importlib.util.find_spec(name) is None for name in ("mkdocs", "material")):
        pytest.skip("mkdocs-material is not installed: pip install '.[docs]'")
    site = tmp_path / "site"
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(site)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=110)
    assert done.returncode == 0, done.stdout + done.stderr
    built = {path.name for path in site.glob("*.html")}
    expected = {name.replace(".md", ".html") for name in PAGES - {"README.md"}}
    assert {*expected, "index.html", "start.html", "DESIGN.html"} <= built
    for path in site.rglob("*.html"):
        foreign = [one for one in Loaded(path.read_text()).found if re.match(r"(\w+:)?//", one)]
        assert foreign == [], path.name
    for path in site.rglob("*.css"):
        style = path.read_text()
        assert re.findall(r"(?:url\(|@import)\s*['\"]?((?:https?:)?//[^'\")]+)", style) == [], path

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

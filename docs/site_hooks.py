"""What mkdocs needs beside ``docs/``: pages and examples of the project, and their links."""

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parent.parent
FIRST = "start.md"
"""The README of the project; that of ``docs/`` is the site's first page."""
PAGES = {
    "README.md": FIRST,
    "DESIGN.md": "DESIGN.md",
    "CONTRIBUTING.md": "CONTRIBUTING.md",
    "SECURITY.md": "SECURITY.md",
    "CHANGELOG.md": "CHANGELOG.md",
}
"""Pages of the project's folder, and their names in the site."""


def on_files(files: Files, config: Any) -> Files:
    for name, shown in PAGES.items():
        files.append(File.generated(config, shown, content=(ROOT / name).read_text()))
    examples = (path for path in (ROOT / "examples").rglob("*") if "__pycache__" not in path.parts)
    for path in (*examples, ROOT / "LICENSE"):
        if path.is_file():
            name = path.relative_to(ROOT).as_posix()
            files.append(File.generated(config, name, abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    if page.file.src_uri in PAGES.values():
        markdown = re.sub(r"\]\(README\.md\b", f"]({FIRST}", markdown)
        markdown = markdown.replace("](docs/", "](")
    else:
        markdown = re.sub(r"\]\(\.\./README\.md\b", f"]({FIRST}", markdown)
        markdown = markdown.replace("](../", "](")
    # A file's name behind the language of a block is its title.
    return re.sub(r"^```(\w+) ([\w. -]+)$", r'```\1 title="\2"', markdown, flags=re.MULTILINE)

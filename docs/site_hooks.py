"""Pages and files of the project, outside of ``docs``, that its pages link to."""

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files, InclusionLevel

ROOT = Path(__file__).parent.parent
FIRST = "start.md"
"""The README of the project, in the site; that of ``docs/`` is the site's own first page."""
LINK = re.compile(r"\]\((?P<target>[\w./-]+)(?P<anchor>#[\w-]*)?\)")
NAMED = re.compile(r"^```(\w+) ([\w. -]+)$", re.MULTILINE)
"""The head of a block of code with a language and a file's name."""


def in_site(path: str) -> str:
    """Where a file of the project is in the site."""
    return FIRST if path == "README.md" else path.removeprefix("docs/")


def linked(text: str, path: str) -> Iterator[tuple[re.Match[str], str]]:
    """Links of a page to files of the project, with the file's path in it."""
    for link in LINK.finditer(text):
        target = posixpath.normpath(posixpath.join(posixpath.dirname(path), link["target"]))
        if (ROOT / target).is_file():
            yield link, target


def on_files(files: Files, config: Any) -> Files:
    own = {f"docs/{file.src_uri}" for file in files}
    unread = [path for path in own if path.endswith(".md")]
    found: set[str] = set()
    while unread:
        path = unread.pop()
        targets = {target for _, target in linked((ROOT / path).read_text(), path)}
        more = targets - own - found
        found |= more
        unread += [target for target in more if target.endswith(".md")]
    for path in sorted(found):
        added = File.generated(
            config,
            in_site(path),
            abs_src_path=str(ROOT / path),
            inclusion=InclusionLevel.NOT_IN_NAV,
        )
        added.project_path = path  # type: ignore[attr-defined]
        files.append(added)
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    path = getattr(page.file, "project_path", f"docs/{page.file.src_uri}")
    folder = posixpath.dirname(page.file.src_uri) or "."
    for link, target in reversed([*linked(markdown, path)]):
        shown = posixpath.relpath(in_site(target), folder)
        changed = f"]({shown}{link['anchor'] or ''})"
        markdown = markdown[: link.start()] + changed + markdown[link.end() :]
    # mkdocs calls the name a title.
    return NAMED.sub(r'```\1 title="\2"', markdown)

"""The npm package of the JavaScript client: its metadata, and that there is one copy."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from gateway import __version__
from gateway.http.problems import ALL_ROWS, BY_STATUS
from tests.http import client_types

HTTP = Path(__file__).parents[2] / "gateway" / "http"
PACKAGE = HTTP / "client"
IMPORTED = re.compile(r'(?:from|import)\s+"([^"]+)"')


def test_it_has_the_version_and_the_files_it_names() -> None:
    told = json.loads((PACKAGE / "package.json").read_text())
    assert told["version"] == __version__
    assert "dependencies" not in told and "scripts" not in told
    named = [told["main"], told["types"]]
    named += [path for entry in told["exports"].values() for path in entry.values()]
    assert [path for path in named if not (PACKAGE / path).is_file()] == []
    for module in PACKAGE.glob("*.js"):
        assert module.with_suffix(".d.ts").is_file(), module


def test_its_kinds_of_problems_are_those_of_the_gateway() -> None:
    rows = [*ALL_ROWS, *BY_STATUS.values()]
    union = (PACKAGE / "problems.js").read_text().partition("ProblemKind")[0]
    assert set(re.findall(r'"([a-z-]+)"', union)) == {row.kind for row in rows}


def test_its_answers_are_those_of_the_description() -> None:
    assert (PACKAGE / "answers.js").read_text() == client_types.module(), (
        "run: python -m tests.http.client_types > gateway/http/client/answers.js"
    )


def test_the_console_has_no_copy_of_it() -> None:
    """It asks through the package alone, and imports nothing but files that are served."""
    asking = re.compile(r"(?<![.\w])fetch\(|new EventSource|XMLHttpRequest")
    found = {path.name for path in (HTTP / "console").glob("*.js") if asking.search(read(path))}
    assert found == {"session.js"}  # to make the browser forget a password
    for path in [*(HTTP / "console").glob("*.js"), *PACKAGE.glob("*.js")]:
        for name in IMPORTED.findall(read(path)):
            assert (path.parent / name).is_file(), f"{path.name}: {name}"
    assert "../client/index.js" in IMPORTED.findall(read(HTTP / "console" / "api.js"))


def read(path: Path) -> str:
    """The code of a module, without comments."""
    return re.sub(r"/\*\*[\s\S]*?\*/|^\s*//.*$", "", path.read_text(), flags=re.MULTILINE)


async def test_its_modules_are_served_to_any_page(rig: Any) -> None:
    async with rig.http(None) as http:
        for path in PACKAGE.glob("*.js"):
            answer = await http.get(f"/client/{path.name}")
            assert answer.status_code == 200 and answer.content == path.read_bytes()
            assert answer.headers["content-type"].startswith("text/javascript")
            assert answer.headers["access-control-allow-origin"] == "*"
        for name in ("package.json", "served.py", "index.d.ts", "..%2Fconsole.py"):
            assert (await http.get(f"/client/{name}")).status_code == 404


def test_its_readme_is_short_and_names_what_there_is() -> None:
    text = (PACKAGE / "README.md").read_text()
    assert len(text.splitlines()) <= 45
    called = set(re.findall(r"gateway\.(\w+)\(", text))
    assert called >= {
        "publish",
        "publishBatch",
        "receive",
        "settle",
        "declareQueue",
        "follow",
        "request",
    }
    source = (PACKAGE / "gateway.js").read_text()
    for name in called:
        assert re.search(rf"^  (async )?{name}\(", source, re.MULTILINE), name

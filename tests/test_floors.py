"""A file may import modules below its floor: never beside it, never above (DESIGN.md, floors)."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent / "gateway"

FLOOR = {
    "__init__": 0, "errors": 0, "values": 0, "bodies": 0, "limits": 0,
    "strict_json": 0, "similar_names": 0,
    "message": 1, "partial_bodies": 1,
    "operations": 2, "selector": 2,
    "adapters": 3, "broker": 3, "store": 3,
    "sessions": 4, "config": 4, "inspect": 4, "crossing": 4, "importing": 4,
    "net": 5, "definitions": 5, "event_loop": 5,
    "bridge": 6, "inventory": 6, "definition_differences": 6,
    "bench": 6,
    "journal": 7,
    "http": 8, "archive": 8, "backup": 8,
    "reloading": 9, "administration": 9, "command_options": 9,
    "app": 10,
    "migration_commands": 10, "journal_commands": 10, "topology_commands": 10,
    "gateway_client": 10, "bench_command": 10, "backup_commands": 10,
    "inspect_command": 10,
    "message_commands": 11, "status_commands": 11,
    "commands": 12,
    "__main__": 13,
}  # fmt: skip

EXCEPTIONS = {
    # The store implements a port that the broker defines, and nothing else of the broker.
    ("store", "gateway.broker.store"),
}

PURE = (
    "errors", "values", "bodies", "limits", "message", "partial_bodies", "strict_json",
    "similar_names",
    "operations", "selector", "adapters", "broker", "store", "crossing", "importing",
)  # fmt: skip
IMPURE_MODULES = {"asyncio", "socket", "ssl", "threading", "time", "fastapi", "pydantic", "logging"}


def imported(path: Path) -> Iterator[str]:
    """Every module name imported anywhere in a file; ``from gateway import x`` gives gateway.x."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            module = node.module or ""
            if module == "gateway":
                yield from (f"gateway.{alias.name}" for alias in node.names)
            else:
                yield module


def room(path: Path) -> str:
    return path.relative_to(ROOT).with_suffix("").parts[0]


def breaches(root: Path) -> Iterator[str]:
    for path in sorted(root.rglob("*.py")):
        here = path.relative_to(root).with_suffix("").parts[0]
        for name in imported(path):
            parts = name.split(".")
            if parts[0] == "specs":
                yield f"{path}: nothing under gateway may import specs"
            if parts[0] != "gateway" or len(parts) == 1 or (here, name) in EXCEPTIONS:
                continue
            there = parts[1]
            if there == "__version__":
                continue
            if there != here and FLOOR[there] >= FLOOR[here]:
                yield f"{path}: {here} may not import {name}"


def test_imports_go_down() -> None:
    assert list(breaches(ROOT)) == []


def test_the_gateway_knows_no_spark() -> None:
    """It starts no Java, and needs nothing of it. Arrow is where segments are. One command hands
    its arguments to the jobs."""
    found = {
        (path.relative_to(ROOT).as_posix(), name.split(".")[0])
        for path in sorted(ROOT.rglob("*.py"))
        for name in imported(path)
        if name.split(".")[0] in ("pyspark", "pyspark_amqp", "numpy", "pandas", "pyarrow")
    }
    assert found == {
        ("archive/batches.py", "pyarrow"),
        ("archive/reading.py", "pyarrow"),
        ("archive/writing.py", "pyarrow"),
        ("journal/columns.py", "pyarrow"),
        ("journal/rewriting.py", "pyarrow"),
        ("journal/segments.py", "pyarrow"),
        ("commands.py", "pyspark_amqp"),
    }


def test_a_breach_is_seen(tmp_path: Path) -> None:
    (tmp_path / "broker").mkdir()
    (tmp_path / "broker" / "bad.py").write_text("from gateway.adapters import sniff\n")
    assert len(list(breaches(tmp_path))) == 1


def test_lower_floors_have_no_clock_socket_or_framework() -> None:
    found = [
        f"{path}: {name}"
        for path in sorted(ROOT.rglob("*.py"))
        if room(path) in PURE
        for name in imported(path)
        if name.split(".")[0] in IMPURE_MODULES
    ]
    assert found == []


def rooms_both_ways(root: Path) -> list[tuple[str, str]]:
    """Folders of a floor that import each other."""
    folders = {path.name for path in root.iterdir() if (path / "__init__.py").exists()}
    prefix = ("gateway", root.name)
    edges = {
        (path.relative_to(root).parts[0], name.split(".")[2])
        for path in root.rglob("*.py")
        for name in imported(path)
        if tuple(name.split(".")[:2]) == prefix and name.count(".") > 1
    }
    return sorted(
        (here, there)
        for here, there in edges
        if here < there and {here, there} <= folders and (there, here) in edges
    )


def test_rooms_of_http_do_not_import_each_other_both_ways() -> None:
    assert rooms_both_ways(ROOT / "http") == []


INSIDE_A_CONNECTION = (
    "gateway.broker.channel", "gateway.broker.client", "gateway.broker.confirms",
    "gateway.broker.permissions", "gateway.broker.publish_path", "gateway.broker.settlements",
    "gateway.broker.topology_requests", "gateway.broker.transactions", "gateway.broker.coordinator",
)  # fmt: skip
"""What HTTP uses through ``gateway.broker.local`` only."""
MADE_BY_A_CLIENT = {
    "DeclareQueue", "DeclareExchange", "DeleteQueue", "DeleteExchange", "PurgeQueue", "Bind",
    "Unbind",
}  # fmt: skip
PARTS_OF_A_CHANNEL = {
    "permissions", "publish_path", "writable", "confirms", "window", "topology", "transactions",
}  # fmt: skip


def bypasses(root: Path) -> Iterator[str]:
    """Places where HTTP reaches into connections and channels of the broker."""
    for path in sorted(root.rglob("*.py")):
        tree = ast.parse(path.read_text())
        for name in imported(path):
            if name in INSIDE_A_CONNECTION:
                yield f"{path}: imports {name}"
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module == "gateway.operations":
                for alias in node.names:
                    if alias.name in MADE_BY_A_CLIENT:
                        yield f"{path}: makes the operation {alias.name}"
            elif isinstance(node, ast.Attribute):
                holder = node.value
                held = holder.attr if isinstance(holder, ast.Attribute) else None
                held = holder.id if isinstance(holder, ast.Name) else held
                if node.attr == "attach" and held == "broker":
                    yield f"{path}: attaches by itself"
                if node.attr in PARTS_OF_A_CHANNEL and held in ("channel", "_channel"):
                    yield f"{path}: uses channel.{node.attr}"
                if node.attr in ("publish_path", "writable", "runs"):
                    yield f"{path}: uses {node.attr}"


def test_http_uses_the_local_client_of_the_broker() -> None:
    assert sorted(set(bypasses(ROOT / "http"))) == []


def test_a_bypass_is_seen(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text(
        "from gateway.broker.client import Client\n"
        "from gateway.operations import DeclareQueue\n"
        "client = broker.attach('/', 'guest', 'me')\n"
        "channel.permissions.grant('read', 'q')\n"
        "refused = channel.publish_path.confirms.runs[-1].accepted\n"
    )
    assert len(set(bypasses(tmp_path))) == 7


def test_every_package_has_a_sentence() -> None:
    silent = [
        str(path)
        for path in sorted(ROOT.rglob("*.py"))
        if path.read_text().strip() and ast.get_docstring(ast.parse(path.read_text())) is None
    ]
    assert silent == []


def test_hand_written_files_read_in_one_sitting() -> None:
    long = [
        f"{path}: {len(path.read_text().splitlines())} lines"
        for path in sorted(ROOT.rglob("*.py"))
        if "wire" not in path.parts and len(path.read_text().splitlines()) > 600
    ]
    assert long == []


def test_no_group_is_possessive_or_atomic() -> None:
    """Python 3.11.0 to 3.11.4, which Debian 12 has, match them wrongly if an iteration fails in its
    middle: ``re.match("(?:ab?c)*+", "acab")`` ends behind the second "a". Those of one character or
    one set of characters are right."""
    wrong = re.compile(r"(?<!\\)\)(?:[*+?]|\{[0-9,]+\})\+|\(\?>")
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in sorted(ROOT.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str | bytes)
        and wrong.search(
            node.value.decode("latin-1") if isinstance(node.value, bytes) else node.value
        )
    ]
    assert found == []

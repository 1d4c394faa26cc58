"""One object is one class, and files do not need each other in a circle.

The two tables name what is not so yet, with the reason. They only shrink: a row that no longer
holds fails like one that is missing.
"""

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

from tests.conftest import LONGEST
from tests.test_floors import ROOT

TODO = "to be taken apart in the refactoring"

SLICED = {
    # base class: (its only subclass, the reason)
    "broker.dispatcher.Dispatcher": (
        "broker.feed_queue.FeedDispatcher",
        "a dispatcher that passes the credit of its consumer on is a kind of dispatcher",
    ),
    "broker.topology_requests.TopologyRequests": (
        "broker.facade_topology.FacadeTopology",
        "the same requests, answered by an upstream",
    ),
    "broker.vhost.VirtualHost": (
        "broker.facade.FacadeVirtualHost",
        "a virtual host whose queues live elsewhere is a kind of virtual host",
    ),
    "broker.exchanges.HeadersExchange": (
        "broker.exchange_types.MatcherExchange",
        "the matcher of 0-9a6 is a headers exchange with another condition",
    ),
    "http.publish.publisher.PendingPublish": (
        "http.publish.idempotency.KeyedPublish",
        "a publish with a key is a kind of publish",
    ),
}

TANGLED: dict[str, tuple[str, str]] = {}
"""By folder: the files in it that stand in a circle, and the reason."""


class Code:
    """Files, and the meaning of names in each."""

    def __init__(self, root: Path) -> None:
        self.trees = {
            ".".join(path.relative_to(root).with_suffix("").parts): ast.parse(path.read_text())
            for path in sorted(root.rglob("*.py"))
            if "wire" not in path.parts  # which is generated
        }
        """By name below ``gateway``; a package is ``folder.__init__``."""
        self.names = {name: dict(self._imports(tree)) for name, tree in self.trees.items()}
        """Imported names of each file: the other file, and the name there or ""."""
        self.classes = {
            (file, node.name): node
            for file, tree in self.trees.items()
            for node in ast.walk(tree)
            if isinstance(node, ast.ClassDef)
        }

    def _file(self, module: str) -> str | None:
        name = module.removeprefix("gateway").removeprefix(".")
        package = f"{name}.__init__".removeprefix(".")
        return next((found for found in (name, package) if found in self.trees), None)

    def _imports(self, tree: ast.Module) -> Iterator[tuple[str, tuple[str, str]]]:
        """Wherever they stand: under ``TYPE_CHECKING`` and in functions too."""
        for node in ast.walk(tree):
            if not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith(
                "gateway"
            ):
                continue
            for alias in node.names:
                if alias.name == "*":
                    file = self._file(node.module or "")
                    for found in self.trees[file].body if file else ():
                        if isinstance(found, ast.ClassDef):
                            yield found.name, (file or "", found.name)
                elif file := self._file(f"{node.module}.{alias.name}"):
                    yield alias.asname or alias.name, (file, "")
                elif file := self._file(node.module or ""):
                    yield alias.asname or alias.name, (file, alias.name)

    def needs(self) -> dict[str, set[str]]:
        """The files that each file imports something of."""
        return {
            file: {other for other, _ in names.values() if other != file}
            for file, names in self.names.items()
        }

    def meant(self, file: str, base: ast.expr) -> tuple[str, str] | None:
        """The class of ours that an expression in a file stands for."""
        if isinstance(base, ast.Subscript):
            base = base.value
        if isinstance(base, ast.Attribute) and isinstance(base.value, ast.Name):
            other, _ = self.names[file].get(base.value.id, ("", ""))
            return self.meant(other, ast.Name(base.attr)) if other else None
        if not isinstance(base, ast.Name):
            return None
        if (file, base.id) in self.classes:
            return file, base.id
        other, name = self.names[file].get(base.id, ("", ""))
        return self.meant(other, ast.Name(name)) if name else None

    def sliced(self) -> dict[str, str]:
        """Base classes with one subclass, which is in another file; and that subclass.

        Protocols are none: they say what a part needs of another and hold nothing themselves.
        """
        subclasses: dict[tuple[str, str], set[tuple[str, str]]] = defaultdict(set)
        for (file, name), node in self.classes.items():
            for base in node.bases:
                found = self.meant(file, base)
                if found is not None and "Protocol" not in map(
                    ast.unparse, self.classes[found].bases
                ):
                    subclasses[found].add((file, name))
        return {
            ".".join(base): ".".join(only)
            for base, (only, *others) in subclasses.items()
            if not others and only[0] != base[0]
        }


def circles(needs: Mapping[str, set[str]]) -> set[str]:
    """The files that need themselves by way of others."""

    @cache
    def reached(file: str) -> frozenset[str]:
        found: set[str] = set()
        left = [file]
        while left:
            new = needs[left.pop()] - found
            found |= new
            left += new
        return frozenset(found)

    return {file for file in needs if file in reached(file)}


@pytest.fixture(scope="module")
def code() -> Code:
    return Code(ROOT)


def test_no_object_is_cut_into_base_classes(code: Code) -> None:
    found = code.sliced()
    allowed = {base: only for base, (only, _) in SLICED.items()}
    new, gone = found.items() - allowed.items(), allowed.items() - found.items()
    assert not new, f"compose it, or give the reason in SLICED: {sorted(new)}"
    assert not gone, f"no longer so: take it out of SLICED: {sorted(gone)}"


def test_files_do_not_need_each_other_in_a_circle(code: Code) -> None:
    found = circles(code.needs())
    allowed = {f"{place}.{file}" for place, (files, _) in TANGLED.items() for file in files.split()}
    new, gone = found - allowed, allowed - found
    assert not new, f"take the circle apart, or give the reason in TANGLED: {sorted(new)}"
    assert not gone, f"no longer so: take it out of TANGLED: {sorted(gone)}"


def test_every_exception_has_a_reason() -> None:
    assert all(reason for _, reason in (*SLICED.values(), *TANGLED.values()))


def test_files_that_are_run_first_are_there() -> None:
    assert [name for name in LONGEST if not (ROOT.parent / "tests" / name).exists()] == []


def test_a_breach_is_seen(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text(
        "from typing import TYPE_CHECKING\n"
        "if TYPE_CHECKING:\n    from gateway.two import Two\n"
        "class Base:\n    two: 'Two'\n"
    )
    (tmp_path / "two.py").write_text("from gateway import one\nclass Two(one.Base): pass\n")
    (tmp_path / "three.py").write_text("from gateway.two import Two\n")
    code = Code(tmp_path)
    assert code.sliced() == {"one.Base": "two.Two"}
    assert circles(code.needs()) == {"one", "two"}

"""Every feature that a decoder records has a row in the table, and every row is recorded."""

import ast
from collections.abc import Iterator
from pathlib import Path

from gateway import inventory
from gateway.adapters.registry import VERSIONS
from gateway.inventory.contents import HEADER_FEATURES, TYPE_FEATURES
from gateway.inventory.knowledge import SEVERITIES, TARGETS, knowledge

FOLDER = Path(inventory.__file__).parent
TABLES = {
    "QUEUE_ARGUMENTS", "CONSUMER_ARGUMENTS", "METHOD_FEATURES", "CLASS_FEATURES", "FEATURES",
    "TYPE_FEATURES", "HEADER_FEATURES", "ANNOTATIONS",
}  # fmt: skip
"""Dictionaries whose values are features."""
PAIRS = {"ADDRESSES", "FILTERS"}
"""Tuples of pairs whose second one is a feature."""
FLAGS = {"flags", "others"}
"""Dictionaries in functions whose keys are features that are used if their value is true."""
DERIVED = {
    *(f"version-{name}" for name in (*VERSIONS, "tls", "http", "unknown")),
    *(f"sasl-{name}" for name in ("amqplain", "anonymous", "external", "cram-md5", "gssapi")),
    "exclusive-queue", "auto-delete-queue", "file-class", "stream-class", "undecoded",
    "direct-reply-to", "reply-to-url", "reply-to", "expiration", "priority", "content-encoding",
    "quorum-or-stream-queue", "ring-queue", "queue-overflow", "queue-argument-other",
    "dynamic-node", "anonymous-relay", "null-address", "consumer-argument-other", "filter-other",
}  # fmt: skip
"""Features whose names are put together, chosen by an expression, or made in a list."""


def texts(node: ast.AST) -> Iterator[str]:
    for one in ast.walk(node):
        if isinstance(one, ast.Constant) and isinstance(one.value, str) and one.value:
            yield one.value


def keys_or_values(node: ast.Assign | ast.AnnAssign) -> Iterator[str]:
    target = node.targets[0] if isinstance(node, ast.Assign) else node.target
    name = target.id if isinstance(target, ast.Name) else ""
    if isinstance(node.value, ast.Dict) and name in TABLES:
        for value in node.value.values:
            yield from texts(value)
    elif isinstance(node.value, ast.Tuple) and name in PAIRS:
        for pair in node.value.elts:
            assert isinstance(pair, ast.Tuple)
            yield from texts(pair.elts[1])


def flags(tree: ast.AST) -> Iterator[str]:
    """Keys of a dictionary that a loop goes over to call ``feature``, or that ``content_of`` is
    given."""
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg == "others":
            if isinstance(node.value, ast.Dict):
                for key in node.value.keys:
                    yield from texts(key) if key is not None else ()
        elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
            if isinstance(node.value, ast.Name) and node.value.id == "others":
                yield from texts(node.slice)
        elif isinstance(node, ast.FunctionDef):
            loops = [
                one
                for one in ast.walk(node)
                if isinstance(one, ast.For)
                and any(
                    isinstance(call, ast.Call)
                    and isinstance(call.func, ast.Attribute)
                    and call.func.attr == "feature"
                    and call.args
                    and isinstance(call.args[0], ast.Name)
                    and call.args[0].id in ("feature", "flag")
                    for call in ast.walk(one)
                )
            ]
            if loops:
                for one in ast.walk(node):
                    if isinstance(one, ast.Assign) and isinstance(one.value, ast.Dict):
                        for key in one.value.keys:
                            yield from texts(key) if key is not None else ()
                for loop in loops:
                    if isinstance(loop.iter, ast.Tuple):
                        for pair in loop.iter.elts:
                            if isinstance(pair, ast.Tuple):
                                yield from texts(pair.elts[0])


NOT_FEATURES = {"durable", "exclusive", "auto-delete"}
"""Keys of a dictionary of flags in a function that also goes over features."""


def recorded() -> set[str]:
    """All features in the code of the decoders."""
    found = set(DERIVED)
    for path in FOLDER.glob("*.py"):
        tree = ast.parse(path.read_text())
        for node in ast.walk(tree):
            if isinstance(node, ast.Assign | ast.AnnAssign):
                found.update(keys_or_values(node))
            elif (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr == "feature"
                and node.args
                and isinstance(node.args[0], ast.Constant)
            ):
                found.update(texts(node.args[0]))
        found.update(set(flags(tree)) - NOT_FEATURES)
    return found


def test_every_feature_has_a_row() -> None:
    assert recorded() - set(knowledge()) == set()


def test_every_row_is_recorded() -> None:
    assert set(knowledge()) - recorded() == set()


def test_the_scan_finds_them() -> None:
    """A scan that finds little would pass."""
    found = recorded() - DERIVED
    assert {"global-qos", "basic-get", "v1-address", "filter-selector", "user-id"} <= found
    assert set(TYPE_FEATURES.values()) | set(HEADER_FEATURES.values()) <= found
    assert len(found) > 90


def test_rows_are_whole() -> None:
    for name, row in knowledge().items():
        for target in TARGETS:
            advice = row.on(target)
            assert advice.severity in SEVERITIES, name
            assert advice.need in ("nothing", "gateway", "topology", "client"), name
            assert advice.text.strip() == advice.text and advice.text.endswith((".", "?")), name
            assert "\n" not in advice.text and "  " not in advice.text, name
            assert (advice.need == "nothing") <= (advice.severity == "none"), name

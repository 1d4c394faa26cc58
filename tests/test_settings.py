"""A setting is declared once: configuration, code and tests use the same model and default."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import BaseModel

from gateway.config import Settings
from gateway.config.amqp import AmqpSettings
from gateway.config.reload import taken_by
from gateway.config.section import Takes
from gateway.config.web import HttpSettings
from gateway.limits import MECHANISMS, Limits

ROOT = Path(__file__).parent.parent
DECLARING = ("config", "limits.py")
"""Where settings are declared, under ``gateway``. The layouts of frames are generated."""
APART = {
    "host": "of each listener",
    "port": "of each listener",
    "header_0_9": "of each AMQP listener",
    "header_0_10": "of each AMQP listener",
    "require_tls": "of each AMQP listener",
    "mechanisms": "of each AMQP listener",
    "anonymous_user": "of each AMQP listener",
    "max_connections": "of AMQP and of HTTP",
    "heartbeat_seconds": "of AMQP connections and of event streams",
    "max_body_octets": "of all requests and of one declared route",
    "spool_octets": "of a body before it waits in a file, and of all such files",
    "addresses_file": "of a shovel's destination and of a facade's successor",
    "quota": "of a caller and of a declared route",
    "seconds": "of sessions and of tickets",
    "idle_seconds": "of HTTP connections and of tickets",
    "key": "of TLS, of a declared route and of a shovel",
    "name": "of a declared route, of an upstream and of a shovel",
    "vhost": "of a declared route, and at both ends of a shovel",
    "queue": "of a declared route, and at both ends of a shovel",
    "exchange": "of a declared route and of a shovel",
    "upstream": "at both ends of a shovel",
    "user": "at an upstream, and of a shovel here",
    "octets": "of kept sessions, and per second of a shovel",
    "addresses": "of an upstream, and the rules of a shovel",
    "keep_seconds": "of the journal, and of some of its addresses",
    "keep_octets": "of the journal, and of some of its addresses",
}
"""Names that stand for different settings, in different tables of the file."""
LIMIT = re.compile(r"^max_|_max$|_(seconds|ms|octets|items|events|sources|warn)$")
"""What limits and periods are called; other names of settings are words of everyday."""


def models(model: type[BaseModel]) -> Iterator[type[BaseModel]]:
    """The model, its areas, and the tables in it."""
    for one in model.__mro__:
        if issubclass(one, BaseModel) and one.__module__.startswith("gateway.config"):
            yield one
    for field in model.model_fields.values():
        for kind in (field.annotation, *getattr(field.annotation, "__args__", ())):
            if isinstance(kind, type) and issubclass(kind, BaseModel):
                yield from models(kind)


def declared() -> dict[str, set[str]]:
    """The models that declare each field."""
    found: dict[str, set[str]] = {}
    for model in models(Settings):
        for name in model.__dict__.get("__annotations__", {}):
            if name != "model_config":
                found.setdefault(name, set()).add(model.__name__)
    return found


def test_no_field_is_declared_in_two_models() -> None:
    twice = {name: where for name, where in declared().items() if len(where) > 1}
    assert twice.keys() == APART.keys(), twice


def defaults(tree: ast.AST) -> Iterator[str]:
    """Names with a default of their own: fields of classes, and parameters."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            for line in node.body:
                if isinstance(line, ast.AnnAssign) and line.value is not None:
                    yield ast.unparse(line.target)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            given = node.args
            several = [*given.posonlyargs, *given.args]
            positional = several[len(several) - len(given.defaults) :]
            pairs = [*zip(positional, given.defaults, strict=True)]
            pairs += [(a, b) for a, b in zip(given.kwonlyargs, given.kw_defaults, strict=True) if b]
            yield from (name.arg for name, default in pairs if not is_none(default))


def is_none(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def second_defaults(root: Path) -> list[str]:
    limits = {name for name in declared() if LIMIT.search(name)}
    return [
        f"{path.relative_to(root)}: {name}"
        for path in sorted(root.rglob("*.py"))
        if path.relative_to(root).parts[0] not in DECLARING and "wire" not in path.parts
        for name in defaults(ast.parse(path.read_text()))
        if name in limits
    ]


def test_no_limit_has_a_second_default() -> None:
    assert second_defaults(ROOT / "gateway") == []


def test_a_second_default_is_seen(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text(
        "class Limits:\n    max_streams: int = 9\n\n\ndef wait(*, confirm_seconds=3):\n    pass\n"
    )
    assert len(second_defaults(tmp_path)) == 2


def test_adapters_keep_to_the_shipped_defaults() -> None:
    assert AmqpSettings().limits() == Limits()
    assert tuple(AmqpSettings().mechanisms) == MECHANISMS


def test_every_limit_reaches_the_adapters() -> None:
    changed = AmqpSettings(
        frame_max=5000, channel_max=7, heartbeat_seconds=9, max_message_octets=11,
        handshake_seconds=13, synch=True,
    )  # fmt: skip
    assert changed.limits() == Limits(5000, 7, 9, 11, 13, Limits().close_timeout, True)


def test_tests_of_http_run_on_the_shipped_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AMQP_GATEWAY_HTTP", raising=False)
    assert Settings().http == HttpSettings()


# --- docs/configuration.md ------------------------------------------------------------------------

ROW = re.compile(r"^\| `([\w.]+)` \|\s*(.*?)\s*\| ", re.MULTILINE)
IN_WORDS = {
    "data_dir", "amqp.mechanisms", "amqp.templates", "amqp.listeners.port", "routes.name",
    "upstreams.name", "upstreams.addresses", "upstreams.password", "shovels.name",
    "shovels.destination.addresses.rules.match",
    "shovels.destination.addresses.rules.to",
    "observe.name", "observe.port", "observe.upstream", "observe.file", "facades.upstream",
}  # fmt: skip
"""Whose default is written in words, or that have none."""


def shipped(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, object]]:
    """Every key and its default."""
    for name, field in model.model_fields.items():
        kinds = (field.annotation, *getattr(field.annotation, "__args__", ()))
        inner = [one for one in kinds if isinstance(one, type) and issubclass(one, BaseModel)]
        if not inner or inner[0] is not field.annotation:
            yield prefix + name, field.get_default(call_default_factory=True)
        for one in inner:
            yield from shipped(one, f"{prefix}{name}.")


def test_defaults_in_the_documents_are_those_of_the_models() -> None:
    written = {
        key: cell.strip("`").replace("(empty)", "")
        for key, cell in ROW.findall((ROOT / "docs" / "configuration.md").read_text())
    }
    models = dict(shipped(Settings))
    assert written.keys() == models.keys()
    wrong = {
        key: (written[key], default)
        for key, default in models.items()
        if key not in IN_WORDS
        and written[key].lower()
        not in {str(default).lower(), f"{default:g}" if isinstance(default, float) else ""}
    }
    assert wrong == {}


# --- changes while the gateway runs ---------------------------------------------------------------

CHANGE = re.compile(r"^\| `([\w.]+)` \|\s*.*?\s*\| (\w+) \| ", re.MULTILINE)


def changing(
    model: type[BaseModel], prefix: str = "", whole: Takes | None = None
) -> Iterator[tuple[str, Takes | None]]:
    """Every key, and what its change takes: what its field says, or that of the table it is in."""
    for name, field in model.model_fields.items():
        takes = whole or taken_by(field)
        kinds = (field.annotation, *getattr(field.annotation, "__args__", ()))
        inner = [one for one in kinds if isinstance(one, type) and issubclass(one, BaseModel)]
        if not inner or inner[0] is not field.annotation:
            yield prefix + name, takes
        for one in inner:
            yield from changing(one, f"{prefix}{name}.", takes)


def test_every_setting_says_when_a_change_counts() -> None:
    silent = [name for name, takes in changing(Settings) if takes is None]
    assert silent == [], "declare their types as Live[...] or AtStart[...]"


def test_the_document_says_when_a_change_counts() -> None:
    written = dict(CHANGE.findall((ROOT / "docs" / "configuration.md").read_text()))
    assert written == {name: takes and takes.value for name, takes in changing(Settings)}

"""The documents agree with the code: support table, configuration keys, commands."""

import re
from pathlib import Path

from gateway.adapters.support import markdown, support
from gateway.config import Settings, read_settings
from gateway.journal.canonical import COLUMNS
from gateway.message import DIALECTS, Properties
from specs import message_model

ROOT = Path(__file__).parent.parent


def test_support_table_is_current() -> None:
    written = (ROOT / "docs" / "versions.md").read_text()
    assert written == markdown(support()), (
        "run: amqp-gateway versions --markdown > docs/versions.md"
    )


def test_message_model_is_current() -> None:
    tables = message_model.TABLES
    assert tables.drift() == "", f"run: {tables.command}"


def test_message_model_is_complete() -> None:
    """Every canonical field is probed, and every way to write a message is in a table."""
    probed = {sample.field for sample in message_model.SAMPLES} | {"body_kind"}
    assert probed == set(Properties.__slots__)
    drafts = {f"{v}-{name}" for v, names in message_model.CLASSES.items() for name in names}
    # Tests beside this one may have registered a dialect of their own.
    ours = {name for name, each in DIALECTS.items() if type(each).__module__.startswith("gateway.")}
    assert drafts | {*message_model.VERSIONS, "1.0"} == ours


def test_refusals_are_as_in_the_readme() -> None:
    readme = (ROOT / "README.md").read_text()
    for row in support():
        line = next(line for line in readme.splitlines() if line.startswith(f"| {row.version} |"))
        for name in row.refused:
            if not name.startswith("channel."):
                assert name in line, f"{row.version}: README does not say that {name} is refused"


def test_example_configuration_is_good() -> None:
    settings = read_settings(ROOT / "examples" / "gateway.toml")
    assert settings.vhosts == ["/", "staging"]


def test_every_setting_is_documented() -> None:
    written = (ROOT / "docs" / "configuration.md").read_text()
    missing = [name for name in setting_names(Settings, "") if f"`{name}`" not in written]
    assert missing == []


def setting_names(model: type, prefix: str) -> list[str]:
    names: list[str] = []
    for name, field in model.model_fields.items():  # type: ignore[attr-defined]
        kind = field.annotation
        if hasattr(kind, "model_fields"):
            names += setting_names(kind, f"{prefix}{name}.")
        else:
            names.append(prefix + name)
    return names


def test_a_container_that_ends_itself_is_started_again() -> None:
    """docs/configuration.md says so: a store that can keep nothing more ends the process."""
    services = (ROOT / "docker-compose.yml").read_text().partition("\nservices:\n")[2]
    _, ours, others = re.split(r"^  (?=gateway:|rabbitmq:)", services, flags=re.MULTILINE)
    assert re.search(r"^    restart: unless-stopped\b", ours, re.MULTILINE)
    assert "restart:" not in others


def test_files_that_are_named_exist() -> None:
    """A name with a folder in it is a path, from the root or from ``gateway/`` or an adapter's."""
    places = (ROOT, ROOT / "gateway", ROOT / "gateway" / "adapters", ROOT / "tests" / "interop")
    documents = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]
    for document in documents:
        named = re.findall(r"`([\w./-]+/[\w./-]+\.(?:py|md|toml|sh|js))`", document.read_text())
        gone = [name for name in named if not any((place / name).exists() for place in places)]
        assert gone == [], document.name


def test_dependencies_have_a_line_in_the_design() -> None:
    project = (ROOT / "pyproject.toml").read_text()
    block = project.split("dependencies = [")[1].split("]")[0]
    design = (ROOT / "DESIGN.md").read_text()
    for name in re.findall(r'"([a-z-]+)', block):
        assert name in design, f"{name} has no line in DESIGN.md"


def test_columns_of_the_journal_are_documented() -> None:
    written = (ROOT / "docs" / "pipeline.md").read_text()
    for one in COLUMNS:
        assert f"| `{one.name}` | {one.type} | {one.description} |" in written, one.name

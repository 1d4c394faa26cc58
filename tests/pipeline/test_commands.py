"""The command line of the jobs, without a session of Spark."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any

import pytest
import typer
from typer.testing import CliRunner

from gateway.journal.entries import JournalError
from pyspark_amqp.__main__ import JOBS, app, told
from pyspark_amqp.jobs.inputs import Inputs, with_inputs
from pyspark_amqp.options import OptionError
from tests.interop.servers import ROOT


def python(text: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", text, *arguments], capture_output=True, text=True, timeout=100
    )


def test_help_lists_the_jobs_and_does_not_wait_for_spark() -> None:
    text = (
        "import sys, contextlib\n"
        "from gateway.__main__ import cli\n"
        "assert 'pyspark_amqp' not in sys.modules\n"
        "with contextlib.suppress(SystemExit):\n"
        "    cli(['pipeline', '--help'])\n"
        "assert 'pyspark' not in sys.modules, 'pyspark was imported'\n"
    )
    done = python(text)
    assert done.returncode == 0, done.stderr
    assert "amqp-gateway pipeline" in done.stdout
    for name in JOBS:
        assert name in done.stdout


def test_every_job_has_help() -> None:
    for name in JOBS:
        shown = CliRunner().invoke(app, [name, "--help"])
        assert shown.exit_code == 0, shown.output


def test_without_pyspark_one_line_names_the_extra(
    tmp_path: Path,
) -> None:
    """A job that needs it, where it is not installed; through the gateway's command."""
    (tmp_path / "needy.py").write_text(
        "def command() -> None:\n    '''Needs Spark.'''\n    import pyspark\n"
    )
    text = (
        "import sys\n"
        "sys.modules['pyspark'] = None\n"
        f"sys.path.insert(0, {str(tmp_path)!r})\n"
        "from pyspark_amqp.__main__ import JOBS\n"
        "JOBS['needy'] = 'needy'\n"
        "from gateway.__main__ import cli\n"
        "cli(['pipeline', 'needy'])\n"
    )
    done = python(text)
    assert done.returncode == 2
    assert done.stderr.strip() == ("error: pyspark is missing: pip install 'amqp-gateway[spark]'")


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (OptionError("--since: a time"), ("--since: a time", 2)),
        (JournalError("gone"), ("gone", 1)),
        (ModuleNotFoundError("no", name="something_else"), None),
        (ValueError("ours"), None),
    ],
)
def test_what_is_told_of_errors(error: Exception, expected: tuple[str, int] | None) -> None:
    assert told(error) == expected


def test_errors_that_come_through_java_are_told_by_their_last_line() -> None:
    error = type("AnalysisException", (Exception,), {"__module__": "pyspark.errors.exceptions"})
    text = (
        "[X] failed\nTraceback:\n  File\npyspark_amqp.options.OptionError: journal: give either\n"
    )
    assert told(error(text)) == ("journal: give either", 2)
    text = "boom\n gateway.journal.entries.JournalError: journal: /x is not a directory\nat java"
    assert told(error(text)) == ("journal: /x is not a directory", 1)
    assert told(error("[PATH_NOT_FOUND] no /x\nat java")) == ("[PATH_NOT_FOUND] no /x", 1)


def command_line(*arguments: str) -> Any:
    seen: dict[str, Any] = {}

    def command(
        inputs: Inputs, out: Annotated[str, typer.Option(help="Where to.")], most: int = 3
    ) -> None:
        """A job."""
        seen.update(inputs=inputs, out=out, most=most)

    job = typer.Typer()
    job.command()(with_inputs(command))
    result = CliRunner().invoke(job, list(arguments))
    assert result.exit_code == 0, result.output
    return seen


def test_commands_take_the_common_options_and_their_own() -> None:
    seen = command_line(
        "--gateway", "http://h:1", "--user", "u", "--out", "x", "--start", "5", "--most", "7"
    )  # fmt: skip
    assert seen == {
        "inputs": Inputs(gateway="http://h:1", user="u", start=5), "out": "x", "most": 7
    }  # fmt: skip


def test_options_of_the_source_come_from_those_of_the_command_line(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("s\n")
    inputs = Inputs(
        gateway="http://h:1", user="u", password_file=secret, vhost="/x", addresses="/queues/*",
        since="2026-01-01", end=9,
    )  # fmt: skip
    assert inputs.options() == {
        "gateway": "http://h:1", "user": "u", "passwordFile": str(secret), "vhost": "/x",
        "addresses": "/queues/*", "since": "2026-01-01", "endPos": "9",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("inputs", "begin"),
    [
        (Inputs(journal="x", since="soon"), "--since:"),
        (Inputs(gateway="h:1"), "--gateway:"),
        (Inputs(gateway="http://h:1", user="u", password_file=Path("/none")), "--password-file:"),
        (Inputs(journal="x", addresses="orders"), "--addresses:"),
    ],
)
def test_wrong_options_are_named_as_on_the_command_line(inputs: Inputs, begin: str) -> None:
    with pytest.raises(OptionError, match=f"^{begin}"):
        inputs.options()


@pytest.mark.parametrize(
    "inputs",
    [Inputs(), Inputs(journal="x", table="y"), Inputs(parquet="x", gateway="http://h:1")],
)
def test_one_place_is_read(inputs: Inputs) -> None:
    with pytest.raises(OptionError, match=r"^--journal, --gateway, --table or --parquet: give"):
        inputs.frame(None)


def test_credentials_are_for_a_gateway() -> None:
    with pytest.raises(OptionError, match="^--user: only with --gateway"):
        Inputs(parquet="x", user="u").frame(None)


def test_every_job_is_in_the_guide() -> None:
    guide = (ROOT / "docs" / "pipeline.md").read_text()
    for name in JOBS:
        assert re.search(rf"^\| \[?`{name}`", guide, re.MULTILINE), name

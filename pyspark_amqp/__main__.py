"""The jobs on the command line: ``amqp-gateway pipeline NAME …``, ``python -m pyspark_amqp NAME …``
or ``spark-submit pyspark_amqp/__main__.py NAME …``.

A job ends with status 0; with 1 if it failed, or found what it looks for; with 2 if it was used
wrongly. A job's module is imported when the job is run.
"""

import re
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import typer
from rich.console import Console

JOBS: dict[str, str] = {
    "land": "pyspark_amqp.jobs.land",
    "maintain": "pyspark_amqp.jobs.maintain",
    "report": "pyspark_amqp.jobs.report",
    "replay": "pyspark_amqp.jobs.replay",
    "transcode": "pyspark_amqp.jobs.transcode",
    "reconcile": "pyspark_amqp.jobs.reconcile",
}
"""Name of a job, and the module whose ``command`` runs it."""

EXTRAS = {
    "pyspark": "spark",
    "numpy": "spark",
    "pandas": "spark",
    "deltalake": "spark",
    "pyarrow": "spark",
    "py4j": "spark",
}
"""Modules that are not installed with the gateway, and the extra that brings them."""

err = Console(stderr=True, highlight=False)


class Jobs(typer.core.TyperGroup):
    """Finds commands in ``JOBS``. Errors are shown as one line."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(JOBS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in JOBS:
            return None
        one = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
        one.command(cmd_name)(import_module(JOBS[cmd_name]).command)
        return typer.main.get_command(one)

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except Exception as error:
            found = told(error)
            if found is None:
                raise
            text, status = found
            err.print(f"[red]error:[/red] {text}", soft_wrap=True)
            raise typer.Exit(status) from None


def told(error: Exception) -> tuple[str, int] | None:
    """What to say of an error, and the exit status; None for a fault of our own."""
    from gateway.errors import GatewayError
    from gateway.journal.entries import JournalError
    from pyspark_amqp.options import OptionError

    if isinstance(error, ModuleNotFoundError):
        module = (error.name or "").partition(".")[0]
        if module not in EXTRAS:
            return None
        extra = EXTRAS[module]
        return f"{module} is missing: pip install 'amqp-gateway\\[{extra}]'", 2
    if isinstance(error, OptionError):
        return str(error), 2
    if isinstance(error, JournalError | GatewayError):
        return str(error), 1
    if type(error).__module__.startswith("pyspark."):
        # An error of the source comes as text, at the end of a Python traceback in Java's.
        ours = re.search(
            r"(?:\w+\.)*(OptionError|ReplayError|JournalError|Trimmed|LandingError): (.*)",
            str(error),
        )
        if ours is not None:
            return ours[2], 2 if ours[1] == "OptionError" else 1
        return str(error).strip().split("\n")[0], 1
    return None


app = typer.Typer(
    cls=Jobs,
    help="Jobs on journals and archives, with Spark.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.callback()
def options() -> None:
    """Jobs on journals and archives, with Spark."""


def main(arguments: Sequence[str] | None = None, name: str = "python -m pyspark_amqp") -> None:
    """Run a job. Raises ``SystemExit``."""
    app(args=None if arguments is None else list(arguments), prog_name=name)


if __name__ == "__main__":
    # Run as a file (spark-submit), Python looks for modules among this package's files first.
    here = str(Path(__file__).resolve().parent)
    sys.path[:] = [path for path in sys.path if path != here]
    main(sys.argv[1:])

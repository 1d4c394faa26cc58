"""Options that several commands have."""

from pathlib import Path
from typing import Annotated, Any

import typer

ConfigFile = Annotated[
    Path | None,
    typer.Option("--config", "-c", help="TOML file.", envvar="AMQP_GATEWAY_CONFIG"),
]
DataDir = Annotated[Path | None, typer.Option(help="Directory of the durable store.")]


def given(values: dict[str, Any]) -> dict[str, Any]:
    """The options that were given on the command line."""
    return {name: value for name, value in values.items() if value is not None}

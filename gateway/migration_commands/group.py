"""The commands ``amqp-gateway bridge …``."""

import typer

from gateway.migration_commands.addresses import add_address_commands

bridge = typer.Typer(help="Migration between brokers.")
add_address_commands(bridge)


@bridge.callback()
def options() -> None:
    """Commands are chosen by name, also while there is only one."""

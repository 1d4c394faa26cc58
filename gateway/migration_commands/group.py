"""The commands ``amqp-gateway bridge …``."""

import typer

from gateway.migration_commands.addresses import add_address_commands
from gateway.migration_commands.apply import apply
from gateway.migration_commands.modes import add_mode_commands
from gateway.migration_commands.move import add_move_commands
from gateway.migration_commands.plan import add_plan_command
from gateway.migration_commands.verify import verify

bridge = typer.Typer(help="Migration between brokers.")
add_address_commands(bridge)
add_move_commands(bridge)
add_mode_commands(bridge)
add_plan_command(bridge)
bridge.command()(apply)
bridge.command()(verify)

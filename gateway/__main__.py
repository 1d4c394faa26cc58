"""The program, and its command ``serve``; ``commands`` has all others.

Those are imported when another command is named, or when all are listed, so that a gateway does not
wait for them at its start.
"""

from pathlib import Path
from typing import Annotated, Any, cast

import typer

from gateway import __version__
from gateway.command_options import ConfigFile, DataDir, given
from gateway.errors import GatewayError, StoreError


class Commands(typer.core.TyperGroup):
    """Commands that are imported when they are needed, and whose errors are shown as one line."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except GatewayError as error:
            fail(str(error))

    def list_commands(self, ctx: Any) -> list[str]:
        """The names of all commands, in the order of the help."""
        self._import_others()
        return super().list_commands(ctx)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of this name; ``None`` if there is none."""
        if cmd_name not in self.commands:
            self._import_others()
        return super().get_command(ctx, cmd_name)

    def _import_others(self) -> None:
        from gateway.commands import others

        group = cast(typer.core.TyperGroup, typer.main.get_command(others))
        self.commands = {**self.commands, **group.commands}


def fail(text: str) -> None:
    """Print an error and exit with status 2."""
    from gateway.administration import fail

    fail(text)


cli = typer.Typer(
    name="amqp-gateway",
    cls=Commands,
    help="One gateway for every AMQP ever published, and HTTP.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def show_version(wanted: bool) -> None:
    """Print the version and exit, for ``--version``."""
    if wanted:
        typer.echo(f"amqp-gateway {__version__}")
        raise typer.Exit


@cli.callback()
def options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=show_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Options that are given before the command."""


@cli.command()
def serve(
    config: ConfigFile = None,
    data_dir: DataDir = None,
    host: Annotated[str | None, typer.Option(help="Address for AMQP and HTTP.")] = None,
    amqp_port: Annotated[int | None, typer.Option(help="AMQP port (5672).")] = None,
    http_port: Annotated[int | None, typer.Option(help="HTTP port (8080).")] = None,
    amqps_port: Annotated[int | None, typer.Option(help="AMQP over TLS port.")] = None,
    tls_cert: Annotated[Path | None, typer.Option(help="Certificate chain, PEM.")] = None,
    tls_key: Annotated[Path | None, typer.Option(help="Private key, PEM.")] = None,
    durable: Annotated[
        bool | None,
        typer.Option("--durable/--volatile", help="Keep data on disk, or in memory only."),
    ] = None,
    log_level: Annotated[
        str | None, typer.Option(help="Lowest level logged: debug, info, warning, error.")
    ] = None,
    upstream: Annotated[
        str | None,
        typer.Option(
            help="Facade: keep no messages, and show the queues of the broker at this URL, "
            "amqp://user:password@host:port/vhost."
        ),
    ] = None,
) -> None:
    """Run the gateway. Defaults: AMQP on 5672, HTTP on 8080, local only, user guest/guest."""
    from gateway.event_loop import hold_collector

    hold_collector()
    from gateway.config import read_settings
    from gateway.config.facade import facade_of

    tls = {"port": amqps_port, "certificate": tls_cert, "key": tls_key}
    amqp = {"host": host, "port": amqp_port, "tls": given(tls) or None}
    http = {"host": host, "port": http_port}
    top = {"data_dir": data_dir, "durable": durable, "log_level": log_level}
    options = {
        **given({**top, "amqp": given(amqp) or None, "http": given(http) or None}),
        **({} if upstream is None else facade_of(upstream)),
    }
    settings = read_settings(config, **options)
    import logging

    from gateway.http.observe.logs import set_up

    set_up(settings.log_level, settings.log_format)
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    from gateway import app
    from gateway.event_loop import run

    try:
        run(app.serve(settings, lambda: read_settings(config, **options)))
    except StoreError as error:
        fail(f"the store in {settings.data_dir} failed: {error}")


def main() -> None:
    """Entry point of the ``amqp-gateway`` command."""
    cli()


if __name__ == "__main__":
    main()

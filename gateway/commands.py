"""All commands but ``serve``: those of this file, and those of the files and folders beside it.

Each command has imports of its own, so that help, ``version`` and ``inspect`` load neither the
settings nor the gateway.
"""

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

import typer
from rich.table import Table

from gateway import __version__
from gateway.administration import AsJson, add_commands, fail, out, show_json
from gateway.backup_commands import backup, restore
from gateway.bench_command import bench
from gateway.command_options import ConfigFile, DataDir, given
from gateway.errors import Refusal, StoreError
from gateway.inspect_command import inspect
from gateway.inventory.command_line import add_commands as add_inventory_commands
from gateway.journal_commands import journal
from gateway.message_commands import browse, consume, publish
from gateway.migration_commands.group import bridge
from gateway.similar_names import did_you_mean
from gateway.status_commands import status, top
from gateway.topology_commands import add_topology_commands

if TYPE_CHECKING:
    from gateway.broker.access import Access
    from gateway.config import Settings

others = typer.Typer()
users = typer.Typer(help="Add, list and remove users, also while the gateway runs.")
others.add_typer(users, name="user", no_args_is_help=True)
add_commands(others)
for command in (publish, consume, browse, status, top, bench, backup, restore, inspect):
    others.command()(command)
others.add_typer(bridge, name="bridge", no_args_is_help=True)
others.add_typer(journal, name="journal", no_args_is_help=True)
add_inventory_commands(others)
add_topology_commands(others)


@others.command()
def check(
    config: Annotated[Path, typer.Argument(help="TOML file.")], as_json: AsJson = False
) -> None:
    """Check a configuration: print its errors, or all effective settings."""
    from gateway.config import read_settings
    from gateway.http.configuration_checks import check_settings

    settings = read_settings(config)
    check_settings(settings)
    if as_json:
        return show_json(settings.model_dump(mode="json"))
    out.print(f"{config}: valid")
    for name, value in flat(settings.model_dump(mode="json")):
        out.print(f"  {name} = {value!r}", highlight=False, soft_wrap=True)


def flat(values: dict[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    """Nested settings as dotted names."""
    pairs: list[tuple[str, Any]] = []
    for name, value in values.items():
        if isinstance(value, dict):
            pairs += flat(value, f"{prefix}{name}.")
        elif value is not None:
            pairs.append((prefix + name, value))
    return pairs


@others.command()
def versions(
    as_markdown: Annotated[
        bool, typer.Option("--markdown", help="List every method, in the form of docs/versions.md.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show the methods that each AMQP version supports, found by trying each one."""
    from gateway.adapters.registry import VERSIONS
    from gateway.adapters.support import markdown, support

    rows = support()
    if as_markdown:
        sys.stdout.write(markdown(rows))
        return
    if as_json:
        return show_json(
            [
                {
                    "version": row.version,
                    "header": row.header,
                    "roles": [role.value for role in VERSIONS[row.version].roles],
                    "handled": list(row.handled),
                    "refused": list(row.refused),
                }
                for row in rows
            ]
        )
    table = Table("version", "header", "roles", "handled in full", "refused")
    for row in rows:
        handled, refused = ", ".join(row.handled), ", ".join(row.refused) or "-"
        roles = ", ".join(role.value for role in VERSIONS[row.version].roles)
        table.add_row(row.version, row.header, roles, handled, refused)
    out.print(table)


@others.command()
def probe(
    address: Annotated[str, typer.Argument(help="amqp://host:port or amqps://host:port.")],
    vhost: Annotated[str, typer.Option(help="Virtual host there.")] = "/",
    user: Annotated[str, typer.Option(help="User there.")] = "guest",
    password: Annotated[str, typer.Option(help="Password there.")] = "guest",
    seconds: Annotated[float, typer.Option(help="Time limit of each login.")] = 5.0,
) -> None:
    """Show the versions that another broker speaks, found by logging in with each one."""
    from gateway.adapters import Credentials
    from gateway.bridge.probe import probe_broker
    from gateway.config.bridge import read_address
    from gateway.event_loop import run

    try:
        where = read_address(address)
    except ValueError as error:
        fail(str(error))
    table = Table("version", "product", "mechanism", "can", "error")
    spoken = 0

    async def ask() -> None:
        nonlocal spoken
        async for one in probe_broker(where, vhost, Credentials(user, password), seconds):
            able = one.abilities._asdict() if one.abilities else {}
            words = ", ".join(name for name, can in able.items() if can)
            table.add_row(one.version, one.product, one.mechanism, words, one.error)
            spoken += not one.error

    run(ask())
    out.print(table)
    if not spoken:
        fail(f"{where}: no version could log in")


@others.command(
    add_help_option=False,
    context_settings={
        "allow_extra_args": True,
        "ignore_unknown_options": True,
        "allow_interspersed_args": False,
    },
)
def pipeline(ctx: typer.Context) -> None:
    """Run a job of the data pipeline, with Spark: its name and options follow."""
    from pyspark_amqp.__main__ import main as run_job

    run_job(ctx.args, "amqp-gateway pipeline")


@others.command()
def version() -> None:
    """Show the gateway's own version."""
    out.print(f"amqp-gateway {__version__}", highlight=False)


@contextlib.contextmanager
def change_users(
    config: Path | None, data_dir: Path | None, vhost: str | None = None
) -> Iterator["Access"]:
    """The users of a data directory. Changes are written when the block ends; a running gateway
    notices them within a second. ``vhost``: a virtual host that there must be."""
    from gateway.broker.access import Access
    from gateway.config import read_settings
    from gateway.store import open_records

    settings = read_settings(config, **given({"data_dir": data_dir}))
    if not settings.durable:
        fail("durable = false: a volatile gateway has no users but guest")
    try:
        with open_records(settings.data_dir) as records:
            if vhost is not None:
                known = {key[0] for _, key, _ in records.records("vhost")}
                check_vhost(vhost, known, settings)
            yield Access(records)
    except (OSError, StoreError, Refusal) as error:
        fail(f"{settings.data_dir}: {error}")


def check_vhost(vhost: str, known: set[str], settings: "Settings") -> None:
    """Fail unless there is this virtual host, or will be at the next start."""
    known = (known or {*settings.vhosts}) | {one.vhost for one in settings.facades}
    if vhost in known or settings.definitions is not None:
        return
    names = ", ".join(sorted(known))
    fail(
        f"no virtual host '{vhost}'{did_you_mean(vhost, known)}; there are: {names}. Make it in "
        f"the running gateway first: PUT /v1/admin/vhosts/{quote(vhost, safe='')}"
    )


@users.command("add")
def user_add(
    name: Annotated[str, typer.Argument(help="User name.")],
    config: ConfigFile = None,
    data_dir: DataDir = None,
    password: Annotated[
        str | None, typer.Option(help="Prompted for, or read from standard input, if not given.")
    ] = None,
    tag: Annotated[
        list[str] | None,
        typer.Option(help="Tag of the user: administrator or monitoring; repeatable."),
    ] = None,
    vhost: Annotated[str, typer.Option(help="Virtual host of the permissions.")] = "/",
    configure: Annotated[
        str, typer.Option(help="Names the user may declare and delete (regex).")
    ] = ".*",
    write: Annotated[str, typer.Option(help="Names the user may publish to (regex).")] = ".*",
    read: Annotated[str, typer.Option(help="Names the user may read from (regex).")] = ".*",
) -> None:
    """Add a user, or change a user's password and permissions."""
    if password is None:
        import getpass

        password = getpass.getpass() if sys.stdin.isatty() else sys.stdin.readline().rstrip("\n")
    if not password:
        fail("a password must not be empty")
    with change_users(config, data_dir, vhost) as access:
        first = not access.list_users()
        if access.user(name) is None:
            access.add_user(name, password)
        else:
            access.change_password(name, password)
        if tag is not None:
            access.set_tags(name, tag)
        access.set_permissions(name, vhost, configure, write, read)
    out.print(f"user {name} may use virtual host {vhost}", highlight=False, markup=False)
    if first:
        out.print(
            "It is the first user, so the gateway will not make the user guest; only a user with "
            "--tag administrator may administer.",
            highlight=False,
        )


@users.command("list")
def user_list(config: ConfigFile = None, data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """List users with their tags and permissions."""
    table = Table("user", "tags", "from", "virtual host: configure / write / read")
    with change_users(config, data_dir) as access:
        if as_json:
            return show_json(
                [
                    {
                        "name": user.name,
                        "tags": list(user.tags),
                        "loopback_only": user.loopback_only,
                        "permissions": [one._asdict() for one in access.permissions_of(user.name)],
                    }
                    for user in access.list_users()
                ]
            )
        for user in access.list_users():
            rights = (
                f"{right.vhost}: {right.configure} / {right.write} / {right.read}"
                for right in access.permissions_of(user.name)
            )
            origin = "this machine only" if user.loopback_only else "anywhere"
            tags = ", ".join(user.tags) or "-"
            table.add_row(user.name, tags, origin, "\n".join(rights) or "none")
    out.print(table)


@users.command("remove")
def user_remove(
    name: Annotated[str, typer.Argument(help="User name.")],
    config: ConfigFile = None,
    data_dir: DataDir = None,
) -> None:
    """Remove a user and the user's permissions."""
    with change_users(config, data_dir) as access:
        access.remove_user(name)
    out.print(f"user {name} removed", highlight=False)

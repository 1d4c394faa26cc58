"""The command line: serve, check, versions, user, branch, inspect.

Each command has imports of its own, so that help, ``--version`` and ``inspect`` load neither the
settings nor the gateway.
"""

import contextlib
import sys
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from rich.console import Console
from rich.table import Table

from gateway import __version__
from gateway.errors import GatewayError, Refusal, StoreError

if TYPE_CHECKING:
    from gateway.broker.access import Access


class Commands(typer.core.TyperGroup):
    """Commands whose errors are shown as one line."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except GatewayError as error:
            fail(str(error))


cli = typer.Typer(
    name="amqp-gateway",
    cls=Commands,
    help="One gateway for every AMQP ever published, and HTTP.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
users = typer.Typer(help="Add, list and remove users, also while the gateway runs.")
cli.add_typer(users, name="user", no_args_is_help=True)
branches = typer.Typer(
    help="Prepared branches of distributed transactions in a running gateway, over HTTP."
)
cli.add_typer(branches, name="branch", no_args_is_help=True)
sessions = typer.Typer(help="Named sessions of AMQP 0-10 in a running gateway, over HTTP.")
cli.add_typer(sessions, name="session", no_args_is_help=True)
out = Console()
err = Console(stderr=True, highlight=False)

ConfigFile = Annotated[
    Path | None,
    typer.Option("--config", "-c", help="TOML file.", envvar="AMQP_GATEWAY_CONFIG"),
]
DataDir = Annotated[Path | None, typer.Option(help="Directory of the durable store.")]


def fail(text: str) -> NoReturn:
    """Print an error and exit with status 2."""
    err.print(f"[red]error:[/red] {text}", soft_wrap=True)
    raise typer.Exit(2)


def show_version(wanted: bool) -> None:
    """Print the version and exit, for ``--version``."""
    if wanted:
        out.print(f"amqp-gateway {__version__}", highlight=False)
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
) -> None:
    """Run the gateway. Defaults: AMQP on 5672, HTTP on 8080, local only, user guest/guest."""
    from gateway.config import read_settings

    tls = {"port": amqps_port, "certificate": tls_cert, "key": tls_key}
    amqp = {"host": host, "port": amqp_port, "tls": given(tls) or None}
    http = {"host": host, "port": http_port}
    top = {"data_dir": data_dir, "durable": durable, "log_level": log_level}
    settings = read_settings(
        config, **given({**top, "amqp": given(amqp) or None, "http": given(http) or None})
    )
    import logging

    from gateway.http.observe.logs import set_up

    set_up(settings.log_level, settings.log_format)
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    from gateway import app

    try:
        run(app.serve(settings))
    except StoreError as error:
        fail(f"the store in {settings.data_dir} failed: {error}")


def given(values: dict[str, Any]) -> dict[str, Any]:
    """The options that were given on the command line."""
    return {name: value for name, value in values.items() if value is not None}


def run(work: Coroutine[Any, Any, None]) -> None:
    """Run on uvloop where it is installed, else on asyncio's own loop."""
    import asyncio

    try:
        from uvloop import new_event_loop
    except ImportError:
        asyncio.run(work)
        return
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(work)


@cli.command()
def check(config: Annotated[Path, typer.Argument(help="TOML file.")]) -> None:
    """Check a configuration: print its errors, or all effective settings."""
    from gateway.config import read_settings
    from gateway.net.tls import server_context

    settings = read_settings(config)
    tls = settings.amqp.tls
    if tls.certificate is not None and tls.key is not None:
        server_context(tls.certificate, tls.key, tls.client_ca)
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


@cli.command()
def versions(
    as_markdown: Annotated[
        bool, typer.Option("--markdown", help="List every method, in the form of docs/versions.md.")
    ] = False,
) -> None:
    """Show the methods that each AMQP version supports, found by trying each one."""
    from gateway.adapters.support import markdown, support

    rows = support()
    if as_markdown:
        sys.stdout.write(markdown(rows))
        return
    table = Table("version", "header", "roles", "handled in full", "refused")
    for row in rows:
        handled, refused = ", ".join(row.handled), ", ".join(row.refused) or "-"
        table.add_row(row.version, row.header, "server, client", handled, refused)
    out.print(table)


@cli.command()
def version() -> None:
    """Show the gateway's own version."""
    show_version(True)


@cli.command()
def inspect(
    file: Annotated[Path, typer.Argument(help="Hex dump, capture JSON, or pcap.")],
    as_version: Annotated[
        str | None, typer.Option("--as", help="AMQP version, if the recording does not show it.")
    ] = None,
) -> None:
    """Decode recorded octets into readable frames; the version is detected."""
    from gateway.inspect import InspectError, inspect_file

    try:
        failed = inspect_file(file, as_version, out, err)
    except InspectError as error:
        fail(f"{file}: {error}")
    if failed:
        fail(f"{file}: {failed} of the frames could not be decoded")


@contextlib.contextmanager
def change_users(config: Path | None, data_dir: Path | None) -> Iterator["Access"]:
    """The users of a data directory. Changes are written when the block ends; a running gateway
    notices them within a second."""
    from gateway.broker.access import Access
    from gateway.config import read_settings
    from gateway.store import open_records

    settings = read_settings(config, **given({"data_dir": data_dir}))
    if not settings.durable:
        fail("durable = false: a volatile gateway has no users but guest")
    try:
        with open_records(settings.data_dir) as records:
            yield Access(records)
    except (OSError, StoreError, Refusal) as error:
        fail(f"{settings.data_dir}: {error}")


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
    with change_users(config, data_dir) as access:
        if access.user(name) is None:
            access.add_user(name, password)
        else:
            access.change_password(name, password)
        if tag is not None:
            access.set_tags(name, tag)
        access.set_permissions(name, vhost, configure, write, read)
    out.print(f"user {name} may use virtual host {vhost}", highlight=False)


@users.command("list")
def user_list(config: ConfigFile = None, data_dir: DataDir = None) -> None:
    """List users with their tags and permissions."""
    table = Table("user", "tags", "from", "virtual host: configure / write / read")
    with change_users(config, data_dir) as access:
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


# --- branches -------------------------------------------------------------------------------------

BranchName = Annotated[str, typer.Argument(help="As listed: format:transaction:branch, in hex.")]
VirtualHostName = Annotated[str, typer.Option(help="Virtual host of the branch.")]
Url = Annotated[str, typer.Option(help="Where the administration is served.")]
Login = Annotated[str, typer.Option(help="An administrator.")]
Password = Annotated[
    str | None, typer.Option(help="Prompted for, or read from standard input, if not given.")
]
Sure = Annotated[bool, typer.Option("--yes", help="Do not ask.")]
WHERE = "http://127.0.0.1:8080"
WARNING = (
    "Only for a coordinator that does not come back: if it has decided otherwise, "
    "the transaction is not atomic. Compare with its other branches."
)


def ask_gateway(
    method: str, url: str, path: str, user: str, password: str | None
) -> dict[str, Any]:
    """The answer of the administration of a running gateway."""
    import base64
    import json
    import urllib.error
    import urllib.request

    if password is None:
        import getpass

        password = getpass.getpass() if sys.stdin.isatty() else sys.stdin.readline().rstrip("\n")
    if not url.startswith(("http://", "https://")):
        fail(f"{url} is no http or https address")
    login = base64.b64encode(f"{user}:{password}".encode()).decode()
    request = urllib.request.Request(
        url.rstrip("/") + path, method=method, headers={"authorization": f"Basic {login}"}
    )
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            octets = answer.read()
    except urllib.error.HTTPError as error:
        with error:
            try:
                text = json.load(error)["detail"]
            except (ValueError, LookupError, TypeError):
                text = error.reason
        fail(f"{url}: {error.code} {text}")
    except OSError as error:
        fail(f"{url}: {getattr(error, 'reason', error)}")
    found: dict[str, Any] = json.loads(octets) if octets else {}
    return found


def branch_path(vhost: str, branch: str = "", what: str = "") -> str:
    from urllib.parse import quote

    path = f"/v1/admin/vhosts/{quote(vhost, safe='')}/branches"
    return f"{path}/{quote(branch, safe='')}/{what}" if branch else path


@branches.command("list")
def branch_list(
    vhost: VirtualHostName = "/", url: Url = WHERE, user: Login = "guest", password: Password = None
) -> None:
    """List branches that wait for their coordinator, and those that were decided by hand."""
    found = ask_gateway("GET", url, branch_path(vhost), user, password)["branches"]
    table = Table("branch", "user", "state", "age", "publishes", "settlements")
    for one in found:
        age = f"{one['age_seconds']:.0f} s"
        counts = str(one["publishes"]), str(one["settlements"])
        table.add_row(one["branch"], one["user"], one["state"], age, *counts)
    out.print(table)


@branches.command("commit")
def branch_commit(
    branch: BranchName,
    vhost: VirtualHostName = "/",
    url: Url = WHERE,
    user: Login = "guest",
    password: Password = None,
    yes: Sure = False,
) -> None:
    """Commit a prepared branch by hand: a heuristic decision, of which its coordinator is told."""
    decide_branch("commit", branch_path(vhost, branch, "commit"), url, user, password, yes)


@branches.command("rollback")
def branch_rollback(
    branch: BranchName,
    vhost: VirtualHostName = "/",
    url: Url = WHERE,
    user: Login = "guest",
    password: Password = None,
    yes: Sure = False,
) -> None:
    """Roll back a prepared branch by hand: a heuristic decision, of which its coordinator is
    told."""
    decide_branch("roll back", branch_path(vhost, branch, "rollback"), url, user, password, yes)


def decide_branch(
    what: str, path: str, url: str, user: str, password: str | None, yes: bool
) -> None:
    err.print(f"[yellow]warning:[/yellow] {WARNING}", soft_wrap=True)
    if not yes:
        typer.confirm(f"{what} the branch?", abort=True, err=True)
    done = ask_gateway("POST", url, path, user, password)["branch"]
    out.print(f"branch {done['branch']} of {done['user']} is {done['state']}", highlight=False)


@branches.command("forget")
def branch_forget(
    branch: BranchName,
    vhost: VirtualHostName = "/",
    url: Url = WHERE,
    user: Login = "guest",
    password: Password = None,
) -> None:
    """Forget a branch that was decided by hand, for a coordinator that will never do it."""
    ask_gateway("POST", url, branch_path(vhost, branch, "forget"), user, password)
    out.print(f"branch {branch} is forgotten", highlight=False)


# --- sessions -------------------------------------------------------------------------------------


@sessions.command("list")
def session_list(url: Url = WHERE, user: Login = "guest", password: Password = None) -> None:
    """List sessions of AMQP 0-10: attached to a connection, or kept for another."""
    found = ask_gateway("GET", url, "/v1/admin/sessions", user, password)["sessions"]
    table = Table("id", "name", "user", "vhost", "state", "connection", "ends in", "unacknowledged")
    for one in found:
        left, connection = one["left_seconds"], one["connection"]
        table.add_row(
            str(one["id"]),
            one["name"],
            one["user"],
            one["vhost"],
            one["state"],
            "" if connection is None else str(connection),
            "" if left is None else f"{left:.0f} s",
            str(one["unacknowledged"]),
        )
    out.print(table)


@sessions.command("end")
def session_end(
    session: Annotated[int, typer.Argument(help="Its id, as listed.")],
    url: Url = WHERE,
    user: Login = "guest",
    password: Password = None,
) -> None:
    """End a session that is kept: its messages go back to their queues."""
    ask_gateway("DELETE", url, f"/v1/admin/sessions/{session}", user, password)
    out.print(f"session {session} has ended", highlight=False)


def main() -> None:
    """Entry point of the ``amqp-gateway`` command."""
    cli()


if __name__ == "__main__":
    main()

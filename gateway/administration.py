"""Commands that ask a running gateway over HTTP: branches, sessions, shovels."""

import json
import sys
from datetime import datetime
from typing import Annotated, Any, NoReturn
from urllib.parse import quote

import typer
from rich.console import Console
from rich.table import Table

branches = typer.Typer(
    help="Prepared branches of distributed transactions in a running gateway, over HTTP."
)
sessions = typer.Typer(help="Named sessions of AMQP 0-10 in a running gateway, over HTTP.")
shovels = typer.Typer(help="Shovels of a running gateway, over HTTP.")
out = Console()
err = Console(stderr=True, highlight=False)


def show_json(found: Any) -> None:
    """Print the result of a command, for programs."""
    json.dump(found, sys.stdout, indent=1)
    sys.stdout.write("\n")


def printable(text: str) -> str:
    """Text of others for a terminal, without characters that could command it."""
    return "".join(
        one if one.isprintable() else one.encode("unicode_escape").decode() for one in text
    )


def fail(text: str) -> NoReturn:
    """Print an error and exit with status 2."""
    err.print(f"[red]error:[/red] {text}", soft_wrap=True)
    raise typer.Exit(2)


BranchName = Annotated[str, typer.Argument(help="As listed: format:transaction:branch, in hex.")]
VirtualHostName = Annotated[str, typer.Option(help="Virtual host of the branch.")]
Url = Annotated[
    str, typer.Option(help="Where the administration is served.", envvar="AMQP_GATEWAY_URL")
]
Login = Annotated[str, typer.Option(help="An administrator.", envvar="AMQP_GATEWAY_USER")]
Password = Annotated[
    str | None,
    typer.Option(
        help="Without it: guest for the user guest, else prompted for or read from standard input.",
        envvar="AMQP_GATEWAY_PASSWORD",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Sure = Annotated[bool, typer.Option("--yes", help="Do not ask.")]
TIMEOUT_SECONDS = 60
GUEST = "guest"
"""The first user, and its first password."""
WHERE = "http://127.0.0.1:8080"
WARNING = (
    "Only for a coordinator that does not come back: if it has decided otherwise, "
    "the transaction is not atomic. Compare with its other branches."
)


def ask_gateway(
    method: str,
    url: str,
    path: str,
    user: str,
    password: str | None,
    body: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """The answer of the administration of a running gateway. ``body`` is sent as JSON."""
    import httpx

    from gateway.net.tls import https_context

    try:
        answer = httpx.request(
            method,
            url.rstrip("/") + path,
            auth=(user, password_of(user, password)),
            json=body,
            timeout=TIMEOUT_SECONDS,
            trust_env=False,
            verify=https_context(url),
        )
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        fail(f"{url}: {error}; --url says where the gateway's HTTP is")
    if answer.is_error:
        fail(f"{url}: {answer.status_code} {reason_of(answer)}")
    found: dict[str, Any] = answer.json() if answer.content else {}
    return found


def password_of(user: str, given: str | None) -> str:
    """If it is not given, that of a new gateway for its first user; else prompted for, or read from
    standard input."""
    if given is not None:
        return given
    if user == GUEST:
        return GUEST
    import getpass

    return getpass.getpass() if sys.stdin.isatty() else sys.stdin.readline().rstrip("\n")


def reason_of(answer: Any) -> str:
    """The detail of a problem document, RabbitMQ's reason, or the reason phrase."""
    try:
        told = answer.json()
        return str(told["detail"] if "detail" in told else told["reason"])
    except (ValueError, LookupError, TypeError):
        return str(answer.reason_phrase)


def branch_path(vhost: str, branch: str = "", what: str = "") -> str:
    path = f"/v1/admin/vhosts/{quote(vhost, safe='')}/branches"
    return f"{path}/{quote(branch, safe='')}/{what}" if branch else path


@branches.command("list")
def branch_list(
    vhost: VirtualHostName = "/",
    url: Url = WHERE,
    user: Login = "guest",
    password: Password = None,
    as_json: AsJson = False,
) -> None:
    """List branches that wait for their coordinator, and those that were decided by hand."""
    found = ask_gateway("GET", url, branch_path(vhost), user, password)["branches"]
    if as_json:
        return show_json(found)
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
def session_list(
    url: Url = WHERE, user: Login = "guest", password: Password = None, as_json: AsJson = False
) -> None:
    """List sessions of AMQP 0-10: attached to a connection, or kept for another."""
    found = ask_gateway("GET", url, "/v1/admin/sessions", user, password)["sessions"]
    if as_json:
        return show_json(found)
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


# --- shovels --------------------------------------------------------------------------------------

ShovelName = Annotated[str, typer.Argument(help="Its name in the configuration.")]


COUNTS = ("moved", "parked", "dropped", "delayed", "duplicates", "under_way")


@shovels.command("list")
def shovel_list(
    url: Url = WHERE, user: Login = "guest", password: Password = None, as_json: AsJson = False
) -> None:
    """List shovels: states, counts and the last error."""
    found = ask_gateway("GET", url, "/v1/admin/shovels", user, password)["shovels"]
    if as_json:
        return show_json(found)
    table = Table(
        "name", "state", "source", "destination", "moved", "parked", "dropped", "delayed",
        "duplicates", "under way", "last error",
    )  # fmt: skip
    for one in found:
        ends = (f"{one[end]} {one[f'{end}_version']}".strip() for end in ("source", "destination"))
        counts = (str(one[name]) for name in COUNTS)
        table.add_row(one["name"], one["state"], *ends, *counts, last_error(one))
        for lane in one["lanes"]:
            counts = (str(lane.get(name, "")) for name in COUNTS)
            table.add_row("", lane["state"], f"  {lane['queue']}", lane["destination"], *counts,
                          last_error(lane))  # fmt: skip
    out.print(table)


def last_error(one: Any) -> str:
    """With the local time when it came: it stays after the shovel runs again."""
    if not one["error"]:
        return ""
    return f"{datetime.fromtimestamp(one['error_at'] / 1000):%Y-%m-%d %H:%M:%S} {one['error']}"


@shovels.command("pause")
def shovel_pause(
    shovel: ShovelName, url: Url = WHERE, user: Login = "guest", password: Password = None
) -> None:
    """Close the connections of a shovel until it is resumed or the gateway is started again."""
    ask_gateway("POST", url, f"/v1/admin/shovels/{quote(shovel, safe='')}/pause", user, password)
    out.print(f"shovel {shovel} is paused", highlight=False)


@shovels.command("resume")
def shovel_resume(
    shovel: ShovelName, url: Url = WHERE, user: Login = "guest", password: Password = None
) -> None:
    """Let a paused shovel run again."""
    ask_gateway("POST", url, f"/v1/admin/shovels/{quote(shovel, safe='')}/resume", user, password)
    out.print(f"shovel {shovel} runs", highlight=False)


def add_commands(cli: typer.Typer) -> None:
    cli.add_typer(branches, name="branch", no_args_is_help=True)
    cli.add_typer(sessions, name="session", no_args_is_help=True)
    cli.add_typer(shovels, name="shovel", no_args_is_help=True)

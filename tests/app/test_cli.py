"""The command line as its user meets it: every error names the setting to change."""

import asyncio
import contextlib
import json
import re
import socket
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from gateway.adapters.methods.wire import layouts as w
from gateway.adapters.segments.decoding import read_array
from gateway.adapters.segments.wire import layouts as w10
from gateway.adapters.segments.wire.layouts import Xid
from gateway.http.publish.spool import spool_place
from gateway.net.dialer import dial
from gateway.operations import AttachSession
from tests.net.commands import completed
from tests.net.preloaded import ROOT
from tests.net.prepared import Coordinator
from tests.net.running import Running, environment, until
from tests.net.wire import PERSISTENT, Gone, Wire


def run(
    *arguments: object, text: str | None = None, **settings: object
) -> subprocess.CompletedProcess[str]:
    return completed(arguments, environment(**settings), text=text or "")


def refused(done: subprocess.CompletedProcess[str], *words: str) -> None:
    """Ended with status 2, and one readable message with these words."""
    assert done.returncode == 2, done
    for word in words:
        assert word in done.stderr, done.stderr
    assert "Traceback" not in done.stderr + done.stdout, done.stderr


def serve(folder: Path, *arguments: object) -> list[object]:
    ports = ["--amqp-port", 0, "--http-port", 0, "--data-dir", folder / "data"]
    return ["serve", *ports, *arguments]


@pytest.mark.parametrize(
    ("toml", "words"),
    [
        ("[amqp]\nport = 70000\n", ["amqp.port"]),
        ("[amqp]\nprot = 5672\n", ["amqp.prot", "unknown setting (did you mean port?)"]),
        ("[limits]\nmemory_high = 2\n", ["limits.memory_high"]),
        ("[amqp.tls]\nport = 5671\n", ["amqp.tls", "certificate"]),
        ("[[amqp.listeners]]\nport = 0\ntls_only = true\n", ["tls_only", "certificate"]),
        ("[[amqp.listeners]]\nport = 0\nheader_0_9 = '0-10'\n", ["amqp.listeners.0.header_0_9"]),
        ("[amqp]\nheader_0_10 = '0-9'\n", ["amqp.header_0_10", "0-10-07-24"]),
        ("log_level = 'loud'\n", ["log_level", "debug"]),
        ("[http]\nport = 99999\n", ["http.port", "65535, and is 99999"]),
        ("[htpp]\nport = 1\n", ["htpp: unknown setting (did you mean http?)"]),
        ("[http]\nport = 5672\n", ["amqp.port and http.port are both 5672"]),
        ("[http]\nport = 9\nhost = '::'\n[admin]\nport = 9\n", ["http.port and admin.port"]),
        ("[amqp]\n[[amqp.listeners]]\nport = 5672\n", ["amqp.port and amqp.listeners.port"]),
        ("[amqp]\nmechanisms = ['MAGIC']\n", ["amqp.mechanisms"]),
        ("[amqp\n", ["not valid TOML"]),
        ("[amqp]\nport = 'x'\nheartbeat_seconds = -1\n", ["amqp.port", "amqp.heartbeat_seconds"]),
    ],
)
def test_a_mistake_in_the_file(tmp_path: Path, toml: str, words: list[str]) -> None:
    file = tmp_path / "gateway.toml"
    file.write_text(toml)
    refused(run("check", file), str(file), *words)
    refused(run("serve", "--config", file, "--data-dir", tmp_path / "data"), *words)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    refused(run(*serve(tmp_path, "--config", tmp_path / "no.toml")), "no.toml", "No such file")


def test_a_mistake_in_the_environment(tmp_path: Path) -> None:
    refused(run(*serve(tmp_path), amqp__heartbeat_seconds="often"), "amqp.heartbeat_seconds")


def test_check_prints_the_effective_settings(tmp_path: Path) -> None:
    file = tmp_path / "gateway.toml"
    file.write_text("[amqp]\nport = 1234\n")
    done = run("check", file)
    assert done.returncode == 0, done
    assert "amqp.port = 1234" in done.stdout
    assert "http.port = 8080" in done.stdout


def test_the_example_is_good() -> None:
    done = run("check", ROOT / "examples" / "gateway.toml")
    assert done.returncode == 0, done.stderr


def test_command_line_over_environment_over_file(tmp_path: Path) -> None:
    file = tmp_path / "gateway.toml"
    file.write_text("[amqp]\nheartbeat_seconds = 11\nchannel_max = 21\nframe_max = 8192\n")
    settings = {"amqp__heartbeat_seconds": 12, "amqp__port": 1}
    with Running(tmp_path, "--config", file, **settings) as gateway:
        tune = gateway.wire(1).tune
        assert gateway.port != 1
        assert (tune.heartbeat, tune.channel_max, tune.frame_max) == (12, 21, 8192)


def test_versions() -> None:
    done = run("versions")
    assert done.returncode == 0, done.stderr
    for version in ("0-8", "0-9", "0-9-1"):
        assert version in done.stdout


SEEN = """
import sys
from gateway.__main__ import cli
cli(sys.argv[1:], standalone_mode=False)
print(*sys.modules, file=sys.stderr)
"""


@pytest.mark.parametrize("words", [["--help"], ["serve", "--help"], ["versions"]])
def test_commands_load_few_modules(words: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SEEN, *words], cwd=ROOT, capture_output=True, text=True, check=True
    )
    loaded = set(done.stderr.split())
    assert "gateway.errors" in loaded
    assert not loaded & {"asyncio", "fastapi", "uvicorn", "gateway.config", "gateway.net"}


def test_a_gateway_starts_without_what_it_may_need_later() -> None:
    imports = "import sys, gateway.__main__, gateway.app; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", imports], cwd=ROOT, capture_output=True, text=True, check=True
    )
    loaded = set(done.stdout.split())
    assert "gateway.adapters.methods.engine" in loaded
    families = ("commands", "performatives", "segments", "methods.drafts", "methods.transitional")
    later = {f"gateway.adapters.{family}.engine" for family in families}
    assert not loaded & {*later, "gateway.commands", "httpx", "joserfc", "pyarrow", "rich"}


def test_version() -> None:
    assert run("version").stdout.startswith("amqp-gateway 0.")


# --- what is taken --------------------------------------------------------------------------------


def test_ports_that_are_taken(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        done = run(*serve(tmp_path, "--amqp-port", port))
        refused(done, f"127.0.0.1:{port}", "in use")
        done = run(*serve(tmp_path, "--http-port", port))
        refused(done, f"127.0.0.1:{port}", "in use")


def test_an_address_that_is_not_ours(tmp_path: Path) -> None:
    refused(run(*serve(tmp_path, "--host", "192.0.2.77")), "192.0.2.77")


def test_data_of_another_gateway(tmp_path: Path) -> None:
    with Running(tmp_path) as gateway:
        refused(run(*serve(tmp_path)), str(tmp_path / "data"))
        gateway.wire(1).ended()


def test_data_where_none_can_be(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a file")
    refused(run(*serve(tmp_path)), "data_dir")


def test_a_spool_where_none_can_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("a file")
    file = tmp_path / "gateway.toml"
    file.write_text(f"[http]\nspool_dir = '{tmp_path / 'file'}'\n")
    refused(run(*serve(tmp_path, "--config", file)), "http.spool_dir", str(tmp_path / "file"))


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="looks into /proc")
def test_large_bodies_wait_beside_the_data(tmp_path: Path) -> None:
    spool = tmp_path / "data" / "spool"
    guest = "Authorization: Basic Z3Vlc3Q6Z3Vlc3Q="
    half = b"x" * (2 << 20)
    with Running(tmp_path) as gateway:

        def spooled() -> bool:
            found = []
            for link in Path(f"/proc/{gateway.process.pid}/fd").iterdir():
                with contextlib.suppress(FileNotFoundError):  # closed meanwhile
                    found.append(str(link.readlink()))
            return any(name.startswith(str(spool)) for name in found)

        base = f"http://127.0.0.1:{gateway.http_port}/v1"
        made = httpx.put(
            f"{base}/admin/vhosts/%2F/queues/q", json={}, auth=("guest", "guest"), timeout=60
        )
        assert made.status_code == 201
        with socket.create_connection(("127.0.0.1", gateway.http_port), 20) as peer:
            head = f"POST /v1/%2F/queues/q/messages HTTP/1.1\r\nHost: localhost\r\n{guest}\r\n"
            peer.sendall(f"{head}Content-Length: {2 * len(half)}\r\n\r\n".encode() + half)
            until(spooled, "a file in the spool")
            assert not list(spool.iterdir()), "it has no name"
            peer.sendall(half)
            assert peer.recv(4096).startswith(b"HTTP/1.1 201 ")
        assert spooled(), "it stands there as long as there is the message"
        gone = httpx.delete(
            f"{base}/admin/vhosts/%2F/queues/q", auth=("guest", "guest"), timeout=60
        )
        assert gone.is_success, gone.text
        until(lambda: not spooled(), "the file is gone")
    assert spool_place(None, None) is None
    assert spool_place(tmp_path / "other", tmp_path) == str(tmp_path / "other")


def test_data_that_is_none_of_ours(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "gateway.db").write_bytes(b"no database at all" * 500)
    refused(run(*serve(tmp_path)), str(tmp_path / "data"))


def test_tls_files(tmp_path: Path) -> None:
    missing, text = tmp_path / "none.pem", tmp_path / "text.pem"
    text.write_text("hello")
    refused(run(*serve(tmp_path, "--tls-cert", missing, "--tls-key", text)), str(missing))
    refused(run(*serve(tmp_path, "--tls-cert", text, "--tls-key", text)), str(text), "TLS")
    refused(run(*serve(tmp_path, "--tls-cert", text)), "amqp.tls", "key")
    refused(run(*serve(tmp_path, "--amqps-port", 0)), "amqp.tls", "certificate")


# --- users ----------------------------------------------------------------------------------------


def enters(gateway: Running, user: str, password: str) -> bool:
    wire = Wire(gateway.port, user=user, password=password)
    with contextlib.suppress(AssertionError, Gone, ConnectionError):
        wire.opened(1).ended()
        return True
    return False


def test_users_while_it_runs(tmp_path: Path) -> None:
    with Running(tmp_path) as gateway:
        folder = ["--data-dir", gateway.data]
        assert not enters(gateway, "alice", "wonder")
        done = run("user", "add", "alice", "--password", "wonder", "--write", "^b", *folder)
        assert done.returncode == 0, done.stderr
        until(lambda: enters(gateway, "alice", "wonder"), "alice may enter")
        assert not enters(gateway, "alice", "wrong")
        wire = gateway.wire(1, user="alice", password="wonder")
        wire.declare("b")
        wire.publish("b", b"x", exchange="amq.direct")
        assert wire.heard(w.ChannelClose).reply_code == 403

        listed = run("user", "list", *folder)
        assert "alice" in listed.stdout and "guest" in listed.stdout, listed
        assert "this machine only" in listed.stdout

        # From standard input, for those who look at the list of processes; and with a tag.
        done = run("user", "add", "bob", "--tag", "monitoring", *folder, text="secret\n")
        assert done.returncode == 0, done.stderr
        until(lambda: enters(gateway, "bob", "secret"), "bob may enter")

        done = run("user", "remove", "alice", *folder)
        assert done.returncode == 0, done.stderr
        until(lambda: not enters(gateway, "alice", "wonder"), "alice may not enter any more")
        assert enters(gateway, "guest", "guest")


def test_a_new_password_and_rights(tmp_path: Path) -> None:
    """``user add`` of a user that exists changes it, as its help says."""
    with Running(tmp_path) as gateway:
        folder = ["--data-dir", gateway.data]
        assert run("user", "add", "carol", "--password", "one", *folder).returncode == 0
        done = run("user", "add", "carol", "--password", "two", "--read", "^$", *folder)
        assert done.returncode == 0, done.stderr
        until(lambda: enters(gateway, "carol", "two"), "the new password")
        assert not enters(gateway, "carol", "one")
        wire = gateway.wire(1, user="carol", password="two")
        wire.declare("c")
        close = wire.call(1, w.BasicGet(queue="c"), w.ChannelClose)
        assert close.reply_code == 403
        # Whoever gives guest a password of its own may log in with it.
        assert run("user", "add", "guest", "--password", "own", *folder).returncode == 0
        until(lambda: enters(gateway, "guest", "own"), "guest's own password")
        assert not enters(gateway, "guest", "guest")


# --- sessions -------------------------------------------------------------------------------------


async def attached(port: int) -> None:
    """A session of 0-10 that is kept."""
    remote = await dial(("127.0.0.1", port), version="0-10")
    await remote.request(AttachSession(1, None, b"mine", seconds=60))
    await remote.close()


def test_sessions_are_listed_and_ended(tmp_path: Path) -> None:
    with Running(tmp_path) as gateway:
        login = ["--url", f"http://127.0.0.1:{gateway.http_port}", "--password", "guest"]
        asyncio.run(attached(gateway.port))
        listed = until(
            lambda: found if "kept" in (found := run("session", "list", *login).stdout) else None,
            "the session is kept",
        )
        assert "mine" in listed and "guest" in listed
        done = run("session", "end", "1", *login)
        assert done.returncode == 0 and "session 1 has ended" in done.stdout, done
        assert "mine" not in run("session", "list", *login).stdout
        refused(run("session", "end", "1", *login), "404")


# --- probe ----------------------------------------------------------------------------------------


def test_a_broker_is_probed(tmp_path: Path) -> None:
    with Running(tmp_path) as gateway:
        done = run("probe", f"amqp://127.0.0.1:{gateway.port}")
        assert done.returncode == 0, done
        rows = [[cell.strip() for cell in line.split("│")] for line in done.stdout.splitlines()]
        found: dict[str, list[str]] = {}
        version = ""
        for row in (row[1:-1] for row in rows if len(row) > 5):
            version = row[0] or version  # cells go on in the next line
            before = found.get(version, [""] * len(row))
            found[version] = [
                f"{one} {more}".strip() for one, more in zip(before, row, strict=True)
            ]
        for version in ("0.8a2", "0-8", "0-9", "0-9-1", "0-10", "1.0"):
            _, product, mechanism, able, error = found[version]
            words = able.replace(",", "").split()
            assert {"confirms", "transactions", "declaring"} <= set(words), (version, found)
            assert ("browsing" in words) is (version in ("0-10", "1.0"))
            assert error == ""
            assert product.startswith("amqp-gateway") or version == "0.8a2"
            assert mechanism or version == "0.8a2"
        assert all(found[version][4] for version in ("0-9a0", "0-10-07-24")), "not on this listener"
    refused(run("probe", f"amqp://127.0.0.1:{gateway.port}", "--seconds", "1"), "no version")
    refused(run("probe", "http://127.0.0.1"), "should be amqp://host:port")


# --- shovels --------------------------------------------------------------------------------------

SHOVEL = """
[[shovels]]
name = "over"
source = { queue = "here" }
destination = { queue = "there" }
"""


def test_shovels_are_listed_paused_and_resumed(tmp_path: Path) -> None:
    file = tmp_path / "gateway.toml"
    file.write_text(SHOVEL)
    with Running(tmp_path, "--config", file) as gateway:
        login = ["--url", f"http://127.0.0.1:{gateway.http_port}", "--password", "guest"]

        def listed(state: str) -> str | None:
            found = run("shovel", "list", *login).stdout
            return found if state in found else None

        told = until(lambda: listed("waiting"), "waiting for a queue")
        assert re.search(r"20\d\d-\d\d-\d\d \d\d:\d\d:\d\d", told)
        assert "no queue 'there'" in told
        for action, state in (("pause", "paused"), ("resume", "waiting")):
            done = run("shovel", action, "over", *login)
            assert done.returncode == 0 and "shovel over" in done.stdout, done
            until(lambda state=state: listed(state), state)  # type: ignore[misc]
        refused(run("shovel", "pause", "none", *login), "404")


# --- branches -------------------------------------------------------------------------------------


def test_branches_are_decided_by_hand(tmp_path: Path) -> None:
    with Running(tmp_path) as gateway:
        wire = gateway.wire(1)
        wire.declare("q", durable=True)
        for number in (1, 2):
            with Coordinator(gateway.port) as coordinator:
                coordinator.prepare(Xid(number, b"g", b"b"), "q")
        where = ["--url", f"http://127.0.0.1:{gateway.http_port}"]
        login = [*where, "--password", "guest"]
        listed = run("branch", "list", *login)
        assert "1:67:62" in listed.stdout and "2:67:62" in listed.stdout, listed
        assert listed.stdout.count("prepared") == 2

        done = run("branch", "commit", "1:67:62", *login, text="n\n")
        assert done.returncode == 1 and "not atomic" in done.stderr, done
        done = run("branch", "commit", "1:67:62", *login, text="y\n")
        assert done.returncode == 0 and "1:67:62 of guest is committed" in done.stdout, done
        done = run("branch", "rollback", "2:67:62", *where, "--yes", text="guest\n")
        assert "rolled-back" in done.stdout and "not atomic" in done.stderr, done
        assert wire.everything("q") == [b"from a branch"]

        refused(run("branch", "commit", "1:67:62", *login, "--yes"), "409", "not prepared")
        gateway.kill()
        gateway.start()
        where = ["--url", f"http://127.0.0.1:{gateway.http_port}", "--password", "guest"]
        with Coordinator(gateway.port) as coordinator:
            assert len(in_doubt(coordinator)) == 2
            assert coordinator.do(w10.DtxCommit(Xid(1, b"g", b"b"))).status == 4
            assert coordinator.do(w10.DtxRollback(Xid(2, b"g", b"b"))).status == 5
            coordinator.do(w10.DtxForget(Xid(1, b"g", b"b")))
            assert len(in_doubt(coordinator)) == 1
        done = run("branch", "forget", "2:67:62", *where)
        assert done.returncode == 0, done
        refused(run("branch", "forget", "2:67:62", *where), "404")


def in_doubt(coordinator: Coordinator) -> list[object]:
    found: list[object] = list(read_array(coordinator.do(w10.DtxRecover()).in_doubt))
    return found


def test_mistakes_about_branches(tmp_path: Path) -> None:
    refused(run("branch", "list", "--url", "ftp://x", "--password", "x"), "ftp://x")
    with Running(tmp_path) as gateway:
        where = ["--url", f"http://127.0.0.1:{gateway.http_port}"]
        refused(run("branch", "list", *where, "--password", "wrong"), "401")
        refused(run("branch", "forget", "nonsense", *where, "--password", "guest"), "404")
        refused(run("branch", "list", *where, "--password", "guest", "--vhost", "no"), "no")


def test_a_user_of_a_virtual_host_that_is_not_there(tmp_path: Path) -> None:
    add = ("user", "add", "x", "--password", "y", "--data-dir", tmp_path)
    refused(run(*add, "--vhost", "nope"), "no virtual host 'nope'", "there are: /", "PUT /v1/admin")
    assert "guest" not in run("user", "list", "--data-dir", tmp_path).stdout
    done = run(*add)
    assert done.returncode == 0 and "will not make the user guest" in done.stdout
    done = run(*add)
    assert done.returncode == 0 and "guest" not in done.stdout
    with Running(tmp_path / "shop", vhosts='["/", "shop"]') as gateway:
        add = ("user", "add", "x", "--password", "y", "--data-dir", gateway.data)
        refused(run(*add, "--vhost", "shpo"), "did you mean shop?")
        assert run(*add, "--vhost", "shop").returncode == 0


def test_a_port_that_is_taken(tmp_path: Path) -> None:
    with Running(tmp_path / "one") as gateway:
        ports = ("--amqp-port", gateway.port, "--http-port", 0)
        done = run("serve", *ports, "--data-dir", tmp_path / "other")
        refused(done, f"127.0.0.1:{gateway.port}: Address already in use; ", "--amqp-port")
        done = run("serve", "--amqp-port", 0, "--http-port", 0, "--data-dir", gateway.data)
        refused(done, "another gateway uses this data directory", "--data-dir")


def test_lists_for_programs(tmp_path: Path) -> None:
    with Running(tmp_path) as gateway:
        login = ("--url", f"http://127.0.0.1:{gateway.http_port}", "--password", "guest")
        lists = [(*one.split(), *login) for one in ("branch list", "session list", "shovel list")]
        lists += [("policy", "list", *login), ("user", "list", "--data-dir", str(gateway.data))]
        for command in (*lists, ("versions",)):
            done = run(*command, "--json")
            assert done.returncode == 0, done
            assert isinstance(json.loads(done.stdout), list), done
        (user,) = json.loads(run(*lists[-1], "--json").stdout)
        assert user["name"] == "guest" and user["permissions"][0]["vhost"] == "/"
    file = tmp_path / "gateway.toml"
    file.write_text("[http]\nport = 81\n")
    assert json.loads(run("check", file, "--json").stdout)["http"]["port"] == 81


def test_a_misspelt_table_in_the_environment(tmp_path: Path) -> None:
    file = tmp_path / "gateway.toml"
    file.write_text("")
    done = run("check", file, htpp__port="1")
    refused(done, "AMQP_GATEWAY_HTPP__PORT: unknown setting htpp (did you mean http?)")


def test_user_mistakes(tmp_path: Path) -> None:
    folder = ["--data-dir", tmp_path / "data"]
    refused(run("user", "remove", "nobody", *folder), "nobody")
    refused(run("user", "add", "x", "--password", "", *folder), "password")
    refused(run("user", "add", "x", "--password", "y", "--tag", "king", *folder), "king")
    refused(run("user", "add", "x", "--password", "y", "--read", "(", *folder), "(")


def test_users_before_the_first_start(tmp_path: Path) -> None:
    data = tmp_path / "data"
    assert run("user", "add", "dora", "--password", "d", "--data-dir", data).returncode == 0
    with Running(tmp_path) as gateway:
        assert enters(gateway, "dora", "d")


# --- kinds of store -------------------------------------------------------------------------------


def test_volatile_keeps_nothing(tmp_path: Path) -> None:
    with Running(tmp_path, "--volatile") as gateway:
        wire = gateway.wire(1)
        wire.declare("q", durable=True)
        wire.call(1, w.ConfirmSelect(), w.ConfirmSelectOk)
        wire.publish("q", b"x", PERSISTENT)
        wire.heard(w.BasicAck)
        assert wire.got("q") == b"x"
        wire.ended()
        assert not gateway.data.exists()
        assert gateway.stop() == 0
        gateway.start()
        wire = gateway.wire(1)
        close = wire.call(1, w.QueueDeclare(queue="q", passive=True), w.ChannelClose)
        assert close.reply_code == 404


def test_virtual_hosts_of_the_file(tmp_path: Path) -> None:
    with Running(tmp_path, vhosts='["/", "two"]') as gateway:
        wire = Wire(gateway.port).logged_in()
        wire.say(0, w.ConnectionTuneOk(0, 0, 0), w.ConnectionOpen("two"))
        wire.heard(w.ConnectionOpenOk)
        wire = Wire(gateway.port).logged_in()
        wire.say(0, w.ConnectionTuneOk(0, 0, 0), w.ConnectionOpen("three"))
        assert wire.heard(w.ConnectionClose).reply_code == 530

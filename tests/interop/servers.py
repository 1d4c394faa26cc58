"""Servers as ordinary child processes on free loopback ports: the gateway, and RabbitMQ."""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from tests import reaper
from tests.net import preloaded

ROOT = preloaded.ROOT
PEERS = ROOT / ".peers"
INSTALL = "run tests/interop/install-peers"
HOST = "127.0.0.1"
START_SECONDS = 90.0
STOP_SECONDS = 15.0

_RABBITMQ_SCRIPTS = ("/usr/lib/rabbitmq/bin/rabbitmq-server",)


class ServerError(RuntimeError):
    """The server did not start; the message carries the end of its log."""


def free_ports(count: int) -> list[int]:
    """Distinct ports that nobody listens on now, for servers that cannot choose their own.

    They lie below those that systems give to outgoing connections: nobody is handed one of them
    before our server has it, or between its death and its return.
    """
    found: list[int] = []
    chance = random.SystemRandom()
    while len(found) < count:
        port = chance.randrange(12_000, 32_000)
        with socket.socket() as probe:
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
        if port not in found:
            found.append(port)
    return found


def answers(port: int) -> bool:
    try:
        with socket.create_connection((HOST, port), timeout=1.0):
            return True
    except OSError:
        return False


def greets(port: int, seconds: float = 5.0) -> bool:
    """Whether an AMQP header gets an answer: a server may accept connections and be deaf."""
    try:
        with socket.create_connection((HOST, port), timeout=seconds) as wire:
            wire.sendall(b"AMQP\x00\x00\x09\x01")
            return bool(wire.recv(1))
    except OSError:
        return False


@dataclass(frozen=True)
class Certificates:
    """PEM files: an authority, a server's pair, a client's pair and a broken client's pair."""

    folder: Path

    @property
    def ca(self) -> Path:
        return self.folder / "ca_certificate.pem"

    @property
    def server_cert(self) -> Path:
        return self.folder / "server_certificate.pem"

    @property
    def server_key(self) -> Path:
        return self.folder / "server_key.pem"


def make_certificates(folder: Path) -> Certificates:
    """Write a throw-away authority and its certificates under the names py-amqp's suite expects."""
    import trustme

    folder.mkdir(parents=True, exist_ok=True)
    authority = trustme.CA()
    authority.cert_pem.write_to_path(folder / "ca_certificate.pem")
    for who, names in (("server", ("localhost", HOST)), ("client", ("client@localhost",))):
        pair = authority.issue_cert(*names)
        pair.private_key_pem.write_to_path(folder / f"{who}_key.pem")
        for index, blob in enumerate(pair.cert_chain_pems):
            blob.write_to_path(folder / f"{who}_certificate.pem", append=index > 0)
    stranger = trustme.CA().issue_cert("client@localhost")
    stranger.private_key_pem.write_to_path(folder / "client_key_broken.pem")
    broken = folder / "client_certificate_broken.pem"
    broken.write_bytes((folder / "client_certificate.pem").read_bytes())
    for key in folder.glob("*_key*.pem"):
        key.chmod(0o600)
    return Certificates(folder)


@dataclass
class Server:
    """A running server: where it listens, its files, and how to end it."""

    name: str
    port: int
    folder: Path
    log: Path
    http_port: int | None = None
    amqps_port: int | None = None
    anonymous_port: int | None = None
    """Where SASL ANONYMOUS of AMQP 1.0 is taken."""
    websocket_port: int | None = None
    """Where AMQP 1.0 is spoken over WebSocket; the path does not matter, but for the gateway."""
    certificates: Certificates | None = None
    host: str = HOST
    processes: list[preloaded.Process] = field(default_factory=list)
    mapper: int = 0
    """Where the port mapper of a RabbitMQ listens."""
    before_kill: Callable[[], object] = lambda: None

    def tail(self, characters: int = 4000) -> str:
        try:
            return self.log.read_text(errors="replace")[-characters:]
        except OSError:
            return ""

    @property
    def alive(self) -> bool:
        return bool(self.processes) and self.processes[0].poll() is None

    def kill(self) -> None:
        """End it at once, as a power cut would; files stay."""
        if self.alive:
            self.before_kill()
        for process in self.processes:
            end_group(process, signal.SIGKILL)
        self.processes.clear()

    def stop(self) -> None:
        for process in self.processes:
            end_group(process, signal.SIGTERM)
        self.processes.clear()


def end_group(process: preloaded.Process, how: signal.Signals = signal.SIGKILL) -> None:
    """Signal the group this process leads, and insist after a while."""
    for sign in (how, signal.SIGKILL):
        if process.poll() is not None:
            return
        try:
            os.killpg(process.pid, sign)
            process.wait(STOP_SECONDS)
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue


def environment(**more: str) -> dict[str, str]:
    """This process's environment, for a child process that imports the gateway or these tests."""
    return {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1", **more}


def _spawn(
    command: Sequence[str], environment: Mapping[str, str], folder: Path, log: Path
) -> subprocess.Popen[bytes]:
    with log.open("ab") as sink:
        return subprocess.Popen(
            command,
            cwd=folder,
            env={**environment, **reaper.inherited()},
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def _wait_for_ports(server: Server, ports: Sequence[int]) -> None:
    _wait(server, lambda: all(answers(port) for port in ports), f"answer on {list(ports)}")


def _wait(server: Server, ready: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not ready():
        if not server.alive:
            tail = server.tail()
            server.kill()
            raise ServerError(f"{server.name} ended while starting:\n{tail}")
        if time.monotonic() > deadline:
            server.kill()
            raise ServerError(
                f"{server.name} does not {what} after {START_SECONDS:.0f} s:\n{server.tail()}"
            )
        time.sleep(0.1)


# --- the gateway ---------------------------------------------------------------------------------


def start_gateway(
    folder: Path,
    *,
    port: int | None = None,
    tls: bool = False,
    extra: Sequence[str] = (),
) -> Server:
    """`python -m gateway serve` with its data under `folder`; give `port` to restart in place."""
    amqp = port or free_ports(1)[0]
    data = folder / "data"
    data.mkdir(parents=True, exist_ok=True)
    command = ["serve", "--amqp-port", str(amqp), "--http-port", "0", "--data-dir", str(data)]
    server = Server("gateway", amqp, folder, folder / "gateway.log")
    if tls:
        server.certificates = make_certificates(folder / "certs")
        command += ["--amqps-port", "0"]
        command += ["--tls-cert", str(server.certificates.server_cert)]
        command += ["--tls-key", str(server.certificates.server_key)]
    command += extra
    before = server.log.stat().st_size if server.log.exists() else 0
    with server.log.open("ab") as sink:
        process = preloaded.start(
            "gateway",
            command,
            environment(COLUMNS="200"),
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=sink,
            folder=folder,
        )
    server.processes.append(process)

    def said() -> str:
        return server.log.read_bytes()[before:].decode(errors="replace")

    _wait(server, lambda: "data in " in said(), "say that it is ready")
    server.http_port = _port(said(), r"HTTP on http://\S+:(\d+)/")
    server.amqps_port = _port(said(), r"AMQP over TLS on \S+:(\d+)")
    return server


def _port(log: str, pattern: str) -> int | None:
    found = re.search(pattern, log)
    return int(found[1]) if found else None


# --- RabbitMQ ------------------------------------------------------------------------------------


def rabbitmq_script() -> str | None:
    """Debian's start script behind the wrapper that insists on its own user and directories."""
    for path in _RABBITMQ_SCRIPTS:
        if os.access(path, os.X_OK):
            return path
    return None


def rabbitmq_missing() -> str | None:
    """Why RabbitMQ cannot be started here, or None."""
    if rabbitmq_script() is None or shutil.which("epmd") is None:
        return f"RabbitMQ is not installed; {INSTALL} (apt-get install rabbitmq-server)"
    return None


def start_rabbitmq(
    folder: Path, *, port: int | None = None, tls: bool = False, plugins: Sequence[str] = ()
) -> Server:
    """Debian's RabbitMQ as an ordinary process: own node name, ports, directories; loopback only.

    Give `port` to restart in place.

    The broker, its distribution port and its port mapper (epmd) are all bound to 127.0.0.1; epmd
    is our own child, so nothing outlives the server.
    """
    reason = rabbitmq_missing()
    script = rabbitmq_script()
    if reason or script is None:
        raise ServerError(reason or "RabbitMQ is not installed")
    distribution, mapper, amqps, management, chosen = free_ports(5)
    port = port or chosen
    folder.mkdir(parents=True, exist_ok=True)
    server = Server("rabbitmq", port, folder, folder / "rabbitmq.log", mapper=mapper)
    lines = [f"listeners.tcp.1 = {HOST}:{port}", "log.console.level = info"]
    waiting = [port]
    if tls:
        server.certificates = certificates = make_certificates(folder / "certs")
        server.amqps_port = amqps
        lines += [
            f"listeners.ssl.1 = {HOST}:{amqps}",
            f"ssl_options.cacertfile = {certificates.ca}",
            f"ssl_options.certfile = {certificates.server_cert}",
            f"ssl_options.keyfile = {certificates.server_key}",
            "ssl_options.verify = verify_peer",
            "ssl_options.fail_if_no_peer_cert = false",
        ]
        waiting.append(amqps)
    if "rabbitmq_management" in plugins:
        server.http_port = management
        lines += [f"management.tcp.ip = {HOST}", f"management.tcp.port = {management}"]
        waiting.append(management)
    (folder / "rabbitmq.conf").write_text("\n".join(lines) + "\n")
    (folder / "enabled_plugins").write_text(f"[{','.join(plugins)}].\n")
    (folder / "env.conf").write_text("")
    loopback = "{127,0,0,1}"
    environment = {
        "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
        "LANG": "C.UTF-8",
        "HOME": str(folder),
        "ERL_EPMD_ADDRESS": HOST,
        "ERL_EPMD_PORT": str(mapper),
        "RABBITMQ_CONF_ENV_FILE": str(folder / "env.conf"),
        "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq.conf"),
        "RABBITMQ_DIST_PORT": str(distribution),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "enabled_plugins"),
        "RABBITMQ_GENERATED_CONFIG_DIR": str(folder / "generated"),
        "RABBITMQ_LOG_BASE": str(folder / "log"),
        "RABBITMQ_MNESIA_BASE": str(folder / "mnesia"),
        "RABBITMQ_NODENAME": f"interop{port}@localhost",
        "RABBITMQ_PID_FILE": str(folder / "pid"),
        # few schedulers: the machine is shared with the clients
        "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": (
            f"+S 2:2 -kernel inet_dist_use_interface {loopback}"
        ),
    }
    epmd = shutil.which("epmd") or "epmd"
    server.processes.append(_spawn([script], environment, folder, server.log))
    server.processes.append(
        _spawn([epmd, "-address", HOST, "-port", str(mapper)], environment, folder, server.log)
    )
    _wait_for_ports(server, waiting)
    server.before_kill = partial(keep_declarations, server)
    return server


def keep_declarations(server: Server) -> None:
    """RabbitMQ 3 answers a declaration before it is on disk: one killed soon after may come back
    without a durable queue, which is not what these tests are about."""
    with suppress(subprocess.TimeoutExpired):
        call = ["erl_call", "-sname", f"interop{server.port}@localhost", "-a", "mnesia sync_log"]
        environment = {"HOME": str(server.folder), "ERL_EPMD_PORT": str(server.mapper)}
        # It may have ended already. `rabbitmqctl eval` would take seconds.
        subprocess.run(call, env=environment | reaper.inherited(), capture_output=True, timeout=180)


def rabbitmqctl(server: Server, *words: str) -> str:
    """Command a node that `start_rabbitmq` has started; what it says."""
    environment = {
        "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
        "LANG": "C.UTF-8",
        "HOME": str(server.folder),
        "ERL_EPMD_PORT": str(server.mapper),
        "RABBITMQ_CONF_ENV_FILE": str(server.folder / "env.conf"),
        **reaper.inherited(),
    }
    command = ["/usr/lib/rabbitmq/bin/rabbitmqctl", "-q", "-n", f"interop{server.port}@localhost"]
    done = subprocess.run([*command, *words], env=environment, capture_output=True, timeout=180)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.decode()


@contextmanager
def rabbitmq_memory_alarm(server: Server) -> Iterator[None]:
    """It reads nothing from its publishers meanwhile."""
    rabbitmqctl(server, "set_vm_memory_high_watermark", "absolute", "1")
    try:
        yield
    finally:
        rabbitmqctl(server, "set_vm_memory_high_watermark", "0.4")


# --- a gateway before another broker -------------------------------------------------------------


def start_facade(
    folder: Path, upstream: Server, *, more: str = "", extra: Sequence[str] = ()
) -> Server:
    """A gateway in facade mode before a broker. ``more`` is added to the settings of the upstream,
    in TOML. The broker is not a part of the server."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "gateway.toml"
    given = "" if "addresses" in more else f'addresses = ["amqp://{HOST}:{upstream.port}"]\n'
    file.write_text(
        f'[[upstreams]]\nname = "{upstream.name}"\n{given}{more}\n'
        f'[[facades]]\nupstream = "{upstream.name}"\n'
    )
    return start_gateway(folder, extra=["--config", str(file), *extra])


def start_facade_and_rabbitmq(folder: Path) -> Server:
    """One server of both: its clients talk to the facade."""
    rabbitmq = start_rabbitmq(folder / "rabbitmq")
    try:
        server = start_facade(folder / "facade", rabbitmq)
    except BaseException:
        rabbitmq.stop()
        raise
    server.name = "facade"
    server.processes += rabbitmq.processes
    return server


def start(
    name: str, folder: Path | None = None, *, port: int | None = None, tls: bool = False
) -> Server:
    """Start the named target in `folder` (default: a new temporary one); with `port`, again."""
    place = folder or Path(tempfile.mkdtemp(prefix=f"interop-{name}-"))
    if name == "rabbitmq":
        return start_rabbitmq(place, port=port, tls=tls)
    if name == "gateway":
        return start_gateway(place, port=port, tls=tls)
    if name == "facade":
        return start_facade_and_rabbitmq(place)
    from tests.interop import brokers  # which is built on this module

    if name in brokers.KINDS:
        return brokers.KINDS[name].start(place)
    raise ValueError(f"{name!r} is none of rabbitmq, {', '.join(brokers.KINDS)}")


def main() -> None:
    """`python -m tests.interop.servers gateway|rabbitmq|artemis|...`: run one until interrupted."""
    server = start(sys.argv[1], tls="--tls" in sys.argv)
    print(f"{server.name} amqp={server.port} amqps={server.amqps_port} folder={server.folder}")
    sys.stdout.flush()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        while server.alive:
            time.sleep(0.5)
    except KeyboardInterrupt:
        pass
    finally:
        server.stop()


if __name__ == "__main__":
    main()

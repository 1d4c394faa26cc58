"""Brokers of AMQP 1.0 nobody here wrote: Artemis, Qpid Broker-J, RabbitMQ 3.10 with its plugin.

All listen on the loopback only, know guest with the password guest, keep their files in the folder
they are given, and say what they call a queue and a topic: `Node` has the addresses.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.interop.compiled import compiled
from tests.interop.servers import (
    HOST,
    INSTALL,
    PEERS,
    START_SECONDS,
    Server,
    ServerError,
    _spawn,
    _wait_for_ports,
    free_ports,
    rabbitmq_missing,
    start_facade_and_rabbitmq,
    start_gateway,
    start_rabbitmq,
)

THOROUGH = "INTEROP_THOROUGH_JAVA"
"""Set in the environment by who measures: Java compiles as it does by default."""
JAVA = Path(__file__).parent / "java"
Json = dict[str, object]
HEADER_SASL = b"AMQP\x03\x01\x00\x00"
_MEMORY = ("-Xmx1g",)
_QUICK_START = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
_QUIET = "-Dorg.slf4j.simpleLogger.log.org.apache.activemq.audit=off"


def java_missing(group: str, artefact: str) -> str | None:
    """Why nothing can be run from `.peers/java/<group>`, or None."""
    if shutil.which("java") is None or shutil.which("javac") is None:
        return f"a JDK is not installed; {INSTALL} (apt-get install default-jdk-headless)"
    if not list((PEERS / "java" / group).glob(f"{artefact}-*.jar")):
        return f"{artefact} is not there; {INSTALL} (Maven)"
    return None


def classpath(group: str) -> str:
    return str(PEERS / "java" / group / "*")


def _environment(folder: Path) -> dict[str, str]:
    return {
        "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
        "LANG": "C.UTF-8",
        "HOME": str(folder),
        "QPID_WORK": str(folder),
    }


def _run_java(server: Server, words: Sequence[str]) -> Server:
    server.folder.mkdir(parents=True, exist_ok=True)
    environment = _environment(server.folder)
    quick = () if os.environ.get(THOROUGH) else _QUICK_START
    command = ["java", *_MEMORY, *quick, f"-Djava.io.tmpdir={server.folder}", *words]
    server.processes.append(_spawn(command, environment, server.folder, server.log))
    _wait_for_ports(server, [server.port])
    return server


# --- Artemis -------------------------------------------------------------------------------------


def artemis_missing() -> str | None:
    return java_missing("artemis", "artemis-amqp-protocol")


def start_artemis(
    folder: Path, configuration: Path | None = None, port: int | None = None
) -> Server:
    """An embedded Artemis; its one port serves PLAIN, ANONYMOUS and WebSocket (`amqp`) alike. Its
    addresses appear on first use, unless a ``configuration`` (`broker.xml`) names them."""
    if reason := artemis_missing():
        raise ServerError(reason)
    port = port or free_ports(1)[0]
    server = Server("artemis", port, folder, folder / "artemis.log")
    server.anonymous_port = server.websocket_port = port
    jars = classpath("artemis")
    program = JAVA / "Artemis.java"
    words = [_QUIET, "-cp", f"{jars}:{compiled([program], jars)}", program.stem]
    more = [] if configuration is None else [str(configuration)]
    return _run_java(server, [*words, str(port), str(folder), *more])


# --- Broker-J ------------------------------------------------------------------------------------


def broker_j_missing() -> str | None:
    if importlib.util.find_spec("proton") is None:
        return f"the Python package python-qpid-proton is not installed; {INSTALL}"
    return java_missing("broker-j", "qpid-broker-core")


PROTOCOLS = [f"AMQP_{version}" for version in ("0_8", "0_9", "0_9_1", "0_10", "1_0")]


def broker_j_configuration(folder: Path, port: int, anonymous: int, websocket: int) -> Json:
    """Its initial configuration: three ports, one host, queues that appear on first use."""
    plain = {
        "name": "plain",
        "type": "Plain",
        "secureOnlyMechanisms": [],  # or it would keep PLAIN for TLS
        "users": [{"name": "guest", "type": "managed", "password": "guest"}],
    }
    aliases = [
        {"name": kind, "type": kind} for kind in ("nameAlias", "defaultAlias", "hostnameAlias")
    ]

    def listener(name: str, number: int, provider: str, transport: str = "TCP") -> Json:
        return {
            "name": name,
            "type": "AMQP",
            "port": number,
            "bindingAddress": HOST,
            "transports": [transport],
            "protocols": ["AMQP_1_0"] if transport == "WS" else PROTOCOLS,
            "authenticationProvider": provider,
            "virtualhostaliases": aliases,
        }

    queues = {
        "pattern": r"queue\..*",
        "createdOnPublish": True,
        "createdOnConsume": True,
        "nodeType": "queue",
        "attributes": {},
    }
    host = {
        "name": "default",
        "type": "DERBY",  # a host in memory refuses durable messages of 1.0
        "storePath": str(folder / "messages"),
        "nodeAutoCreationPolicies": [queues],
    }
    everything = {"name": "root", "type": "NameAndLevel", "level": "WARN", "loggerName": "ROOT"}
    logger = {"name": "log", "type": "Console", "brokerloginclusionrules": [everything]}
    return {
        "name": "broker",
        "modelVersion": "9.0",
        "brokerloggers": [logger],
        "authenticationproviders": [plain, {"name": "anonymous", "type": "Anonymous"}],
        "ports": [
            listener("amqp", port, "plain"),
            listener("anonymous", anonymous, "anonymous"),
            listener("websocket", websocket, "plain", "WS"),
        ],
        "virtualhostnodes": [
            {
                "name": "default",
                "type": "JSON",
                "storePath": str(folder / "hosts"),
                "defaultVirtualHostNode": "true",
                "virtualHostInitialConfiguration": json.dumps(host),
            }
        ],
    }


def start_broker_j(
    folder: Path, change: Callable[[Json], None] = lambda initial: None, store: str = "Memory"
) -> Server:
    """Qpid Broker-J; PLAIN on its port, ANONYMOUS on another. ``change`` may add to its initial
    configuration, and with the store JSON it keeps that in ``config.json``."""
    if reason := broker_j_missing():
        raise ServerError(reason)
    port, anonymous, websocket = free_ports(3)
    server = Server("broker_j", port, folder, folder / "broker_j.log")
    server.anonymous_port, server.websocket_port = anonymous, websocket
    folder.mkdir(parents=True, exist_ok=True)
    initial = folder / "initial.json"
    configuration = broker_j_configuration(folder, port, anonymous, websocket)
    change(configuration)
    initial.write_text(json.dumps(configuration, indent=1))
    words = [f"-Dqpid.max_message_size={256 << 20}", "-cp", classpath("broker-j")]
    words += ["org.apache.qpid.server.Main", "-icp", str(initial), "-st", store]
    _run_java(server, words)
    _wait_for_host(server)
    return server


def _wait_for_host(server: Server) -> None:
    """It listens before its virtual host is active, and says so to whoever comes too early."""
    from proton import ConnectionException, Timeout
    from proton.utils import BlockingConnection

    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            url = f"amqp://guest:guest@{server.host}:{server.port}"
            BlockingConnection(url, timeout=5.0, allowed_mechs="PLAIN").close()
            return
        except (ConnectionException, Timeout) as error:
            if time.monotonic() > deadline:
                server.kill()
                raise ServerError(f"{server.name}: {error}\n{server.tail()}") from error
        time.sleep(0.1)


# --- RabbitMQ 3.10 with its plugin ---------------------------------------------------------------


def start_rabbitmq_1_0(folder: Path) -> Server:
    server = start_rabbitmq(folder, plugins=["rabbitmq_amqp1_0"])
    server.name = "rabbitmq_1_0"
    server.anonymous_port = server.port
    return server


# --- all of them ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Kind:
    """A kind of server: why it cannot be started here, how it is, what it calls its nodes."""

    missing: Callable[[], str | None]
    start: Callable[[Path], Server]
    queue: str
    topic: str
    declares: bool = False
    """Whether queues must be declared before use (by AMQP 0-9-1), as they do not just appear."""


KINDS: dict[str, Kind] = {
    "gateway": Kind(lambda: None, start_gateway, "/queues/{}", "/exchanges/amq.topic/{}", True),
    "facade": Kind(
        rabbitmq_missing, start_facade_and_rabbitmq, "/queues/{}", "/exchanges/amq.topic/{}", True
    ),
    "artemis": Kind(artemis_missing, start_artemis, "queue.{}", "topic.{}"),
    "broker_j": Kind(broker_j_missing, start_broker_j, "queue.{}", "amq.topic/{}"),
    "rabbitmq_1_0": Kind(rabbitmq_missing, start_rabbitmq_1_0, "/queue/{}", "/topic/{}"),
}


def queue_address(server: Server, name: str) -> str:
    """The address of a queue that is there from now on, or appears on first use."""
    kind = KINDS[server.name]
    if kind.declares:
        declare(server, name)
    return kind.queue.format(name)


def topic_address(server: Server, name: str) -> str:
    return KINDS[server.name].topic.format(name)


def declare(server: Server, name: str) -> None:
    """Declare a durable queue by AMQP 0-9-1, with a client that is known to be right."""
    import pika

    with pika.BlockingConnection(pika.ConnectionParameters(server.host, server.port)) as wire:
        wire.channel().queue_declare(name, durable=True)

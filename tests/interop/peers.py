"""The client programs: how each is started, what it needs, and what each of its checks must see."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from tests.interop import specs_xml
from tests.interop.compiled import compiled
from tests.interop.servers import INSTALL, PEERS, environment

CLIENTS = Path(__file__).parent / "clients"
SYSTEM_PYTHON = "/usr/bin/python3"
Seen = Mapping[str, Any]

# What every client should see, whatever its language. A program's own table below overrides it
# where its library hides a part of the answer.
EXPECTED: dict[str, Seen] = {
    "order": {"count": 200, "in_order": True},
    "large": {"size": 1048593, "same": True},
    "tx": {"counts": [0, 1, 1, 1]},
    "requeue": {"redelivered": [False, True], "gone": True},
    "missing_queue": {"code": 404, "alive": True},
    "inequivalent": {"code": 406, "alive": True},
    "exclusive": {"code": 405, "alive": True},
    "missing_exchange": {"code": 404, "alive": True},
    "double_ack": {"code": 406, "alive": True},
    "returned": {"code": 312, "text": "NO_ROUTE", "body": "come back"},
    "bad_credentials": {"refused": True, "code": 403},
    "unknown_vhost": {"refused": True, "code": 530},
}

_GOT = {"body": "hello", "content_type": "text/plain", "redelivered": False, "then_empty": True}
PLAIN_GET = {**_GOT, "headers": {"n": 7, "s": "x"}}
FULL_GET = {
    **_GOT,
    "correlation_id": "c-1",
    "headers": {"n": 7, "s": "x", "deep": {"list": [1, "two", None, True]}},
}
REFUSED = {"refused": True}


def python_module(name: str) -> Callable[[], str | None]:
    def missing() -> str | None:
        if importlib.util.find_spec(name) is None:
            return f"the Python package {name} is not installed; {INSTALL}"
        return None

    return missing


def executable(name: str, package: str) -> Callable[[], str | None]:
    def missing() -> str | None:
        if shutil.which(name) is None:
            return f"{name} is not installed; {INSTALL} (apt-get install {package})"
        return None

    return missing


@cache
def amqplib_missing() -> str | None:
    command = [SYSTEM_PYTHON, "-c", "import amqplib"]
    if not Path(SYSTEM_PYTHON).exists() or subprocess.run(command, capture_output=True).returncode:
        return f"python3-amqplib is not installed; {INSTALL} (apt-get install python3-amqplib)"
    return None


def node_missing() -> str | None:
    if shutil.which("node") is None or not (PEERS / "npm/node_modules/amqplib").is_dir():
        return f"Node or its package amqplib is not installed; {INSTALL} (npm install amqplib)"
    return None


def java_missing() -> str | None:
    if shutil.which("javac") is None or not list((PEERS / "java").glob("amqp-client-*.jar")):
        return f"a JDK or the RabbitMQ Java client is not installed; {INSTALL}"
    return None


@dataclass(frozen=True)
class Peer:
    """A client program and its checks; `tables` holds what they must see."""

    name: str
    program: str
    missing: Callable[[], str | None]
    checks: Mapping[str, Seen]
    interpreter: str = sys.executable
    spec: str | None = None
    seconds: float = 240.0
    environment: Mapping[str, str] = field(default_factory=dict)

    def command(self) -> list[str]:
        if self.program.endswith(".java"):
            return java_command(CLIENTS / self.program)
        return [self.interpreter, str(CLIENTS / self.program)]

    def variables(self, scratch: Path) -> dict[str, str]:
        found = environment(PYTHONWARNINGS="ignore", **self.environment)
        if self.spec:
            to = scratch / f"amqp-{self.spec}.xml"
            found["INTEROP_SPEC"] = str(specs_xml.write(self.spec, to))
        found["INTEROP_NODE_MODULES"] = str(PEERS / "npm" / "node_modules")
        return found


def java_command(source: Path) -> list[str]:
    jars = ":".join(str(jar) for jar in sorted((PEERS / "java").glob("*.jar")))
    classes = compiled([source], jars)
    memory = ["-Xmx256m", "-XX:TieredStopAtLevel=1"]
    return ["java", *memory, "-cp", f"{jars}:{classes}", source.stem]


def checks(*names: str, **overrides: Seen) -> dict[str, Seen]:
    return {**{name: EXPECTED[name] for name in names}, **overrides}


ERRORS = ("missing_queue", "inequivalent", "exclusive", "missing_exchange", "double_ack")
LOGIN = ("bad_credentials", "unknown_vhost")

PEERS_OF_0_9_1 = (
    Peer(
        "pika",
        "pika_blocking.py",
        python_module("pika"),
        checks(
            "requeue",
            *ERRORS,
            "returned",
            "unknown_vhost",
            get=FULL_GET,
            order={**EXPECTED["order"], "left": 0},
            large={**EXPECTED["large"], "empty": 0},
            confirm={"confirmed": 20, "unroutable": 312},
            tx={"counts": [0, 3, 3, 2]},
            qos={"delivered": [2, 4], "left": 3},
            routing={"direct": 1, "fanout": 2, "topic": 2, "headers": 1},
            extensions={
                "priorities": ["5", "3", "1"],
                "reasons": ["expired", "rejected", "rejected", "rejected"],
                "alternate": "rerouted",
                "exchange_bind": "exchange to exchange",
                "cancelled": ["Basic.Cancel"],
            },
            exclusive={**EXPECTED["exclusive"], "then": 404},
            reserved_name={"code": 403, "alive": True},
            exchange_in_use={"code": 406, "alive": True},
            bad_credentials=REFUSED,
        ),
    ),
    Peer(
        "pika-select",
        "pika_select.py",
        python_module("pika"),
        checks(session={**EXPECTED["order"], "confirmed": 200, "code": 404, "closed": 200}),
    ),
    Peer(
        "aio-pika",
        "aio_pika_robust.py",
        python_module("aio_pika"),
        checks(
            "order",
            "missing_queue",
            "inequivalent",
            "exclusive",
            "missing_exchange",
            tx={"counts": [0, 1, 1]},
            reconnect={"bodies": ["before", "after"]},
            rpc={"answer": 42},
            returned={"code": 312, "text": "NO_ROUTE"},
            bad_credentials=REFUSED,
            unknown_vhost=REFUSED,
        ),
    ),
    Peer(
        "py-amqp",
        "py_amqp.py",
        python_module("amqp"),
        checks(
            "order",
            "large",
            "tx",
            *ERRORS,
            *LOGIN,
            get=FULL_GET,
            returned={"code": 312},
            heartbeat={"alive": True, "negotiated": 1},
        ),
    ),
    Peer(
        "kombu",
        "kombu_client.py",
        python_module("kombu"),
        checks(
            "order",
            "requeue",
            "missing_queue",
            "inequivalent",
            *LOGIN,
            simple={"payload": {"hello": "world"}},
            silence={"quiet": True},
        ),
    ),
    Peer(
        "celery",
        "celery_client.py",
        python_module("celery"),
        checks(
            task={"result": 5},
            many={"sum": 2450},
            chained={"result": 10},
            failing={"raised": "on purpose"},
            retried={"value": "x", "retries": 1},
            countdown={"result": 2},
            control={"pongs": ["pong"]},
        ),
        seconds=300.0,
    ),
    Peer(
        "node-amqplib",
        "amqplib_client.js",
        node_missing,
        checks(
            "order",
            "requeue",
            *ERRORS,
            "returned",
            get=FULL_GET,
            bad_credentials=REFUSED,
            unknown_vhost=REFUSED,
        ),
        interpreter="node",
    ),
    Peer(
        "java",
        "JavaClient.java",
        java_missing,
        checks(
            "tx",
            *ERRORS,
            "returned",
            "unknown_vhost",
            order={**EXPECTED["order"], "confirmed": True},
            bad_credentials=REFUSED,
        ),
    ),
    Peer(
        "amqp-tools",
        "amqp_tools.py",
        executable("amqp-publish", "amqp-tools"),
        checks(
            "large",
            get={"declared": True, "body": "hello", "empty_exit": 2},
            consume={"count": 10, "in_order": True},
            bound={"body": "found"},
            missing_queue={"failed": True, "code": 404},
            bad_credentials={"failed": True, "code": 403},
            unknown_vhost={"failed": True, "code": 530},
        ),
    ),
)

# 0-8 and 0-9 by their own documents, which say other things than RabbitMQ (docs/versions.md).
_GATEWAY = os.environ.get("INTEROP_TARGET", "gateway") != "rabbitmq"
_BY_THE_DOCUMENTS: dict[str, Seen] = (
    {"inequivalent": {"code": None}, "unknown_vhost": {"refused": True, "code": 402}}
    if _GATEWAY
    else {}
)
# Classes of 0-8 and 0-9 that other brokers refuse.
_OTHER_CLASSES: dict[str, Seen] = (
    {
        "stream": {"bodies": ["one", "two"], "named": True, "priority": 3, "left": 0},
        "file": {
            "had": 0,
            "size": 10_000,
            "rest": True,
            "filename": "film.mpg",
            "same": True,
            "left": 0,
        },
    }
    if _GATEWAY
    else {}
)

_TXAMQP = checks(
    "tx",
    *ERRORS,
    "unknown_vhost",
    **_BY_THE_DOCUMENTS,
    **_OTHER_CLASSES,
    get=PLAIN_GET,
    order={**EXPECTED["order"], "left": 0},
    returned={"code": 312, "body": "come back"},
    bad_credentials=REFUSED,
)

PEERS_OF_0_9 = (
    Peer("txamqp-0-9", "txamqp_client.py", python_module("txamqp"), _TXAMQP, spec="0-9"),
    Peer(
        "aioamqp",
        "aioamqp_client.py",
        python_module("aioamqp"),
        checks(
            "order",
            "missing_queue",
            "inequivalent",
            "exclusive",
            get=PLAIN_GET,
            confirm={"confirmed": 20},
            bad_credentials=REFUSED,
            unknown_vhost=REFUSED,
        ),
    ),
)

PEERS_OF_0_8 = (
    Peer("txamqp-0-8", "txamqp_client.py", python_module("txamqp"), _TXAMQP, spec="0-8"),
    Peer(
        "amqplib-0-8",
        "amqplib_client.py",
        amqplib_missing,
        checks(
            "order",
            "large",
            "tx",
            *ERRORS,
            "returned",
            "unknown_vhost",
            **_BY_THE_DOCUMENTS,
            get=PLAIN_GET,
            bad_credentials=REFUSED,
        ),
        interpreter=SYSTEM_PYTHON,
    ),
)

ALL = PEERS_OF_0_9_1 + PEERS_OF_0_9 + PEERS_OF_0_8

__all__ = ["ALL", "CLIENTS", "Peer"]

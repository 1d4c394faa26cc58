"""Who gets in by AMQP, against a running gateway: limits, pauses, users that are no more, and what
a listener asks for."""

import asyncio
import json
import re
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import trustme

from gateway.adapters import Credentials, Role, adapter_for
from gateway.errors import Refusal
from gateway.net.dialer import dial
from gateway.operations import Close, Open
from tests.adapters.test_waiting import VERSIONS, said
from tests.net.running import PATIENCE, Running, until
from tests.net.wire import Gone, Wire
from tests.net.wire_1_0 import Wire10

CHOSEN = {
    "0-9a0": "header_0_9", "0-9a6": "header_0_9",
    "0-10-07-24": "header_0_10", "0-10-07-27": "header_0_10",
}  # fmt: skip
"""Versions by choice, and the setting that chooses them."""
ADMIN = ("guest", "guest")


def listeners(*rows: dict[str, Any]) -> str:
    return json.dumps([{"port": 0, **row} for row in rows])


def ports(gateway: Running) -> list[int]:
    """Of the further listeners."""
    return [int(port) for port in re.findall(r"AMQP on \S+:(\d+), where", gateway.log())]


def port_of(gateway: Running, version: str) -> int:
    if version in CHOSEN:
        return ports(gateway)[list(CHOSEN).index(version)]
    return gateway.port


def user(gateway: Running, name: str, password: str) -> None:
    base = f"http://127.0.0.1:{gateway.http_port}/api"
    with httpx.Client(base_url=base, auth=ADMIN, timeout=PATIENCE) as http:
        made = http.put(f"/users/{name}", json={"password": password, "tags": ""})
        assert made.status_code in (201, 204), made.text
        rights = {"configure": ".*", "write": ".*", "read": ".*"}
        assert http.put(f"/permissions/%2F/{name}", json=rights).status_code in (201, 204)


async def enters(
    gateway: Running, version: str, name: str, password: str, mechanism: str = "PLAIN"
) -> bool:
    credentials = Credentials(name, password, mechanism)
    try:
        remote = await dial(
            ("127.0.0.1", port_of(gateway, version)), version=version, credentials=credentials
        )
    except (Refusal, OSError):
        return False
    await remote.close()
    return True


@pytest.fixture(scope="module")
def patient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Whoever fails is told after a minute."""
    with Running(
        tmp_path_factory.mktemp("patient"),
        amqp__failure_pause_seconds=60,
        amqp__handshake_seconds=120,
        http__failures=100,
        amqp__listeners=listeners(*({header: version} for version, header in CHOSEN.items())),
    ) as gateway:
        yield gateway


def unread(connection: socket.socket) -> bytes:
    """What has arrived, without waiting. Raises ``Gone`` at the end of the stream."""
    found = b""
    connection.setblocking(False)
    try:
        while more := connection.recv(1 << 16):
            found += more
    except BlockingIOError:
        return found
    raise Gone


@pytest.mark.parametrize("version", VERSIONS)
def test_a_failed_login_is_answered_after_a_pause(patient: Running, version: str) -> None:
    """0.8a2 §3.2.12, 0-9a0 §3.13.3. The others go on meanwhile."""
    octets = said(version, "wrong").replace(b"guest", b"guesx")
    failed = len(re.findall("login of 'guesx' refused", patient.log()))
    with socket.create_connection(("127.0.0.1", port_of(patient, version))) as connection:
        connection.sendall(octets)
        until(
            lambda: len(re.findall("login of 'guesx' refused", patient.log())) > failed,
            "the login fails",
        )
        before = unread(connection)
        assert asyncio.run(enters(patient, version, "guest", "guest"))
        assert unread(connection) == b"", "and it is still there"
    if version not in ("1.0", "0.8a2"):
        assert b"PLAIN" in before


@pytest.mark.parametrize("version", ["0-9-1", "0-9a0", "0.8a2"])
def test_so_is_any_other_error_before_a_login(patient: Running, version: str) -> None:
    octets = said(version, "wrong")
    head = 2 if version == "0.8a2" else 8
    with socket.create_connection(("127.0.0.1", port_of(patient, version))) as connection:
        connection.sendall(octets[:head])
        connection.settimeout(PATIENCE)
        assert connection.recv(1), "the greeting"
        unread(connection)
        connection.sendall(b"\x07" * 4000)
        # Several turns of the gateway later:
        assert asyncio.run(enters(patient, version, "guest", "guest"))
        assert unread(connection)[:1] in (b"", octets[:1]), "no close, and it is still there"


@pytest.mark.parametrize("wrong", ["octets", "virtual host"])
@pytest.mark.parametrize("version", ["0-9a0", "0.8a2"])
def test_and_behind_it_until_a_virtual_host_is_open(
    patient: Running, version: str, wrong: str
) -> None:
    """0.8a2 §3.2.12 and 0-9a0 §3.13.3: any exceptional condition in the connection negotiation."""
    client = adapter_for(version, Role.CLIENT, credentials=Credentials("guest", "guest"))
    client.send(Open("open", "/nowhere", "guest"))
    with socket.create_connection(("127.0.0.1", port_of(patient, version))) as connection:
        connection.settimeout(PATIENCE)
        while b"/nowhere" not in (octets := b"".join(client.output())):
            connection.sendall(octets)
            client.receive(connection.recv(1 << 16))
        connection.sendall(octets if wrong == "virtual host" else b"\x0c" * 4000)
        # Several turns of the gateway later:
        assert asyncio.run(enters(patient, version, "guest", "guest"))
        assert unread(connection) == b"", "no close, and it is still there"


@pytest.mark.parametrize("version", ["0-9a0", "0.8a2"])
def test_a_peer_that_leaves_before_that_is_released(patient: Running, version: str) -> None:
    """That is no exceptional condition."""
    client = adapter_for(version, Role.CLIENT, credentials=Credentials("guest", "guest"))
    client.send(Open("open", "/nowhere", "guest"))
    with socket.create_connection(("127.0.0.1", port_of(patient, version))) as connection:
        connection.settimeout(PATIENCE)
        while b"/nowhere" not in (octets := b"".join(client.output())):
            connection.sendall(octets)
            client.receive(connection.recv(1 << 16))
        client.send(Close())
        connection.sendall(b"".join(client.output()))
        while octets := connection.recv(1 << 16):
            client.receive(octets)
        assert client.closing, "and it was answered"


@pytest.fixture
def strict(tmp_path: Path) -> Iterator[Running]:
    with Running(
        tmp_path,
        http__failures=3,
        http__failure_seconds=360_000,
        amqp__listeners=listeners(*({header: version} for version, header in CHOSEN.items())),
    ) as gateway:
        yield gateway


def from_elsewhere(gateway: Running, name: str, password: str) -> bool:
    """Whether this user comes in from another address of this machine."""
    try:
        wire = Wire(gateway.port, user=name, password=password, source="127.0.0.2")
        wire.opened(1)
    except (Gone, AssertionError):
        return False
    return True


def test_failures_are_counted_at_every_door_and_over_restarts(strict: Running) -> None:
    """A proof by SCRAM is a guess, too; and HTTP counts with AMQP."""
    ways = [(version, "PLAIN") for version in ("0-9-1", "0-9a0", "0.8a2")]
    ways.append(("1.0", "SCRAM-SHA-256"))  # so many that the peer may fail as often, and no more
    names = [f"{version}-{mechanism}".replace(".", "-") for version, mechanism in ways]

    def in_by_amqp(number: int, password: str, name: str = "") -> bool:
        version, mechanism = ways[number]
        return asyncio.run(enters(strict, version, name or names[number], password, mechanism))

    def by_http(name: str) -> int:
        url = f"http://127.0.0.1:{strict.http_port}/v1/session"
        return httpx.get(url, auth=(name, "secret"), timeout=PATIENCE).status_code

    for number, name in enumerate(names):
        user(strict, name, "secret")
        for guess in range(3):
            assert not in_by_amqp(number, f"guess-{guess}"), name
            if guess == 2:
                assert not in_by_amqp(number, "secret"), name
    for name in names:
        looked_at = f"login of '{name}' refused: unknown user or wrong password"
        assert strict.log().count(looked_at) == 3
    for again in (False, True):
        for number, name in enumerate(names):
            assert not in_by_amqp(number, "secret"), name
            assert by_http(name) == 429, name
            if again:
                assert from_elsewhere(strict, name, "secret")
                assert by_http(name) == 200, "known to be right now"
                assert by_http(name) == 200
        if not again:
            strict.stop()
            strict.start()


def test_connections_of_a_deleted_user_end_at_once(strict: Running) -> None:
    user(strict, "ann", "secret")
    wires = [strict.wire(1, user="ann", password="secret") for _ in range(2)]
    ten = strict.wire_1_0(user="ann", password="secret")
    other = strict.wire(1)
    url = f"http://127.0.0.1:{strict.http_port}/api/users/ann"
    changed = httpx.put(url, auth=ADMIN, json={"password": "other", "tags": ""}, timeout=PATIENCE)
    assert changed.status_code in (201, 204)
    for wire in wires:  # as in RabbitMQ, a new password ends nothing
        wire.declare("still")
    assert httpx.delete(url, auth=ADMIN, timeout=PATIENCE).status_code == 204
    for wire in wires:
        _, record = wire.hear()
        assert record.reply_code == 320 and "deleted" in record.reply_text
    assert "deleted" in repr(ten.hear())
    other.declare("goes-on")


class Tls:
    """A certificate of our own, and a client context that trusts it."""

    def __init__(self, folder: Path) -> None:
        authority = trustme.CA()
        pair = authority.issue_cert("localhost", "127.0.0.1")
        self.certificate, self.key = folder / "cert.pem", folder / "key.pem"
        self.certificate.write_bytes(b"".join(b.bytes() for b in pair.cert_chain_pems))
        self.key.write_bytes(pair.private_key_pem.bytes())
        self.context = ssl.create_default_context()
        authority.configure_trust(self.context)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Running, Tls]]:
    folder = tmp_path_factory.mktemp("guarded")
    tls = Tls(folder)
    with Running(
        folder,
        amqp__tls__certificate=tls.certificate,
        amqp__tls__key=tls.key,
        amqp__require_tls="passwords",
        amqp__listeners=listeners(
            {"require_tls": "yes"},
            {"require_tls": "no", "mechanisms": ["ANONYMOUS"], "anonymous_user": "guest"},
            {"require_tls": "no", "mechanisms": ["PLAIN", "ANONYMOUS"]},
        ),
    ) as gateway:
        yield gateway, tls


def offered(port: int, tls: ssl.SSLContext | None = None) -> set[str]:
    """The mechanisms that 0-9-1 and 1.0 are offered."""
    found = []
    for greeting in (b"AMQP\0\0\x09\x01", b"AMQP\x03\x01\x00\x00"):
        wire = Wire(port, tls=tls)
        wire.send(greeting)
        text = wire.take(8)
        wire.socket.settimeout(PATIENCE)
        if text[:4] == b"AMQP":
            size = int.from_bytes(wire.look(4))
            text += wire.take(size)
        else:
            text += wire.take(int.from_bytes(text[3:7]))
        wire.close()
        words = re.findall(rb"AMQPLAIN|PLAIN|SCRAM-SHA-256|ANONYMOUS|EXTERNAL", text)
        found.append({word.decode() for word in words})
    assert found[0] == found[1]
    return found[0]


def test_passwords_are_not_asked_for_in_the_clear(guarded: tuple[Running, Tls]) -> None:
    gateway, tls = guarded
    assert offered(gateway.port) == {"SCRAM-SHA-256"}
    assert offered(gateway.port, tls.context) == {"SCRAM-SHA-256", "PLAIN", "AMQPLAIN"}
    for version in ("0-9-1", "1.0", "0.8a2"):
        assert not asyncio.run(enters(gateway, version, "guest", "guest"))
    for version in ("0-9-1", "1.0"):
        assert asyncio.run(enters(gateway, version, "guest", "guest", "SCRAM-SHA-256"))
    Wire(gateway.port, tls=tls.context).opened(1)


def test_a_listener_may_want_tls(guarded: tuple[Running, Tls]) -> None:
    gateway, tls = guarded
    port = ports(gateway)[0]
    with pytest.raises(Gone):
        Wire(port).opened(1)
    ten = Wire10(port)
    ten.send(b"AMQP\x03\x01\x00\x00")
    assert ten.rest() == b"AMQP\x02\x01\x00\x00", "the header it should open with (§5.2.1)"
    Wire(port, tls=tls.context).opened(1)


def test_mechanisms_and_the_anonymous_user_are_those_of_the_listener(
    guarded: tuple[Running, Tls],
) -> None:
    _, anonymous, plain = ports(guarded[0])
    assert offered(anonymous) == {"ANONYMOUS"}
    assert offered(plain) == {"PLAIN"}, "nobody is anonymous there"
    with pytest.raises(AssertionError, match="ACCESS_REFUSED"):
        Wire(anonymous).opened(1)
    Wire(plain).opened(1)

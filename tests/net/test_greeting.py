"""The first octets of a connection: accepted and refused clients, and time limits."""

import socket
import ssl
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

from gateway.adapters.methods.wire import layouts as w
from gateway.adapters.methods.wire.tables import VERSIONS
from gateway.adapters.performatives.composites import read_performative
from tests.net.running import Running, until
from tests.net.wire import Gone, Wire

PREFERRED = b"AMQP\x00\x00\x09\x01"
SASL = b"AMQP\x03\x01\x00\x00"
TLS = b"AMQP\x02\x01\x00\x00"
HEADERS = {
    "0-9-1": b"AMQP\x00\x00\x09\x01",
    "0-9": b"AMQP\x01\x01\x00\x09",
    "0-8": b"AMQP\x01\x01\x08\x00",
}


@pytest.mark.parametrize("version", HEADERS)
def test_each_header_is_served(gateway: Running, version: str) -> None:
    wire = Wire(gateway.port, version=version)
    wire.send(HEADERS[version])
    start = wire.heard(w.ConnectionStart)
    table = VERSIONS[version]
    assert (start.version_major, start.version_minor) == (table.major, table.minor)
    assert b"PLAIN" in start.mechanisms


@pytest.mark.parametrize("version", HEADERS)
def test_one_octet_at_a_time(gateway: Running, version: str) -> None:
    wire = Wire(gateway.port, version=version)
    for at in range(8):
        wire.send(HEADERS[version][at : at + 1])
        time.sleep(0.002)
    wire.heard(w.ConnectionStart)


@pytest.mark.parametrize(
    ("first", "answer"),
    [
        (b"AMQP\x00\x00\x09\x02", PREFERRED),
        (b"AMQP\x09\x09\x09\x09", PREFERRED),
        (b"AMQP\x01\x01\x63\x00", PREFERRED),
        (b"SSH-2.0-OpenSSH_9.6\r\n", PREFERRED),
        (b"\x00" * 8, PREFERRED),
        (b"\xff" * 4000, PREFERRED),
        (b"amqp\x00\x00\x09\x01", PREFERRED),
        (b"AMQP\x00\x01\x01\x00", b"AMQP\x00\x01\x00\x00"),
        (b"AMQP\x03\x01\x00\x01", SASL),
        (TLS, SASL),
        (b"AMQP\x00\x01\x00\x00", SASL),
    ],
)
def test_an_unknown_client_learns_the_version(
    gateway: Running, first: bytes, answer: bytes
) -> None:
    """0-9-1 §4.2.2, 1.0 §2.2: the header of a version or layer that is spoken, and the end."""
    wire = Wire(gateway.port)
    wire.send(first)
    assert wire.rest() == answer


def test_1_0_is_served(gateway: Running) -> None:
    wire = Wire(gateway.port)
    wire.send(SASL)
    assert wire.take(8) == SASL
    assert mechanisms(wire)


def mechanisms(wire: Wire) -> tuple[str, ...]:
    """What a server of 1.0 offers, as its first frame."""
    size = int.from_bytes(wire.take(4))
    record, _ = read_performative(wire.take(size - 4), 4, size - 4, sasl=True)
    found: tuple[str, ...] = record.sasl_server_mechanisms
    return found


def test_http_is_told_the_way(gateway: Running) -> None:
    wire = Wire(gateway.port)
    wire.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    head, text = wire.rest().split(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ")
    assert f"Content-Length: {len(text)}".encode() in head
    assert b"AMQP" in text


def test_tls_without_a_certificate(gateway: Running) -> None:
    context = ssl.create_default_context()
    with pytest.raises((ssl.SSLError, OSError)):
        Wire(gateway.port, tls=context)
    gateway.wire(1).ended()


# --- TLS ------------------------------------------------------------------------------------------


class Certificate:
    def __init__(self, folder: Path) -> None:
        self.authority = trustme.CA()
        pair = self.authority.issue_cert("localhost")
        self.certificate, self.key = folder / "cert.pem", folder / "key.pem"
        pair.private_key_pem.write_to_path(self.key)
        for blob in pair.cert_chain_pems:
            blob.write_to_path(self.certificate, append=True)
        self.context = ssl.create_default_context()
        self.authority.configure_trust(self.context)


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return Certificate(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def secured(tls: Certificate, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    arguments = ["--amqps-port", 0, "--tls-cert", tls.certificate, "--tls-key", tls.key]
    folder = tmp_path_factory.mktemp("secured")
    limits = {"amqp__handshake_seconds": 120, "amqp__max_connections": 8}
    with Running(folder, *arguments, **limits) as running:
        yield running


HURRY = 2
"""Seconds for a greeting: not so few that a busy machine cannot log in."""


@pytest.fixture(scope="module")
def hurried(tls: Certificate, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Looks at the first octet, and does not wait long for it."""
    arguments = ["--tls-cert", tls.certificate, "--tls-key", tls.key]
    folder = tmp_path_factory.mktemp("hurried")
    with Running(folder, *arguments, amqp__handshake_seconds=HURRY) as running:
        yield running


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Has a deadline too, and takes any octets for AMQP."""
    with Running(tmp_path_factory.mktemp("plain"), amqp__handshake_seconds=HURRY) as running:
        yield running


def test_one_port_speaks_both(secured: Running, tls: Certificate) -> None:
    for port, context in ((secured.port, None), (secured.port, tls.context)):
        wire = Wire(port, tls=context).opened(1)
        wire.declare("both")
        wire.publish("both", b"x" * 300_000)
        assert wire.got("both") == b"x" * 300_000
        wire.ended()


def test_a_port_for_tls_only(secured: Running, tls: Certificate) -> None:
    wire = Wire(secured.tls_port, tls=tls.context).opened(1)
    assert wire.socket.version() in ("TLSv1.2", "TLSv1.3")  # type: ignore[attr-defined]
    wire.ended()
    wire = Wire(secured.tls_port)
    wire.send(PREFERRED)
    with pytest.raises((Gone, AssertionError, ConnectionError)):
        wire.heard(w.ConnectionStart)


@pytest.mark.parametrize("size", [1, 5, 8])
def test_tls_that_1_0_asks_for(secured: Running, tls: Certificate, size: int) -> None:
    """1.0 §5.2: headers, then the handshake, then the header inside TLS."""
    wire = Wire(secured.port)
    for at in range(0, 8, size):
        wire.send(TLS[at : at + size])
        time.sleep(0.01)
    assert wire.take(8) == TLS
    wire.socket = tls.context.wrap_socket(wire.socket, server_hostname="localhost")
    wire.send(SASL)
    assert wire.take(8) == SASL
    assert "PLAIN" in mechanisms(wire)
    wire.close()


def test_old_tls_is_refused(secured: Running, tls: Certificate) -> None:
    context = ssl.create_default_context()
    tls.authority.configure_trust(context)
    context.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning):
        context.minimum_version = ssl.TLSVersion.TLSv1
        context.maximum_version = ssl.TLSVersion.TLSv1_1
    with pytest.raises((ssl.SSLError, ConnectionError)):
        Wire(secured.port, tls=context)


def test_nothing_more_comes(hurried: Running) -> None:
    """On a port that must look at the first octet, too, patience has an end."""
    ends_in_time(hurried, b"", b"\x16", b"\x16\x03\x01\x02\x00\x01", b"AMQP\0\0", b"AMQP\2\1", TLS)


def ends_in_time(gateway: Running, *firsts: bytes) -> None:
    """Who begins like this and says no more is waited for, and not for ever."""
    started = time.monotonic()
    wires = [Wire(gateway.port) for _ in firsts]
    for wire, first in zip(wires, firsts, strict=True):
        wire.send(first)
    for wire, first in zip(wires, firsts, strict=True):
        if first == TLS:
            assert wire.take(8) == TLS
        with pytest.raises((Gone, ConnectionError)):
            wire.take(1)
        assert time.monotonic() - started > HURRY * 0.75


def test_silent_peers_count_as_connections(secured: Running) -> None:
    """``max_connections`` counts silent connections too."""
    silent = [Wire(secured.port) for _ in range(8)]
    assert Wire(secured.port).rest() == b""
    for wire in silent:
        wire.close()
    until(lambda: _served(secured), "a place is free again")


def _served(gateway: Running) -> bool:
    try:
        gateway.wire(1).ended()
    except (Gone, ConnectionError):
        return False
    return True


# --- time and number ------------------------------------------------------------------------------


def test_half_a_header(plain: Running) -> None:
    ends_in_time(plain, b"", b"AMQP", b"AMQP\x00\x00\x09")


def test_half_a_login(plain: Running) -> None:
    wire = Wire(plain.port).logged_in()
    with pytest.raises((Gone, ConnectionError)):
        wire.hear()


def test_trickling_gains_no_time(plain: Running) -> None:
    """One octet of a start-ok after the other: the deadline is for all of it."""
    wire = Wire(plain.port)
    started = time.monotonic()
    wire.greeted()
    with pytest.raises(ConnectionError):
        for octet in b"\x01\0\0\0\0\xff\xff" + bytes(1000):
            wire.send(bytes([octet]))
            time.sleep(0.02)
    assert time.monotonic() - started > HURRY * 0.75


def test_an_open_connection_has_no_deadline(plain: Running) -> None:
    wire = plain.wire(1)
    time.sleep(HURRY * 1.75)
    wire.declare("late")
    wire.ended()


def test_no_more_than_max_connections(tmp_path: Path) -> None:
    with Running(tmp_path, amqp__max_connections=3) as gateway:
        inside = [gateway.wire(1) for _ in range(3)]
        late = Wire(gateway.port)
        with pytest.raises((Gone, ConnectionError)):
            late.greeted()
        inside[0].declare("still here")
        inside[1].ended()
        until(lambda: _served(gateway), "a place is free again")


def test_ipv6(tmp_path: Path) -> None:
    with socket.socket(socket.AF_INET6) as probe:
        try:
            probe.bind(("::1", 0))
        except OSError:
            pytest.skip("no IPv6 here")
    with (
        Running(tmp_path, "--host", "::1") as gateway,
        socket.create_connection(("::1", gateway.port), 5) as plain,
    ):
        plain.sendall(PREFERRED)
        assert plain.recv(1) == b"\x01"


def test_the_clock_goes_on_when_the_disk_cannot_be_looked_at(tmp_path: Path) -> None:
    with Running(tmp_path, amqp__handshake_seconds=1) as gateway:
        gateway.data.rename(tmp_path / "elsewhere")
        until(lambda: "cannot check the free disk space" in gateway.log(), "a look at the disk")
        wire = Wire(gateway.port, seconds=10)
        wire.send(b"AMQP")
        with pytest.raises((Gone, ConnectionError)):
            wire.take(1)
        (tmp_path / "elsewhere").rename(gateway.data)

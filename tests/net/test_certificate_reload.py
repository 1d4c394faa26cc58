"""A renewed certificate is read on SIGHUP, and connections stay open."""

import os
import signal
import socket
import ssl
from pathlib import Path

import pytest
import trustme

from tests.net.running import PATIENCE, Running, until
from tests.net.wire import Wire


def issue(folder: Path) -> ssl.SSLContext:
    """Put a certificate of a new authority into the files, and trust this authority alone."""
    authority = trustme.CA()
    issued = authority.issue_cert("localhost", "127.0.0.1")
    (folder / "cert.pem").write_bytes(b"".join(one.bytes() for one in issued.cert_chain_pems))
    (folder / "key.pem").write_bytes(issued.private_key_pem.bytes())
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context


def trusted(gateway: Running, context: ssl.SSLContext) -> bool:
    """Whether a client with this context trusts the certificate that it is shown."""
    with socket.create_connection(("127.0.0.1", gateway.port), PATIENCE) as plain:
        try:
            context.wrap_socket(plain, server_hostname="localhost").close()
        except ssl.SSLCertVerificationError:
            return False
    return True


def test_renewed(tmp_path: Path) -> None:
    first = issue(tmp_path)
    with Running(
        tmp_path,
        amqp__tls__certificate=tmp_path / "cert.pem",
        amqp__tls__key=tmp_path / "key.pem",
    ) as gateway:
        early = gateway.wire(1, tls=first)
        second = issue(tmp_path)
        assert trusted(gateway, first)
        assert not trusted(gateway, second)

        os.kill(gateway.process.pid, signal.SIGHUP)
        until(lambda: "settings read again" in gateway.log(), "the new certificate")
        assert trusted(gateway, second)
        assert not trusted(gateway, first)

        (tmp_path / "key.pem").write_text("half a file")
        os.kill(gateway.process.pid, signal.SIGHUP)
        until(lambda: "those of before are kept" in gateway.log(), "the refusal")
        assert "key.pem" in gateway.log()
        assert trusted(gateway, second)

        early.declare("orders")  # it goes on
        Wire(gateway.port, tls=second).opened(1)


@pytest.mark.parametrize("times", [1, 20])
def test_without_tls(times: int, tmp_path: Path) -> None:
    """It does not end the process, which is what SIGHUP does to those that do not listen for it."""
    with Running(tmp_path) as gateway:
        for _ in range(times):
            os.kill(gateway.process.pid, signal.SIGHUP)
        until(lambda: "settings read again" in gateway.log(), "the answer")
        gateway.wire(1)

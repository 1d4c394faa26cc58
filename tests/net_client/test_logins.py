"""Every mechanism and both ways to TLS, over sockets, for each version that has them."""

import asyncio
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme

from gateway.adapters import Credentials
from gateway.errors import Refusal
from gateway.net.dialer import Remote, dial
from gateway.operations import BeginSession, DeclareQueue
from tests.net.running import Running

VERSIONS = ("0-9-1", "0-10", "1.0")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "ANONYMOUS", "EXTERNAL")


class Authority:
    """A certificate for the gateway, one for the user guest, and the authority of both."""

    def __init__(self, folder: Path) -> None:
        self.authority = trustme.CA()
        self.certificate, self.key = folder / "cert.pem", folder / "key.pem"
        self.trusted = folder / "authority.pem"
        self.authority.cert_pem.write_to_path(self.trusted)
        pair = self.authority.issue_cert("localhost", "127.0.0.1")
        pair.private_key_pem.write_to_path(self.key)
        for blob in pair.cert_chain_pems:
            blob.write_to_path(self.certificate, append=True)

    def context(self, user: str = "guest") -> ssl.SSLContext:
        """The TLS context of a client with a certificate of this user."""
        context = ssl.create_default_context()
        self.authority.configure_trust(context)
        self.authority.issue_cert("client.example", common_name=user).configure_cert(context)
        return context


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def secured(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    arguments = ["--amqps-port", 0, "--tls-cert", authority.certificate]
    arguments += ["--tls-key", authority.key]
    settings = {
        "amqp__anonymous_user": "guest",
        "amqp__tls__client_ca": authority.trusted,
    }
    with Running(tmp_path_factory.mktemp("secured"), *arguments, **settings) as running:
        yield running


def login(port: int, version: str, mechanism: str, tls: Any, password: str = "guest") -> None:
    """Log in, do something that needs rights, say goodbye."""

    async def talk() -> None:
        credentials = Credentials("guest", password, mechanism)
        remote: Remote = await dial(
            ("127.0.0.1", port), version=version, credentials=credentials, tls=tls
        )
        await remote.request(BeginSession(1, None))
        if version != "1.0":
            await remote.request(DeclareQueue(1, None, "logins"))
        await remote.close()

    asyncio.run(talk())


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("version", VERSIONS)
def test_on_the_port_for_tls(
    secured: Running, authority: Authority, version: str, mechanism: str
) -> None:
    login(secured.tls_port, version, mechanism, authority.context())


@pytest.mark.parametrize("version", VERSIONS)
def test_tls_by_its_first_octet(secured: Running, authority: Authority, version: str) -> None:
    login(secured.port, version, "SCRAM-SHA-256", authority.context())


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
@pytest.mark.parametrize("version", VERSIONS)
def test_wrong_passwords(
    secured: Running, authority: Authority, version: str, mechanism: str
) -> None:
    with pytest.raises(Refusal):
        login(secured.tls_port, version, mechanism, authority.context(), "wrong")


@pytest.mark.parametrize("version", VERSIONS)
def test_a_certificate_of_an_unknown_user(
    secured: Running, authority: Authority, version: str
) -> None:
    with pytest.raises(Refusal):
        login(secured.tls_port, version, "EXTERNAL", authority.context("stranger"))


@pytest.mark.parametrize("version", VERSIONS)
def test_external_needs_a_certificate(secured: Running, version: str) -> None:
    with pytest.raises(Refusal):
        login(secured.port, version, "EXTERNAL", None)

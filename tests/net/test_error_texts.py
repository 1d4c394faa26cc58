"""The texts of refusals reach the clients of each version as HTTP has them."""

import asyncio
import socket
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from gateway.adapters import Credentials
from gateway.errors import Refusal
from gateway.net.dialer import dial
from gateway.operations import BeginSession, DeclareQueue
from tests.net.running import PATIENCE, Running

VERSIONS = ("0-8", "0-9", "0-9-1", "0-10", "1.0")


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with Running(tmp_path_factory.mktemp("gateway")) as running:
        yield running


@pytest.fixture(scope="module")
def shop(gateway: Running) -> Credentials:
    """A user who may configure names that begin with "shop"."""
    base = f"http://127.0.0.1:{gateway.http_port}/v1/admin/users"
    with httpx.Client(base_url=base, auth=("guest", "guest"), timeout=PATIENCE) as http:
        assert http.put("/shop", json={"password": "sesame"}).is_success
        rights = {"configure": "^shop", "write": ".*", "read": ".*"}
        assert http.put("/shop/permissions/%2F", json=rights).is_success
    return Credentials("shop", "sesame")


@pytest.mark.parametrize("version", VERSIONS)
def test_a_403_names_right_and_pattern(gateway: Running, shop: Credentials, version: str) -> None:
    async def declare() -> None:
        remote = await dial(("127.0.0.1", gateway.port), version=version, credentials=shop)
        try:
            await remote.request(BeginSession(1, None))
            await remote.request(DeclareQueue(1, None, "orders", durable=True))
        finally:
            await remote.close()

    with pytest.raises(Refusal) as caught:
        asyncio.run(declare())
    assert "configure access to queue 'orders' in vhost '/' refused for user 'shop'" in str(
        caught.value
    )
    assert "the configure permission is '^shop'" in str(caught.value)


@pytest.mark.parametrize("version", ["0-8", "0-9", "0-9-1", "0-10"])
def test_a_virtual_host_that_was_encoded_twice(gateway: Running, version: str) -> None:
    async def enter() -> None:
        await dial(("127.0.0.1", gateway.port), version=version, vhost="%2F")

    with pytest.raises(Refusal, match="vhost %2F not found: .* write /%2F once"):
        asyncio.run(enter())


def test_amqp_on_the_http_port(gateway: Running) -> None:
    for header in (b"AMQP\0\0\x09\x01", b"AMQP\1\1\0\x0a", b"AMQP\0\1\0\0"):
        with socket.create_connection(("127.0.0.1", gateway.http_port), PATIENCE) as connection:
            connection.sendall(header)
            answer = b""
            while more := connection.recv(4096):
                answer += more
        assert answer.startswith(b"HTTP/1.1 400 ") and b"this port speaks HTTP, not AMQP" in answer
    assert gateway.log().count("sent AMQP to the HTTP port") == 3


def test_a_gateway_that_nobody_can_log_in_to(gateway: Running, tmp_path: Path) -> None:
    told = "other machines can connect, and nobody can log in from there: guest may only"
    assert told not in gateway.log(), "it listens for this machine only"
    with Running(tmp_path, "--host", "0.0.0.0") as open_to_all:
        assert told in open_to_all.log()
        url = f"http://127.0.0.1:{open_to_all.http_port}/v1/admin/users/app"
        login, body = ("guest", "guest"), {"password": "sesame"}
        assert httpx.put(url, auth=login, json=body, timeout=PATIENCE).is_success
        assert open_to_all.stop() == 0
        open_to_all.start()
        assert told not in open_to_all.log()

"""Finds out what another broker speaks: a login in each version, and its extensions there."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import NamedTuple

from gateway.adapters import Credentials, Limits, Product
from gateway.adapters.contract import Capability
from gateway.adapters.registry import VERSIONS
from gateway.bridge.remote_ends import CHANNEL, confirms
from gateway.config.bridge import Address
from gateway.errors import GatewayError, LocalError, Refusal
from gateway.net.dialer import Remote, dial
from gateway.net.tls import client_context
from gateway.operations import BeginSession, Select


class Spoken(NamedTuple):
    """One version. ``error``: why the login failed; then the rest is empty."""

    version: str
    error: str
    product: str = ""
    mechanism: str = ""
    confirms: bool = False
    """Publishes are confirmed one by one."""
    transactions: bool = False


async def probe_broker(
    address: Address, vhost: str, credentials: Credentials, seconds: float
) -> AsyncIterator[Spoken]:
    """Try all versions that the gateway speaks as a client, oldest first, each with connections of
    its own. Declares and publishes nothing."""
    for version in VERSIONS:
        try:
            yield await probe_version(version, address, vhost, credentials, seconds)
        except (OSError, GatewayError) as error:
            yield Spoken(version, str(error) or type(error).__name__)


async def probe_version(
    version: str, address: Address, vhost: str, credentials: Credentials, seconds: float
) -> Spoken:
    """Raises ``OSError`` or ``Refusal`` if the login fails."""

    async def connect() -> Remote:
        return await dial(
            (address.host, address.port),
            version=version,
            credentials=credentials,
            vhost=vhost,
            limits=Limits(handshake_timeout=seconds),
            tls=client_context(None) if address.tls else None,
            product=Product(name="probe"),
        )

    async def has(ask: Callable[[Remote], Awaitable[bool]]) -> bool:
        """On a connection of its own, which a refusal may cost."""
        remote = await connect()
        try:
            await remote.request(BeginSession(CHANNEL, None))
            return await ask(remote)
        finally:
            await remote.close()

    remote = await connect()
    await remote.close()
    peer = remote.peer
    return Spoken(
        version,
        "",
        f"{peer.product} {peer.product_version}".strip(),
        peer.mechanism,
        await has(confirms),
        await has(transactions),
    )


async def transactions(remote: Remote) -> bool:
    try:
        if remote.adapter.capabilities & Capability.HANDLES:
            # 0.8a2 chooses them when a channel is opened.
            await remote.request(BeginSession(CHANNEL + 1, None, transacted=True))
        else:
            await remote.request(Select(CHANNEL, None))
    except (LocalError, Refusal):
        return False
    return True

"""Finds out the versions of another broker: a login in each version, and its abilities there."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import NamedTuple

from gateway.adapters import Credentials, Limits, Product
from gateway.adapters.contract import Capability
from gateway.adapters.methods.content import BASIC
from gateway.adapters.registry import VERSIONS
from gateway.bridge.remote_ends import CHANNEL, COUNTING, can_browse, can_drain, confirms
from gateway.config.bridge import Address
from gateway.errors import GatewayError, LocalError, Refusal
from gateway.message import Message, Properties, Table
from gateway.net.dialer import Remote, dial
from gateway.net.tls import client_context
from gateway.operations import BeginSession, DeclareQueue, Fetch, Publish, Select

PROBE_SECONDS = 60.0
"""Time limit for the abilities of one version, which take about eight connections."""
PRIORITIES: tuple[Table, ...] = (
    {"x-max-priority": 9},
    {"x-qpid-priorities": 10},
    {"qpid.priorities": 10},
)
"""How brokers are asked for a queue with priorities. All are valid: Broker-J ends at a value that
is not."""
STREAMS = "stream_queue"
"""Stands in RabbitMQ's refusal of a private stream. A broker without streams does not know the type
(or ignores it)."""


class Abilities(NamedTuple):
    """Abilities of a broker in a version. ``None``: not found out."""

    confirms: bool
    """Publishes are confirmed one by one."""
    transactions: bool
    browsing: bool
    """A queue can be read without taking its messages."""
    draining: bool
    """A consumer learns that no message is ready (1.0 §2.6.7)."""
    counting: bool
    """The number of ready messages is told."""
    declaring: bool
    """Clients may make queues."""
    priorities: bool | None
    """A queue can deliver messages of higher priority first."""
    streams: bool | None
    """There are RabbitMQ's stream queues."""


class Spoken(NamedTuple):
    """One version. ``error``: why the login failed; then the rest is empty."""

    version: str
    error: str
    product: str = ""
    mechanism: str = ""
    abilities: Abilities | None = None


Connect = Callable[[], AbstractAsyncContextManager[Remote]]
"""A new connection with a channel. Raises ``OSError`` or ``Refusal``."""


async def probe_broker(
    address: Address, vhost: str, credentials: Credentials, seconds: float
) -> AsyncIterator[Spoken]:
    """Try all versions that the gateway speaks as a client, oldest first."""
    for version in VERSIONS:
        connect = partial(dialled, version, address, vhost, credentials, seconds)
        try:
            async with connect() as remote:
                peer = remote.peer
            product = f"{peer.product} {peer.product_version}".strip()
            yield Spoken(version, "", product, peer.mechanism, await find_abilities(connect))
        except (OSError, GatewayError) as error:
            yield Spoken(version, str(error) or type(error).__name__)


@asynccontextmanager
async def dialled(
    version: str, address: Address, vhost: str, credentials: Credentials, seconds: float
) -> AsyncIterator[Remote]:
    remote = await dial(
        (address.host, address.port),
        version=version,
        credentials=credentials,
        vhost=vhost,
        limits=Limits(handshake_timeout=seconds),
        tls=client_context(None) if address.tls else None,
        product=Product(name="probe"),
    )
    try:
        await remote.request(BeginSession(CHANNEL, None))
        yield remote
    finally:
        await remote.close()


async def find_abilities(connect: Connect) -> Abilities:
    """Try them, each on connections of its own, which a refusal may cost. Only private queues
    are made, which end with their connection. Raises ``OSError`` or ``Refusal``."""
    try:
        async with asyncio.timeout(PROBE_SECONDS):
            return await _find_abilities(connect)
    except TimeoutError as error:
        text = f"the broker did not answer the probe within {PROBE_SECONDS:.0f} s"
        raise TimeoutError(str(error) or text) from None


async def _find_abilities(connect: Connect) -> Abilities:
    async with connect() as remote:
        browsing, draining = can_browse(remote), can_drain(remote)
        counting = remote.adapter.version in COUNTING
        confirming = await confirms(remote)
    async with connect() as remote:
        transactional = await transactions(remote)
    async with connect() as remote:
        declaring = await private_queue(remote, {}) is not None
    return Abilities(
        confirming,
        transactional,
        browsing,
        draining,
        counting,
        declaring,
        await priorities(connect) if declaring else None,
        await streams(connect) if declaring else None,
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


async def private_queue(remote: Remote, arguments: Table) -> str | None:
    """The name of a new queue of this connection; ``None``: the broker does not make it."""
    asked = DeclareQueue(
        CHANNEL, None, "", exclusive=True, auto_delete=True, arguments=dict(arguments)
    )
    try:
        return str((await remote.request(asked)).name)
    except (LocalError, Refusal):
        return None


async def priorities(connect: Connect) -> bool | None:
    """Whether some private queue gives the last of two messages first, for its priority."""
    known = None
    for arguments in PRIORITIES:
        async with connect() as remote:
            queue = await private_queue(remote, arguments)
            if queue is None:
                continue
            try:
                for priority in (1, 8):
                    header = BASIC.write(Properties(priority=priority))
                    essentials = BASIC.essentials(header)
                    message = Message(BASIC, header, b"probe", "", queue, essentials)
                    remote.send(Publish(CHANNEL, message, False, False))
                first = await remote.request(Fetch(CHANNEL, None, queue, no_ack=True))
            except (LocalError, Refusal):
                continue
        if first is not None:
            known = first.message.properties.priority == 8
            if known:
                break
    return known


async def streams(connect: Connect) -> bool | None:
    async with connect() as remote:
        asked = DeclareQueue(CHANNEL, None, "", exclusive=True, auto_delete=True)
        asked.arguments = {"x-queue-type": "stream"}
        try:
            await remote.request(asked)
        except LocalError:
            return None
        except Refusal as refusal:
            return STREAMS in refusal.text
    return False

"""A broker that the gateway connects to: its addresses, and how the last attempts went."""

import random
import time
from typing import NamedTuple

from gateway.adapters import Credentials, Limits, Product
from gateway.adapters.registry import HANGING_UP
from gateway.bodies import Spool
from gateway.config.bridge import Address, UpstreamSettings, read_address
from gateway.errors import Condition, ConfigError, Refusal
from gateway.net.dialer import AUTO, Remote, dial
from gateway.net.tls import client_context
from gateway.operations import Peer

MOST_SHOWN = 255
"""Characters of a broker's own name and version."""


class UpstreamInfo(NamedTuple):
    """An upstream as the administration shows it. ``since`` is ms since 1970, 0 if it was never
    connected."""

    name: str
    addresses: list[str]
    vhost: str
    user: str
    connections: int
    address: str
    version: str
    product: str
    product_version: str
    since: int
    error: str
    """Of the last attempt, if that failed."""
    blocked: str
    """Why it holds publishers back; empty: it does not, or its version cannot tell."""


class Upstream:
    """Makes connections to one broker."""

    def __init__(self, settings: UpstreamSettings, limits: Limits, spool: Spool | None) -> None:
        """Raises ``ConfigError`` if a file that the settings name cannot be used."""
        self.settings = settings
        self.addresses = [read_address(one) for one in settings.addresses]
        self.limit(limits)
        self._spool = spool
        settings.secret()
        encrypted = any(one.tls for one in self.addresses)
        self._tls = client_context(settings.ca) if encrypted else None
        self._remotes: dict[Remote, None] = {}
        self._address: Address | None = None
        self._version = ""
        self._peer = Peer()
        self._since = 0
        self._error = ""

    def limit(self, limits: Limits) -> None:
        """The limits of connections that are made from now on."""
        self._limits = limits._replace(handshake_timeout=self.settings.connect_seconds)

    async def connect(self, purpose: str) -> Remote:
        """A new connection to the first address that answers, beginning with the last that did.
        ``purpose`` is its name there, which others may have. A file with the password is read each
        time. Raises ``OSError`` or ``Refusal``, of the last address."""
        try:
            credentials = Credentials(self.settings.user, self.settings.secret())
        except ConfigError as error:
            self._error = str(error)
            raise OSError(str(error)) from None
        addresses = self.addresses
        if self._address is not None:
            at = addresses.index(self._address)
            addresses = addresses[at:] + addresses[:at]
        else:
            addresses = random.sample(addresses, len(addresses))
        for address in addresses:
            try:
                return await self._connect(address, purpose, credentials)
            except (OSError, Refusal) as error:
                self._error = f"{address}: {error}"
                if address == addresses[-1]:
                    raise
        raise AssertionError("there is an address at least")

    async def _connect(self, address: Address, purpose: str, credentials: Credentials) -> Remote:
        remote = await self._find(address, purpose, credentials)
        self._remotes[remote] = None
        self._address, self._peer, self._error = address, remote.peer, ""
        self._version = remote.adapter.version
        self._since = int(time.time() * 1000)
        return remote

    async def _find(self, address: Address, purpose: str, credentials: Credentials) -> Remote:
        """A version that was found stays, until the broker answers that it speaks others. A
        balancer whose broker is away hangs up as servers of 2005 do to refuse a version: a search
        that finds one of theirs is made once more."""
        version = self.settings.version
        if version != AUTO:
            return await self._dial(version, address, purpose, credentials)
        if self._version:
            try:
                return await self._dial(self._version, address, purpose, credentials)
            except Refusal as refusal:
                if refusal.condition is not Condition.NOT_IMPLEMENTED:
                    raise
        remote = await self._dial(AUTO, address, purpose, credentials)
        if remote.adapter.version not in HANGING_UP:
            return remote
        await remote.close()
        return await self._dial(AUTO, address, purpose, credentials)

    async def _dial(
        self, version: str, address: Address, purpose: str, credentials: Credentials
    ) -> Remote:
        return await dial(
            (address.host, address.port),
            version=version,
            credentials=credentials,
            vhost=self.settings.vhost,
            limits=self._limits,
            tls=self._tls if address.tls else None,
            product=Product(name=purpose, shared=True),
            spool=self._spool,
        )

    async def disconnect(self, remote: Remote) -> None:
        """Close a connection; one that is lost already is forgotten."""
        self._remotes.pop(remote, None)
        await remote.close()

    @property
    def blocked(self) -> str | None:
        """Why it holds publishers back, if it says so on any connection."""
        told = (one.blocked for one in self._remotes if one.closed is None)
        return next((reason for reason in told if reason is not None), None)

    def info(self) -> UpstreamInfo:
        settings, peer = self.settings, self._peer
        return UpstreamInfo(
            settings.name,
            [str(one) for one in self.addresses],
            settings.vhost,
            settings.user,
            len(self._remotes),
            "" if self._address is None else str(self._address),
            self._version,
            peer.product[:MOST_SHOWN],
            peer.product_version[:MOST_SHOWN],
            self._since,
            self._error,
            self.blocked or "",
        )

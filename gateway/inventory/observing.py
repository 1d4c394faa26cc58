"""Observe mode: the proxy, its inventory, and its file."""

import asyncio
import contextlib
import logging
import time
from pathlib import Path
from typing import NamedTuple

from gateway.config.bridge import Address, read_address
from gateway.config.observe import ObserveSettings
from gateway.errors import ConfigError
from gateway.inventory.document import load_or_begin, save
from gateway.inventory.proxy import Proxy
from gateway.net.tls import client_context, server_context

log = logging.getLogger("gateway.inventory")


class ObserverInfo(NamedTuple):
    """A proxy, for the administration."""

    name: str
    host: str
    port: int
    upstream: str
    file: str
    open: int
    """Connections now."""
    connections: int
    refused: int
    undecoded: int
    clients: int
    nodes: int


class Plan(NamedTuple):
    """Settings of one observing proxy."""

    host: str
    port: int
    upstream: Address
    file: Path
    certificate: Path | None = None
    """With ``key``: clients connect with TLS, which ends here."""
    key: Path | None = None
    ca: Path | None = None
    """Authorities of an upstream with TLS; those of the system without."""
    seconds: float = 5.0
    """Between two times that the file is written."""
    name: str = ""
    """In the administration."""


def plan_of(settings: ObserveSettings) -> Plan:
    """The plan of a table of the configuration."""
    return Plan(
        settings.host,
        settings.port,
        read_address(settings.upstream),
        settings.file,
        settings.tls_certificate,
        settings.tls_key,
        settings.upstream_ca,
        settings.save_seconds,
        settings.name,
    )


class Observing:
    """``async with Observing(plan) as observing``: the port is ``observing.port``."""

    def __init__(self, plan: Plan) -> None:
        """Raises ``InventoryError`` and ``ConfigError``."""
        self.plan = plan
        self.inventory = load_or_begin(plan.file, str(plan.upstream), time.time())
        upstream_tls = client_context(plan.ca) if plan.upstream.tls else None
        self.proxy = Proxy(plan.upstream, self.inventory, upstream_tls=upstream_tls)
        self._tls = None
        if plan.certificate is not None and plan.key is not None:
            self._tls = server_context(plan.certificate, plan.key, None)
        self.port = 0
        self._stopping = asyncio.Event()
        self._saving: asyncio.Task[None] | None = None

    async def __aenter__(self) -> "Observing":
        plan = self.plan
        try:
            self.port = await self.proxy.listen(plan.host, plan.port, self._tls)
            await save(self.inventory, plan.file)
        except OSError as error:
            await self.proxy.close()
            raise ConfigError(f"observe {plan.host}:{plan.port}, {plan.file}: {error}") from None
        self._saving = asyncio.create_task(self._save(), name="inventory")
        return self

    def info(self) -> ObserverInfo:
        plan, counts = self.plan, self.inventory.counts
        return ObserverInfo(
            plan.name,
            plan.host,
            self.port,
            str(plan.upstream),
            str(plan.file),
            self.proxy.connections,
            counts["connections"],
            counts["refused"],
            counts["undecoded"],
            len(self.inventory.clients),
            len(self.inventory.nodes),
        )

    async def __aexit__(self, *_: object) -> None:
        await self.proxy.close()
        self._stopping.set()
        if self._saving is not None:
            await self._saving

    async def _save(self) -> None:
        """Write the file from time to time, and at the end."""
        while not self._stopping.is_set():
            await self._write()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), self.plan.seconds)
        await self._write()

    async def _write(self) -> None:
        try:
            await save(self.inventory, self.plan.file)
        except OSError as error:
            log.error("inventory %s cannot be written: %s", self.plan.file, error)

"""Where the names of the queues of a broker are known. AMQP itself cannot list them."""

from collections.abc import Iterable
from urllib.parse import quote

import httpx

from gateway.bridge.core_ends import Core
from gateway.config.bridge import ShovelSettings, UpstreamSettings
from gateway.errors import Condition, Refusal

LARGEST = 16 << 20
"""Octets of a list of queues."""


class CoreDirectory:
    """The queues of a virtual host of this gateway. Not among them: those of one connection, of
    names that the gateway has given, and those of parked messages."""

    def __init__(self, core: Core, vhost: str) -> None:
        self._core, self._vhost = core, vhost

    async def queues(self) -> list[str]:
        found = self._core.broker.vhosts.get(self._vhost)
        if found is None:
            raise Refusal(Condition.NOT_FOUND, f"no virtual host {self._vhost!r}")
        return [
            name
            for name, queue in found.queues.items()
            if queue.owner is None and not name.startswith("amq.") and not parked(name)
        ]


def parked(queue: str) -> bool:
    return queue.startswith("shovel.") and queue.endswith(".parked")


class ListedQueues:
    """Those that the settings name."""

    def __init__(self, names: list[str]) -> None:
        self._names = names

    async def queues(self) -> Iterable[str]:
        return self._names


class ManagementDirectory:
    """Those that a management API of RabbitMQ's form lists."""

    def __init__(self, address: str, upstream: UpstreamSettings) -> None:
        """Raises ``ConfigError``."""
        self._url = f"{address.rstrip('/')}/api/queues/{quote(upstream.vhost, safe='')}"
        self._upstream = upstream
        upstream.secret()
        self._seconds = upstream.connect_seconds

    async def queues(self) -> list[str]:
        """Raises ``OSError``, or ``ConfigError`` if the file with the password cannot be read."""
        login = self._upstream.user, self._upstream.secret()
        try:
            async with (
                httpx.AsyncClient(auth=login, timeout=self._seconds) as client,
                client.stream("GET", self._url, params={"columns": "name"}) as answer,
            ):
                if answer.is_error:
                    told = f"{answer.status_code} {answer.reason_phrase}"
                    raise OSError(f"{self._url}: {told}")
                octets = b""
                async for chunk in answer.aiter_bytes():
                    octets += chunk
                    if len(octets) > LARGEST:
                        raise OSError(f"{self._url}: the list of queues is too long")
                found = httpx.Response(200, content=octets).json()
                return [str(one["name"]) for one in found]
        except (httpx.HTTPError, httpx.InvalidURL, ValueError, KeyError, TypeError) as error:
            raise OSError(f"{self._url}: {error or type(error).__name__}") from error


def directory_of(
    settings: ShovelSettings, core: Core, upstreams: dict[str, UpstreamSettings]
) -> CoreDirectory | ListedQueues | ManagementDirectory:
    """Raises ``ConfigError``."""
    source = settings.source
    if not source.upstream:
        return CoreDirectory(core, source.vhost)
    if source.management:
        return ManagementDirectory(source.management, upstreams[source.upstream])
    return ListedQueues(source.known)

"""The queues of a broker with a management API, fetched over HTTP."""

import asyncio
import json
from urllib.parse import quote

import httpx

from gateway.config.bridge import UpstreamSettings
from gateway.net.tls import https_context

LARGEST = 4 << 20
"""Octets of a list of queues: a hundred thousand, which take some 40 ms to read."""


class ManagementDirectory:
    """Those that a management API of RabbitMQ's form lists."""

    def __init__(self, address: str, upstream: UpstreamSettings) -> None:
        """Raises ``ConfigError``."""
        self._url = f"{address.rstrip('/')}/api/queues/{quote(upstream.vhost, safe='')}"
        self._upstream = upstream
        upstream.secret()
        self._seconds = upstream.connect_seconds
        self._tls = https_context(address, upstream.ca)

    async def queues(self) -> list[str]:
        """Raises ``OSError``, or ``ConfigError`` if the file with the password cannot be read."""
        login = self._upstream.user, self._upstream.secret()
        try:
            async with (
                httpx.AsyncClient(
                    auth=login, timeout=self._seconds, verify=self._tls, trust_env=False
                ) as client,
                client.stream("GET", self._url, params={"columns": "name"}) as answer,
            ):
                if answer.is_error:
                    told = f"{answer.status_code} {answer.reason_phrase}"
                    raise OSError(f"{self._url}: {told}")
                octets = bytearray()
                async for chunk in answer.aiter_bytes():
                    octets += chunk
                    if len(octets) > LARGEST:
                        raise OSError(f"{self._url}: the list of queues is too long")
            return await asyncio.to_thread(names_of, octets)
        except (
            httpx.HTTPError,
            httpx.InvalidURL,
            ValueError,
            KeyError,
            TypeError,
            RecursionError,
        ) as error:
            raise OSError(f"{self._url}: {error or type(error).__name__}") from error


def names_of(document: bytes | bytearray) -> list[str]:
    """The names in a list of queues. Raises ``ValueError``, ``KeyError`` and ``TypeError``."""
    return [str(one["name"]) for one in json.loads(document)]

"""The queues of a broker with a management API, fetched over HTTP."""

from urllib.parse import quote

import httpx

from gateway.config.bridge import UpstreamSettings

LARGEST = 16 << 20
"""Octets of a list of queues."""


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

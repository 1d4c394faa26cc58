"""Reads the settings again while the gateway runs (``SIGHUP``), and hands the new ones out."""

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from gateway.config import Settings
from gateway.config.reload import LastReload, take_over
from gateway.definitions import Definitions, read_definitions
from gateway.errors import ConfigError
from gateway.http.configuration_checks import check_settings
from gateway.http.observe.logs import set_up
from gateway.importing import Result

log = logging.getLogger("gateway")

CERTIFICATE = "amqp.tls.certificate"


class Prepared(NamedTuple):
    """New settings, with the files that they name. ``context`` is for connections with TLS."""

    settings: Settings
    context: ssl.SSLContext | None
    definitions: tuple[Definitions, Result] | None


def prepare(settings: Settings) -> Prepared:
    """Check settings and read the files that they name. Raises ``ConfigError``."""
    context, file = check_settings(settings), settings.definitions
    definitions = None if file is None else read_definitions(file, settings.definitions_format)
    return Prepared(settings, context, definitions)


class Reloading:
    """``settings`` are those in use, which all parts share. ``reread`` reads them anew; ``use`` has
    parts derive again what they derived from them. One reload runs at a time."""

    def __init__(
        self,
        settings: Settings,
        reread: Callable[[], Settings],
        use: Callable[[Prepared], Awaitable[None]],
    ) -> None:
        self.settings = settings
        self.last = LastReload()
        self.reloads = self.failures = 0
        self._reread = reread
        self._use = use
        self._one = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()

    def request(self) -> None:
        """Begin a reload, now or after the one that runs; one that waits is enough."""
        if len(self._tasks) > 1:
            return
        task = asyncio.create_task(self.run())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def run(self) -> None:
        """Read the settings again. A mistake in them, or in a file that they name, changes nothing
        and is logged."""
        async with self._one:
            self.reloads += 1
            try:
                prepared = await asyncio.to_thread(lambda: prepare(self._reread()))
                self.last = await self._take(prepared)
            except ConfigError as error:
                self.failures += 1
                text = "; ".join(str(error).splitlines())
                self.last = LastReload(error=text)
                log.error("settings cannot be used, those of before are kept: %s", text)
            except Exception:
                self.failures += 1
                self.last = LastReload(
                    error="internal error, the log has it: start the gateway again"
                )
                log.exception("internal error in a reload")

    async def _take(self, prepared: Prepared) -> LastReload:
        settings, given, before = self.settings, prepared.settings, self.settings.amqp.tls
        # Ports begin or end to speak TLS when they are opened.
        tls_at_start = (before.certificate is None) != (given.amqp.tls.certificate is None)
        if tls_at_start:
            given.amqp.tls = before.model_copy()
        logged = settings.log_level, settings.log_format
        changed, left = take_over(settings, given)
        if tls_at_start:
            left.append(CERTIFICATE)
        if logged != (settings.log_level, settings.log_format):
            set_up(settings.log_level, settings.log_format)
        await self._use(prepared)
        log.info("settings read again; changed: %s", ", ".join(changed) or "none")
        if left:
            log.warning("changed, needs a restart: %s", ", ".join(left))
        return LastReload(changed=changed, needs_restart=left)

"""Where the names of the queues of a broker are known. AMQP itself cannot list them."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from gateway.bridge.core_ends import Core
from gateway.config.bridge import ShovelSettings, UpstreamSettings
from gateway.errors import Condition, Refusal

if TYPE_CHECKING:
    from gateway.bridge.management_directory import ManagementDirectory


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


def directory_of(
    settings: ShovelSettings, core: Core, upstreams: dict[str, UpstreamSettings]
) -> "CoreDirectory | ListedQueues | ManagementDirectory":
    """Raises ``ConfigError``."""
    source = settings.source
    if not source.upstream:
        return CoreDirectory(core, source.vhost)
    if source.management:
        # The HTTP client takes long to import, and few shovels need it.
        from gateway.bridge.management_directory import ManagementDirectory

        return ManagementDirectory(source.management, upstreams[source.upstream])
    return ListedQueues(source.known)

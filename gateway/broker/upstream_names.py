"""Names that are looked up at the upstream of a facade."""

from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


class UpstreamNames(dict[str, T]):
    """Exchanges or queues by name. One that is not known here is looked up at the upstream, so that
    every operation finds it; to iterate gives those that are known. May raise
    ``AwaitsUpstream``."""

    def __init__(self, find: Callable[[str], bool]) -> None:
        super().__init__()
        self._find = find

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or (isinstance(name, str) and self._find(name))

    def __missing__(self, name: str) -> T:
        if self._find(name):
            return super().__getitem__(name)
        raise KeyError(name)

    def get(self, name: str, default: Any = None) -> Any:
        try:
            return self[name]
        except KeyError:
            return default

    def known(self, name: str) -> T | None:
        """Without a question to the upstream; ``None`` if it is not known here."""
        return super().get(name)

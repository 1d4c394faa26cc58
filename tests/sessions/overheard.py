"""An adapter whose owner is overheard."""

from collections.abc import Callable
from typing import Any

from gateway.adapters import Adapter
from gateway.operations import Operation


class Overheard:
    """As the adapter behind it, but for ``send``. Engines have slots, which cannot be replaced one
    by one."""

    def __init__(self, adapter: Adapter, send: Callable[[Operation], None]) -> None:
        self._adapter = adapter
        self.send = send

    def __getattr__(self, name: str) -> Any:
        return getattr(self._adapter, name)

"""What sessions and their links need of the connection."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from gateway.adapters.options import Limits
from gateway.adapters.performatives.large_messages import Portions
from gateway.bodies import Spool
from gateway.operations import Operation

if TYPE_CHECKING:
    from gateway.adapters.performatives.links import SessionHandler
    from gateway.adapters.performatives.receiving_link import ReceivingLink
    from gateway.adapters.performatives.session import Session


class Owner(Protocol):
    """What a session needs of its connection."""

    server: bool
    limits: Limits
    frame_out: int
    """Octets of the largest frame the peer takes."""
    pending: list[bytes]
    annotates: bool
    """Deliveries say where their message was published."""
    blocked: bool
    """Publishers are held back: no more credit."""
    later: list[Operation]
    """What is found outside of ``receive``."""
    under_way: int
    """Octets of the messages that are half received, over the whole connection."""
    crowded: Callable[[], None]
    portions: Portions
    spool: Spool | None
    """Where messages go that are too large for memory; ``None``: they stay there."""
    container: str
    drains: set["ReceivingLink"]
    """Links that the peer was asked to drain."""
    sessions: dict[int, "Session"]

    def put(self, octets: bytes) -> None: ...

    def write(self, channel: int, record: Any, payload: bytes = b"") -> None: ...

    def weigh(self, octets: int) -> None: ...

    def session_ended(self, session: Any) -> None:
        """The peer's end has come."""
        ...

    def session_gone(self, session: Any) -> None:
        """So has ours."""
        ...

    def handler(self, session: Any) -> "SessionHandler":
        """What is to be done with a new session."""
        ...

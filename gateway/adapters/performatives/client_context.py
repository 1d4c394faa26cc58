"""Client role: shared state of the parts of one session, and answers to our own operations."""

from collections.abc import Iterable
from typing import Any

from gateway.adapters.performatives import addresses
from gateway.adapters.performatives.connection import Connection
from gateway.adapters.performatives.links import Link
from gateway.adapters.performatives.session import Session
from gateway.adapters.performatives.violation import reason
from gateway.adapters.performatives.wire import layouts as w
from gateway.adapters.performatives.wire.tables import AmqpError
from gateway.errors import Condition, Lost
from gateway.operations import Done, Operation, Refused, Token

DETACHED = "the link was detached"


class ClientContext:
    """One session in the client role."""

    def __init__(self, session: Session, connection: Connection) -> None:
        self.session = session
        self.connection = connection
        self.form = self.connection.addresses or addresses.form_of(self.connection.peer)
        """The form in which addresses are written."""
        self._serial = 0

    def link_name(self, kind: str) -> str:
        """A name that no other link of this connection has."""
        self._serial += 1
        return f"{kind}:{self.session.number}.{self._serial}"

    def answer(
        self, token: Token, result: Any = None, found: list[Operation] | None = None
    ) -> None:
        """Answer an operation: at once, or in ``found``."""
        if token is not None:
            found = self.connection.later if found is None else found
            found.append(Done(self.session.number, token, result))

    def refuse(
        self, token: Token, condition: Condition, text: str, found: list[Operation] | None = None
    ) -> None:
        """Refuse an operation: at once, or in ``found``."""
        if token is not None:
            found = self.connection.later if found is None else found
            found.append(Refused(self.session.number, token, condition, text, Lost.LINK))

    def refused(self, token: Token, lost: bool) -> Refused:
        """The refusal of an operation that the peer can no longer answer."""
        scope = Lost.CONNECTION if lost else Lost.SESSION
        otherwise = f"the {'connection' if lost else 'session'} is gone"
        condition, text = reason(self.session.reason, otherwise)
        return Refused(self.session.number, token, condition, text, scope)

    def refusals(
        self, tokens: Iterable[Token], link: Link, record: w.Detach | None, lost: bool
    ) -> list[Refused]:
        """The refusals of operations on a link that is over: with the error of the last detach, the
        peer's or ours; without a detach because its session is over."""
        error = link.fault if record is None else record.error
        pending = [token for token in tokens if token is not None]
        if record is None and link.closing is None:
            return [self.refused(token, lost) for token in pending]
        condition, text = reason(error, DETACHED)
        number = self.session.number
        return [Refused(number, token, condition, text, Lost.LINK) for token in pending]

    def lose(self, text: str, found: list[Operation]) -> None:
        """The session cannot go on."""
        self.session.fail(AmqpError.PRECONDITION_FAILED, text, found)

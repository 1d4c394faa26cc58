"""Client role: transactions of one session, by a link to the peer's coordinator (part 4).

``DeclareTransaction`` and ``Discharge`` map to the commands of the same names. ``Select`` makes all
publishes and settlements of the session part of a current transaction, which ``Commit`` and
``Rollback`` discharge and replace; operations that come before the next transaction is declared
wait for it.
"""

from collections.abc import Callable
from typing import Any

from gateway.adapters.performatives.client_context import ClientContext
from gateway.adapters.performatives.client_messages import coordinator_message
from gateway.adapters.performatives.deliveries import OutgoingDelivery
from gateway.adapters.performatives.links import LinkHandler
from gateway.adapters.performatives.outcomes import SYMBOLS
from gateway.adapters.performatives.sending_link import SendingLink
from gateway.adapters.performatives.violation import reason
from gateway.adapters.performatives.wire import layouts as w
from gateway.adapters.performatives.wire.tables import TxnCapability
from gateway.errors import Condition
from gateway.message import Message
from gateway.operations import (
    Commit,
    DeclareTransaction,
    Discharge,
    Done,
    Operation,
    Rollback,
    Select,
    Token,
)

Then = Callable[[Any, list[Operation]], None]
"""Takes the state that answers a command, and the list for operations."""

Failed = Callable[[list[Operation]], None]


class ClientTransactions(LinkHandler):
    """The transactions of one session, and its link to the coordinator."""

    def __init__(self, context: ClientContext, send: Callable[[Operation], None]) -> None:
        """``send`` performs an operation that has waited."""
        self.context = context
        self._send = send
        self.session = context.session
        self.current: bytes | None = None
        """The transaction that everything is part of."""
        self.selected = False
        self.waiting: list[Operation] = []
        """Operations that wait for the next transaction."""
        self._link: SendingLink | None = None
        self._pending: dict[int, tuple[Token, Then, Failed | None]] = {}
        """Commands by number."""
        self._posts: dict[int, Token] = {}
        """Messages whose routing has to be reported, by number."""
        self._under_way: set[int] = set()
        """Messages in the current transaction of which no outcome has come. One may wait for the
        credit of its link, and must not be overtaken by the end of the transaction."""
        self._refused = ""
        """Why a message of the current transaction was not taken: it cannot be committed then."""
        self._ending: tuple[Commit | Rollback, bytes] | None = None
        self._serial = 0

    # --- operations -------------------------------------------------------------------------------

    def declare(self, op: DeclareTransaction) -> None:
        def declared(state: Any, found: list[Operation]) -> None:
            found.append(Done(op.channel, op.token, state.txn_id))

        self._command(w.Declare(), op.token, declared)

    def discharge(self, op: Discharge) -> None:
        def discharged(state: Any, found: list[Operation]) -> None:
            found.append(Done(op.channel, op.token))

        self._command(w.Discharge(op.transaction, op.fail), op.token, discharged)

    def select(self, op: Select) -> None:
        if self.selected:
            self.context.answer(op.token)
            return
        self.selected = True
        self._next(op.token)

    def end(self, op: Commit | Rollback) -> None:
        """Discharge the current transaction, and declare the next."""
        if not self.selected:
            self.context.refuse(op.token, Condition.PRECONDITION_FAILED, "not transactional")
            return
        if self.current is None:
            self.waiting.append(op)
            return
        self._ending = op, self.current
        self.current = None
        self._discharge_when_due()

    def _discharge_when_due(self) -> None:
        if self._ending is None or self._under_way:
            return
        (op, transaction), self._ending = self._ending, None
        refused, self._refused = self._refused, ""
        if refused and isinstance(op, Commit):
            self.context.refuse(op.token, Condition.PRECONDITION_FAILED, refused)
            op = Rollback(op.channel, None)

        def discharged(state: Any, found: list[Operation]) -> None:
            self._next(op.token)

        def failed(found: list[Operation]) -> None:
            self._next(None)  # rolled back: op is refused, and a new one begins

        record = w.Discharge(transaction, isinstance(op, Rollback))
        self._command(record, op.token, discharged, failed)

    def _next(self, token: Token) -> None:
        def declared(state: Any, found: list[Operation]) -> None:
            self.current = state.txn_id
            self.context.answer(token, None, found)
            waiting, self.waiting = self.waiting, []
            for at, operation in enumerate(waiting):
                if self.current is None:  # one of them has ended it
                    self.waiting += waiting[at:]
                    return
                self._send(operation)

        def failed(found: list[Operation]) -> None:
            self.selected = False
            if self.waiting:
                self.drop_waiting(found, False)
                self.context.lose(
                    "there is no transaction for the operations that waited for one", found
                )

        self._command(w.Declare(), token, declared, failed)

    def number(self, number: int) -> int:
        """The number of a message that is sent in the current transaction; one of ours, if it is
        not to be confirmed."""
        if not number:
            self._serial -= 1
            number = self._serial
        self._under_way.add(number)
        return number

    def finished(self, number: int) -> None:
        """Its outcome is known, or it will not be sent."""
        if number in self._under_way:
            self._under_way.discard(number)
            self._discharge_when_due()

    def defer(self, operation: Operation) -> bool:
        """Keep it for the next transaction, if there is none at the moment."""
        if self.selected and self.current is None:
            self.waiting.append(operation)
            return True
        return False

    def drop_waiting(self, found: list[Operation], lost: bool) -> None:
        """There will be no next transaction."""
        waiting, self.waiting = self.waiting, []
        tokens = [getattr(operation, "token", None) for operation in waiting]
        found += [self.context.refused(token, lost) for token in tokens if token is not None]

    def posted(self, token: Token) -> int:
        """The number of a message that is sent in a transaction by name. ``token`` is answered with
        whether it could be routed."""
        self._serial -= 1
        self._posts[self._serial] = token
        return self._serial

    def _command(self, record: Any, token: Token, then: Then, failed: Failed | None = None) -> None:
        link = self._link
        if link is None:
            link = self._link = self.session.offer(
                self.context.link_name("coordinator"), False, self
            )
            link.source = w.Source(outcomes=SYMBOLS)
            link.target = w.Coordinator((TxnCapability.LOCAL_TRANSACTIONS,))
            link.attach()
        self._serial -= 1
        self._pending[self._serial] = token, then, failed
        link.deliver(self._serial, coordinator_message(record), False, False)

    # --- answers ----------------------------------------------------------------------------------

    def on_posted(self, number: int, state: w.TransactionalState, found: list[Operation]) -> bool:
        """The provisional outcome of a message. False if the message was not posted by
        ``posted``."""
        if type(state.outcome) is w.Rejected and number not in self._posts:
            self._refused = reason(state.outcome.error, "a message was rejected")[1]
        self.finished(number)
        if number not in self._posts:
            return False
        routed = type(state.outcome) is w.Accepted
        self.context.answer(self._posts.pop(number), routed, found)
        return True

    def unsent(self, number: int, text: str, found: list[Operation]) -> bool:
        """A message cannot be sent. False if it was not posted in a transaction by name."""
        if number in self._under_way:
            self._refused = text
        self.finished(number)
        if number not in self._posts:
            return False
        token = self._posts.pop(number)
        self.context.refuse(token, Condition.PRECONDITION_FAILED, text, found)
        return True

    def on_unsent(self, link: SendingLink, number: int, message: Message, text: str) -> None:
        """A command that the coordinator would not take."""
        asked = self._pending.pop(number, None)
        if asked is not None:
            found = self.session.connection.later
            self._fail(asked[0], w.Error("amqp:not-allowed", text), found)
            if asked[2] is not None:
                asked[2](found)

    def on_outcome(
        self, sent: OutgoingDelivery, state: Any, settled: bool, found: list[Operation]
    ) -> None:
        asked = self._pending.pop(sent.number, None)
        if asked is None:
            return
        token, then, failed = asked
        if isinstance(state, w.Declared | w.Accepted):
            then(state, found)
            return
        self._fail(token, getattr(state, "error", None), found)
        if failed is not None:
            failed(found)

    def _fail(self, token: Token, error: w.Error | None, found: list[Operation]) -> None:
        condition, text = reason(error, "the coordinator has refused")
        self.context.refuse(token, condition, text, found)

    def on_credit(self, link: SendingLink, record: w.Flow, found: list[Operation]) -> None:
        if link.drain:
            link.drained(link.credit - link.waiting)

    def on_detached(
        self, link: Any, record: w.Detach | None, closed: bool, lost: bool, found: list[Operation]
    ) -> None:
        """With the link all its transactions are rolled back (§4.3)."""
        self._link = self.current = None
        self._under_way.clear()
        tokens = [token for token, _, _ in self._pending.values()] + list(self._posts.values())
        if self._ending is not None:
            tokens.append(self._ending[0].token)
        commands = len(self._pending)
        found += self.context.refusals(tokens, link, record, lost)
        self._pending.clear()
        self._posts.clear()
        self._ending = None
        if record is not None:
            link.detach(True, found)
        elif link.fault is None:
            return
        if self.selected:
            self.selected = False
            if self.waiting or not commands:
                self.drop_waiting(found, False)
                self.context.lose("the transactions of this session are rolled back", found)

"""The server role of transactions (part 4): links to the coordinator, and work in a transaction.

A transaction belongs to the control link that declared it, and may be used on its session. It ends
with that link, rolled back: by the session layer, which hears of the link's end as of any other.
"""

from itertools import groupby
from operator import attrgetter
from typing import Any

from gateway.adapters.performatives.composites import read_composite, symbol_for
from gateway.adapters.performatives.decoding import FieldError
from gateway.adapters.performatives.deliveries import (
    AcquiredDelivery,
    IncomingDelivery,
    OutgoingDelivery,
    runs,
)
from gateway.adapters.performatives.links import Link, LinkHandler
from gateway.adapters.performatives.outcomes import (
    ACCEPTED,
    RELEASED,
    default_outcome,
    is_transactional,
    outcome_of,
    rejected,
    settle,
)
from gateway.adapters.performatives.pending import PendingReply
from gateway.adapters.performatives.receiving_link import ReceivingLink
from gateway.adapters.performatives.sections import VALUE, split
from gateway.adapters.performatives.sending_link import SendingLink
from gateway.adapters.performatives.server_links import take_settle_modes
from gateway.adapters.performatives.session import Session
from gateway.adapters.performatives.termini import BadTerminus
from gateway.adapters.performatives.violation import error
from gateway.adapters.performatives.wire import layouts as w
from gateway.adapters.performatives.wire.tables import (
    AmqpError,
    SenderSettleMode,
    TransactionError,
    TxnCapability,
)
from gateway.errors import Condition, Lost
from gateway.message import Message
from gateway.operations import (
    DeclareTransaction,
    DetachLink,
    Discharge,
    Modify,
    Operation,
    Outcome,
    Post,
    Retire,
    RetireMany,
    SettleMany,
)

MOST = 255
"""Transactions that may be open on one session."""

CREDIT = 100
"""Declares and discharges that may be under way on one control link."""

CAPABILITIES = (TxnCapability.LOCAL_TRANSACTIONS, TxnCapability.MULTI_TXNS_PER_SSN)

REJECTED = "amqp:rejected:list"


class Coordinator(LinkHandler):
    """The handler of the control links of one session, and the transactions they declared."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.transactions: dict[bytes, Link] = {}
        """Open transactions, and the control link of each."""
        self.retired: dict[bytes, list[OutgoingDelivery]] = {}
        """Deliveries whose outcome is part of a transaction."""
        self.doomed: set[bytes] = set()
        """Those that must not be discharged with success (§4.4.4.1)."""
        self.ending: set[bytes] = set()
        """Those whose discharge is not answered."""
        self.gone: dict[bytes, list[OutgoingDelivery]] = {}
        """Retired deliveries that the peer has settled, by transaction: after a rollback they have
        their default outcome, as far as the broker does not see to that."""
        self.acquiring: set[bytes] = set()
        """Transactions that links have acquired messages in; only for these the acquired deliveries
        are searched."""
        self._declaring = 0
        """Number of declares without an answer yet."""

    # --- control links --------------------------------------------------------------------------

    def attach(self, record: w.Attach, found: list[Operation]) -> None:
        """A link to the coordinator (§4.5.1). It cannot be resumed."""
        link: ReceivingLink = self.session.accept(record, self, found)
        link.source = record.source
        link.target = w.Coordinator(CAPABILITIES)
        try:
            take_settle_modes(link, record)
        except BadTerminus as bad:
            link.refuse(AmqpError.INVALID_FIELD, str(bad))
            return
        outcomes = getattr(record.source, "outcomes", None)
        link.data = not outcomes or REJECTED in outcomes
        link.window = CREDIT
        link.max_message = self.session.connection.limits.max_message_octets
        link.attach(max_message_size=link.max_message or None)

    def on_detached(
        self, link: Any, record: w.Detach | None, closed: bool, lost: bool, found: list[Operation]
    ) -> None:
        """Roll back the transactions that it declared (§4.1)."""
        token = None
        if record is not None:
            answer = bool(record.closed)
            token = PendingReply(lambda result: link.detach(answer))
        found.append(DetachLink(self.session.number, token, link.number, True, lost))
        for txn_id in [txn_id for txn_id, owner in self.transactions.items() if owner is link]:
            self._rolled_back(txn_id, found)

    def on_message(self, arrival: IncomingDelivery, octets: bytes, found: list[Operation]) -> None:
        """Declare or discharge (§4.2, §4.3)."""
        link = arrival.link
        if arrival.settled:
            raise link.violated(AmqpError.ILLEGAL_STATE, "a settled message for the coordinator")
        if is_transactional(arrival.state):
            raise link.violated(AmqpError.NOT_ALLOWED, "transactional work on a control link")
        try:
            record = request(octets)
        except FieldError as bad:
            self._reject(arrival, AmqpError.DECODE_ERROR, str(bad))
            return
        if isinstance(record, w.Declare):
            self._declare(arrival, record, found)
        elif isinstance(record, w.Discharge):
            self._discharge(arrival, record, found)
        else:
            text = "the coordinator takes declare and discharge"
            self._reject(arrival, AmqpError.NOT_IMPLEMENTED, text)

    def _reject(self, arrival: IncomingDelivery, symbol: str, text: str) -> None:
        """Report the error by the outcome, or by detaching the link if the source lacks that
        outcome."""
        if arrival.link.over:
            return
        if arrival.link.data:
            self.session.unsettled.settle_received([arrival], w.Rejected(error(symbol, text)))
        else:
            arrival.link.fail(symbol, text, self.session.connection.later)

    def _declare(
        self, arrival: IncomingDelivery, record: w.Declare, found: list[Operation]
    ) -> None:
        link = arrival.link
        if record.global_id is not None:
            text = "distributed transactions are not supported"
            self._reject(arrival, AmqpError.NOT_IMPLEMENTED, text)
            return
        if len(self.transactions) + self._declaring >= MOST:
            text = f"more than {MOST} transactions are open on the session"
            self._reject(arrival, AmqpError.RESOURCE_LIMIT_EXCEEDED, text)
            return
        self._declaring += 1

        def declared(txn_id: bytes) -> None:
            self._declaring -= 1
            if not link.over:
                self.transactions[txn_id] = link
                self.session.unsettled.settle_received([arrival], w.Declared(txn_id))

        def refused(condition: Condition, text: str) -> None:
            self._declaring -= 1
            self._reject(arrival, symbol_for(condition, Lost.LINK), text)

        token = PendingReply(declared, refused)
        found.append(DeclareTransaction(self.session.number, token, link.number))

    def _discharge(
        self, arrival: IncomingDelivery, record: w.Discharge, found: list[Operation]
    ) -> None:
        link = arrival.link
        txn_id, fail = record.txn_id, bool(record.fail)
        if self.transactions.get(txn_id) is not link or txn_id in self.ending:
            self._reject(arrival, TransactionError.UNKNOWN_ID, "no such transaction")
            return
        if self._is_posted_in_part(txn_id):
            raise link.violated(
                TransactionError.TRANSACTION_ROLLBACK,
                "a transaction is discharged while a message is posted to it in part",
            )
        doomed = txn_id in self.doomed and not fail
        self.ending.add(txn_id)

        def discharged(result: Any) -> None:
            if fail or doomed:
                self._rolled_back(txn_id, self.session.connection.later)
            else:
                self._committed(txn_id)
            if doomed:
                text = "some of the transaction's work could not be done"
                self._reject(arrival, TransactionError.TRANSACTION_ROLLBACK, text)
            else:
                self.session.unsettled.settle_received([arrival], ACCEPTED)

        def refused(condition: Condition, text: str) -> None:
            self._rolled_back(txn_id, self.session.connection.later)
            self._reject(arrival, TransactionError.TRANSACTION_ROLLBACK, text)

        token = PendingReply(discharged, refused)
        found.append(Discharge(self.session.number, token, link.number, txn_id, fail or doomed))

    def _is_posted_in_part(self, txn_id: bytes) -> bool:
        for link in self.session.links.values():
            if isinstance(link, ReceivingLink) and link.partial is not None:
                state = link.partial.arrival.state
                if is_transactional(state) and state.txn_id == txn_id:
                    return True
        return False

    def _forget(self, txn_id: bytes) -> list[OutgoingDelivery]:
        self.transactions.pop(txn_id, None)
        self.doomed.discard(txn_id)
        self.ending.discard(txn_id)
        self.acquiring.discard(txn_id)
        self.retired.pop(txn_id, None)
        return self.gone.pop(txn_id, [])

    def _live(self, txn_id: bytes) -> list[OutgoingDelivery]:
        """Retired deliveries that the peer has not settled."""
        live = self.session.unsettled.sent
        return [sent for sent in self.retired.get(txn_id, ()) if live.get(sent.id) is sent]

    def is_open(self, txn_id: bytes) -> bool:
        return txn_id in self.transactions and txn_id not in self.ending

    # --- work in a transaction ------------------------------------------------------------------

    def post(
        self, arrival: IncomingDelivery, message: Message, mandatory: bool, found: list[Operation]
    ) -> None:
        """A message that becomes available when its transaction is discharged (§4.4.1). Its
        provisional outcome is written at once, in the transaction."""
        txn_id = arrival.state.txn_id
        if not self.is_open(txn_id):
            self._unknown(arrival)
            return

        def posted(routed: bool) -> None:
            self._write_outcome(arrival, txn_id, ACCEPTED if routed or not mandatory else RELEASED)

        token = PendingReply(
            posted,
            lambda condition, text: self._write_outcome(arrival, txn_id, rejected(condition, text)),
        )
        found.append(Post(self.session.number, token, arrival.link.number, txn_id, message))

    def unposted(self, arrival: IncomingDelivery, state: Any) -> None:
        """A message for a transaction that could not even be read, or has no place."""
        txn_id = arrival.state.txn_id
        if self.is_open(txn_id):
            self._write_outcome(arrival, txn_id, state)
        else:
            self._unknown(arrival)

    def _unknown(self, arrival: IncomingDelivery) -> None:
        text = "no such transaction"
        if arrival.settled:
            raise arrival.link.violated(TransactionError.UNKNOWN_ID, text)
        state = w.Rejected(error(TransactionError.UNKNOWN_ID, text))
        self.session.unsettled.settle_received([arrival], state)

    def _write_outcome(self, arrival: IncomingDelivery, txn_id: bytes, outcome: Any) -> None:
        """Report an outcome: by a disposition, or for settled messages at the discharge, if it is
        bad."""
        if arrival.settled:
            if outcome is not ACCEPTED and txn_id in self.transactions:
                self.doomed.add(txn_id)
        else:
            self.session.unsettled.settle_received([arrival], w.TransactionalState(txn_id, outcome))

    def retire(
        self, sent: OutgoingDelivery, state: Any, settled: bool, found: list[Operation]
    ) -> None:
        """The outcome of a delivery as part of a transaction (§4.4.2); or any other state of a
        delivery that already has such an outcome."""
        link = sent.link
        if link.over:
            self.missed(state)  # the terminus has it, and is in no transaction
            return
        before = sent.txn_id
        if before is not None and before not in self.transactions:
            self._after_rollback(sent, state, settled, found)
            return
        txn_id: Any = state.txn_id if is_transactional(state) else before
        acquired = isinstance(sent, AcquiredDelivery)
        if isinstance(sent, AcquiredDelivery) and not sent.has_outcome:
            if not is_transactional(state) or txn_id != before:
                self._outside(sent, settled or not is_transactional(state), found)
                return
            before = None
        elif before is not None and txn_id == before:
            self._again(sent, state, settled, found)
            return
        if not self.is_open(txn_id):
            raise link.violated(TransactionError.UNKNOWN_ID, "no such transaction")
        if before is not None:
            self._conflict(before, found)
            if settled:
                found += self._settled(sent, None)
            return
        outcome = outcome_of(state.outcome, self.session.number, sent.number)
        if outcome is None and not settled:
            return  # no outcome yet
        sent.txn_id, sent.retired = txn_id, state.outcome
        if isinstance(sent, AcquiredDelivery):
            sent.has_outcome = True
        self.retired.setdefault(txn_id, []).append(sent)
        default = default_outcome(link.source, self.session.number, sent.number)
        if acquired:
            settled = True  # a rollback takes back the acquisition too (§4.4.4.3)
        elif settled and default is not Outcome.RELEASE:
            # The broker would release it after a rollback: we apply the default (§4.4.4.2).
            self.gone.setdefault(txn_id, []).append(sent)
            settled = False
        outcome = default if outcome is None else outcome
        found.append(Retire(self.session.number, txn_id, sent.number, outcome, settled))

    def retire_range(
        self,
        link: Link,
        deliveries: list[OutgoingDelivery],
        state: Any,
        settled: bool,
        found: list[Operation],
    ) -> list[OutgoingDelivery]:
        """One operation for all of a link that is in no transaction yet (``retire``). Gives the
        rest."""
        txn_id = state.txn_id
        outcome = outcome_of(state.outcome, self.session.number, 0)
        default = default_outcome(link.source, self.session.number, 0)
        if not self.is_open(txn_id) or (outcome is None and not settled):
            return deliveries
        outcome = default if outcome is None else outcome
        if isinstance(outcome, Modify) and outcome.elsewhere:
            return deliveries
        plain = [
            sent
            for sent in deliveries
            if sent.link is link
            and sent.txn_id is None
            and sent.number
            and type(sent) is OutgoingDelivery
        ]
        if not plain:
            return deliveries
        rest: list[OutgoingDelivery] = []
        if len(plain) < len(deliveries):
            taken = {sent.id for sent in plain}
            rest = [sent for sent in deliveries if sent.id not in taken]
        retired = state.outcome
        for sent in plain:
            sent.txn_id, sent.retired = txn_id, retired
        self.retired.setdefault(txn_id, []).extend(plain)
        if settled and default is not Outcome.RELEASE:
            self.gone.setdefault(txn_id, []).extend(plain)
            settled = False
        numbers = [sent.number for sent in plain]
        found.append(RetireMany(self.session.number, txn_id, numbers, outcome, settled))
        return rest

    # --- acquisition in a transaction -----------------------------------------------------------

    def acquire(self, link: SendingLink, txn_id: Any) -> None:
        """Later deliveries of this link are acquired in a transaction (§4.4.3)."""
        if txn_id is not None:
            if link.snd_mode == SenderSettleMode.SETTLED:
                text = "transactional acquisition over a link that settles"
                raise link.violated(AmqpError.NOT_IMPLEMENTED, text)
            if not isinstance(txn_id, bytes) or not self.is_open(txn_id):
                raise link.violated(TransactionError.UNKNOWN_ID, "no such transaction")
            self.acquiring.add(txn_id)
        link.acquire(txn_id)

    def _outside(self, sent: OutgoingDelivery, gone: bool, found: list[Operation]) -> None:
        """The outcome of a delivery that was acquired in a transaction must be part of the same
        (§4.4.4.3). ``gone``: it is settled already."""
        txn_id = sent.txn_id
        if txn_id is not None and txn_id in self.transactions:
            text = "an outcome outside of the transaction that its delivery was acquired in"
            self.transactions[txn_id].fail(TransactionError.TRANSACTION_ROLLBACK, text, found)
        if gone:
            found.append(settle(Outcome.RELEASE, self.session.number, sent.number))

    def _acquirers(self, txn_id: bytes) -> list[SendingLink]:
        """All links that send. Those that acquired in this transaction do it in none now."""
        links = [each for each in self.session.links.values() if isinstance(each, SendingLink)]
        for link in links:
            if link.acquiring == txn_id:
                link.acquire(None)
        return links

    def _acquired(self, txn_id: bytes) -> list[AcquiredDelivery]:
        sent = self.session.unsettled.sent.values()
        return [
            each for each in sent if isinstance(each, AcquiredDelivery) and each.txn_id == txn_id
        ]

    def _keep(self, txn_id: bytes) -> None:
        """The transaction has succeeded: keep the acquired messages acquired."""
        for link in self._acquirers(txn_id):
            for queued in link.held:
                if is_transactional(queued.state) and not queued.started:
                    queued.state = None
        for sent in self._acquired(txn_id):
            plain = OutgoingDelivery(sent.link, sent.id, sent.number, sent.tag)
            self.session.unsettled.sent[sent.id] = sent.link.unsettled[sent.id] = plain

    def _give_back(self, txn_id: bytes, found: list[Operation]) -> None:
        """The transaction has failed: return the acquired messages. The broker undoes the outcomes
        that the peer has given."""
        numbers: set[int] = set()
        late: set[int] = set()
        for link in self._acquirers(txn_id):
            numbers.update(link.release(txn_id))
            link.flush()
        acquired = self._acquired(txn_id)
        for sent in acquired:
            del self.session.unsettled.sent[sent.id], sent.link.unsettled[sent.id]
            if not sent.has_outcome:
                (late if sent.link.over else numbers).add(sent.number)
        for first, last in runs(sent.id for sent in acquired):
            self.session.unsettled.settle_sent(first, last, RELEASED)
        number = self.session.number
        if numbers:
            found.append(SettleMany(number, sorted(numbers), Outcome.RELEASE))
        found += [settle(Outcome.RELEASE, number, each) for each in sorted(late)]

    def missed(self, state: Any) -> None:
        """An outcome within a transaction, for a delivery that has gone back with its link: it
        cannot be applied, so the transaction cannot be discharged (§4.4.2)."""
        if is_transactional(state) and state.txn_id in self.transactions:
            self.doomed.add(state.txn_id)

    def _again(
        self, sent: OutgoingDelivery, state: Any, settled: bool, found: list[Operation]
    ) -> None:
        """Another state of a delivery that was retired in the same transaction. It may settle the
        delivery, but not change its outcome."""
        txn_id = sent.txn_id
        assert txn_id is not None
        outcome = state.outcome if is_transactional(state) else state
        same = outcome is None or (is_transactional(state) and outcome == sent.retired)
        if same or txn_id in self.ending:
            if settled or not is_transactional(state):
                self.gone.setdefault(txn_id, []).append(sent)
            return
        self._conflict(txn_id, found)
        self._after_rollback(sent, state, settled, found)

    def _after_rollback(
        self, sent: OutgoingDelivery, state: Any, settled: bool, found: list[Operation]
    ) -> None:
        """A state of a delivery whose transaction was rolled back because of the same disposition.
        If that settles the delivery, its outcome is the one outside of the transaction, else the
        default."""
        if not settled and is_transactional(state):
            return  # it is live again, or given back
        if isinstance(sent, AcquiredDelivery) and not sent.has_outcome:
            found.append(settle(Outcome.RELEASE, self.session.number, sent.number))
            return
        found += self._settled(sent, outcome_of(state, self.session.number, sent.number))

    def _conflict(self, txn_id: bytes, found: list[Operation]) -> None:
        text = "a delivery whose outcome is part of the transaction already"
        self.transactions[txn_id].fail(TransactionError.TRANSACTION_ROLLBACK, text, found)

    def _settled(self, sent: OutgoingDelivery, outcome: Outcome | Modify | None) -> list[Operation]:
        """The outcome of a delivery that was retired in a transaction which is rolled back;
        ``None``: the default. The broker itself returns a message that was acquired in the
        transaction."""
        if isinstance(sent, AcquiredDelivery):
            return []
        if outcome is None:
            outcome = default_outcome(sent.link.source, self.session.number, sent.number)
        return [settle(outcome, self.session.number, sent.number)]

    def _committed(self, txn_id: bytes) -> None:
        """Apply the outcomes, and settle the deliveries that the peer has not settled (§4.4.2)."""
        self._settle_all(self._live(txn_id))
        if txn_id in self.acquiring:
            self._keep(txn_id)
        self._forget(txn_id)

    def _settle_all(self, deliveries: list[OutgoingDelivery]) -> None:
        """We settle these with the outcomes that they were retired with: one disposition for each
        run of consecutive ids and one outcome."""
        for state, some in groupby(deliveries, key=attrgetter("retired")):
            ids: list[int] = []
            for sent in some:
                del self.session.unsettled.sent[sent.id], sent.link.unsettled[sent.id]
                ids.append(sent.id)
            for first, last in runs(ids):
                self.session.unsettled.settle_sent(first, last, state)

    def _rolled_back(self, txn_id: bytes, found: list[Operation]) -> None:
        """Deliveries are live again, as they were; those that the peer has settled meanwhile have
        the default outcome (§4.4.4.2)."""
        if txn_id in self.acquiring:
            self._give_back(txn_id, found)
        for sent in self._live(txn_id):
            sent.txn_id = sent.retired = None
        for sent in self._forget(txn_id):
            if not sent.link.over:
                found += self._settled(sent, None)


def request(octets: bytes) -> Any:
    """The record in the one amqp-value section of a message to the coordinator. Raises
    ``FieldError``."""
    body = split(octets).body
    if len(body) != 1 or body[0][0] != VALUE:
        raise FieldError("a message to the coordinator holds one amqp-value section")
    _, start, stop = body[0][1]
    return read_composite(octets, start, stop)[0]

"""A broker as small as the tests need: queues by address, confirms at the end of each turn,
transactions. It answers what an engine (server role) hears, and remembers it in ``heard``."""

from collections import deque
from collections.abc import Callable
from typing import Any

from gateway.adapters.performatives.engine import Engine
from gateway.errors import Condition, Lost, Refusal
from gateway.message import Message
from gateway.operations import (
    Assure,
    Attached,
    AttachSource,
    AttachTarget,
    BeginSession,
    Closed,
    Credit,
    DeclareTransaction,
    DetachLink,
    Discharge,
    Done,
    EndSession,
    Manage,
    Modify,
    Open,
    Operation,
    Outcome,
    Post,
    Publish,
    Refused,
    Retire,
    Returned,
    SelectConfirms,
    Settle,
)
from gateway.sessions.publishes import one_by_one


class Consumer:
    def __init__(self, channel: int, tag: str, queue: str, settled: bool) -> None:
        self.channel, self.tag, self.queue, self.settled = channel, tag, queue, settled
        self.credit = 0


class Broker:
    """``hold``: classes of operations that it does not answer until ``release``."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.heard: list[Operation] = []
        self.queues: dict[str, deque[tuple[Message, bool]]] = {}
        self.consumers: dict[tuple[int, str], Consumer] = {}
        self.unsettled: dict[tuple[int, int], tuple[Consumer, Message]] = {}
        self.published: dict[int, int] = {}
        self.delivered: dict[int, int] = {}
        self.works: dict[bytes, list[Callable[[], None]]] = {}
        self.hold: set[type[Any]] = set()
        self.held: list[Operation] = []
        self.refused: list[Operation] = []
        self.confirming = True
        self._numbers = 0

    def queue(self, name: str) -> deque[tuple[Message, bool]]:
        return self.queues.setdefault(name, deque())

    def answer(self, op: Any, result: Any = None) -> None:
        if getattr(op, "token", None) is not None:
            self.engine.send(Done(getattr(op, "channel", 0), op.token, result))

    def refuse(self, op: Any, condition: Condition, text: str, lost: Lost = Lost.LINK) -> None:
        self.refused.append(op)
        self.engine.send(Refused(op.channel, op.token, condition, text, lost))

    def perform(self, operations: list[Operation]) -> list[Operation]:
        operations = list(one_by_one(operations))
        self.heard += operations
        first = dict(self.published)
        for op in operations:
            if type(op) in self.hold:
                self.held.append(op)
            else:
                self._perform(op)
        if self.confirming:
            for channel, last in self.published.items():
                if last > first.get(channel, 0) and channel in self.engine.connection.sessions:
                    self.engine.outlet(channel).confirm(last, True, True)
        self.pump()
        return operations

    def release(self) -> None:
        held, self.held = self.held, []
        for op in held:
            self._perform(op)
        self.pump()

    def _perform(self, op: Any) -> None:
        match op:
            case Closed() if op.token is not None:
                self.answer(op)
                self.heard += self.engine.found()
            case Open() | EndSession() | SelectConfirms() | BeginSession() | Manage() | Assure():
                self.answer(op)
                if isinstance(op, BeginSession):
                    self.published[op.channel] = self.delivered[op.channel] = 0
            case AttachSource():
                self._attach_source(op)
            case AttachTarget():
                self._attach_target(op)
            case DetachLink():
                consumer = self.consumers.pop((op.channel, op.link), None)
                if op.closed and consumer is not None:
                    for key in [k for k, v in self.unsettled.items() if v[0] is consumer]:
                        self._settle(key, Outcome.RELEASE)
                self.answer(op)
            case Publish():
                self.published[op.channel] += 1
                if op.message.key == "nowhere":
                    self.engine.send(
                        Returned(
                            op.channel,
                            op.message,
                            Condition.NO_ROUTE,
                            "no queue",
                            self.published[op.channel],
                        )
                    )
                else:
                    self.queue(op.message.key).append((op.message, False))
            case Credit():
                assert op.count is not None
                consumer = self.consumers.get((op.channel, op.tag))
                if consumer is not None:
                    consumer.credit = op.count
                    self.pump()
                dropped = consumer.credit if consumer is not None else op.count
                if op.drain and consumer is not None:
                    consumer.credit = 0
                self.answer(op, dropped if op.drain else 0)
            case Settle():
                self._settle((op.channel, op.delivery), op.outcome)
            case Modify():
                outcome = Outcome.REJECT if op.elsewhere else Outcome.RELEASE
                self._settle((op.channel, op.delivery), outcome)
            case _:
                self._work(op)

    def _attach_source(self, op: AttachSource) -> None:
        address = op.terminus.address
        if op.terminus.dynamic:
            address = op.terminus.address = f"dynamic-{len(self.queues)}"
            self.queue(address)
        if address is None or address.startswith("missing"):
            self.refuse(op, Condition.NOT_FOUND, f"no queue {address}")
            return
        self.consumers[op.channel, op.link] = Consumer(op.channel, op.link, address, op.settled)
        self.answer(op, Attached(op.terminus))

    def _attach_target(self, op: AttachTarget) -> None:
        address = op.terminus.address
        if address is not None and address.startswith("missing"):
            self.refuse(op, Condition.NOT_FOUND, f"no queue {address}")
            return
        if address == "/management":
            self.answer(op, Attached(op.terminus, node="management"))
            return
        if address is None:
            self.answer(op, Attached(op.terminus, None, place=_place))
            return
        mandatory = "topic" not in op.terminus.capabilities
        self.answer(op, Attached(op.terminus, "", address, mandatory=mandatory))

    def _settle(self, key: tuple[int, int], outcome: Outcome) -> None:
        if key not in self.unsettled:
            return
        consumer, message = self.unsettled.pop(key)
        if outcome is Outcome.RELEASE:
            self.queue(consumer.queue).appendleft((message, True))

    def pump(self) -> None:
        for consumer in list(self.consumers.values()):
            queue = self.queue(consumer.queue)
            while (
                queue
                and consumer.credit > 0
                and consumer.channel in self.engine.connection.sessions
            ):
                message, again = queue.popleft()
                consumer.credit -= 1
                number = self.delivered[consumer.channel] = self.delivered[consumer.channel] + 1
                if not consumer.settled:
                    self.unsettled[consumer.channel, number] = consumer, message
                self.engine.outlet(consumer.channel).deliver(consumer.tag, number, again, message)

    def _work(self, op: Any) -> None:
        match op:
            case DeclareTransaction():
                self._numbers += 1
                work = b"work-%d" % self._numbers
                self.works[work] = []
                self.answer(op, work)
            case Post():
                message = op.message
                routed = message.key != "nowhere"
                if routed:
                    todo = self.queue(message.key)
                    self.works[op.transaction].append(lambda: todo.append((message, False)))
                self.answer(op, routed)
            case Retire():
                key = op.channel, op.delivery
                outcome = op.outcome if isinstance(op.outcome, Outcome) else Outcome.RELEASE
                self.works[op.transaction].append(lambda: self._settle(key, outcome))
            case Discharge():
                for do in self.works.pop(op.transaction):
                    if not op.fail:
                        do()
                self.answer(op)


def _place(to: str | None, subject: str | None, durable: bool) -> tuple[str, str]:
    if to is None or to.startswith("missing"):
        raise Refusal(Condition.NOT_FOUND, f"no place {to}", Lost.LINK)
    return "", to

"""Items to the broker: one, many in order, or all of them or none.

``start`` hands an item to the broker within a turn and never raises; ``finish`` waits for its
outcome.
"""

import asyncio
import hashlib
from time import perf_counter as clock
from typing import NamedTuple, Protocol

from gateway.bridge.waiting import know
from gateway.broker.local import MEMORY
from gateway.errors import Refusal
from gateway.http import problems
from gateway.http.access.principal import Principal
from gateway.http.context import Context
from gateway.http.fields import write_identifier
from gateway.http.portions import SLICE_SECONDS, spread
from gateway.http.problems import Problem
from gateway.http.publish.addresses import Target
from gateway.http.publish.atomic import check_all
from gateway.http.publish.idempotency import KIND, IdempotencyKeys, KeyedPublish
from gateway.http.publish.items import Batch, Item
from gateway.http.publish.ordering import Ordering, SendSlot
from gateway.http.publish.publisher import PendingPublish
from gateway.http.publish.results import (
    FORM_WARNING,
    Result,
    accepted_line,
    has_form_type,
    problem_of,
    receipt_of,
)
from gateway.message import Message

Named = list[tuple[str | None, Result]]


class PublishCall(NamedTuple):
    """The caller of a publish, its target, and the time to wait. ``until`` is loop time."""

    caller: Principal
    vhost: str
    key: str | None = None
    seconds: float = 10.0
    until: float = 0.0
    unconfirmed: bool = False


class StartedItem(NamedTuple):
    """An item that was handed to the broker, and its outcome."""

    item: Item
    pending: PendingPublish


class Committed(NamedTuple):
    """A transaction that was handed to the broker, and the durability of each message."""

    pending: PendingPublish
    durability: list[str]


class Drained(Protocol):
    """A streamed batch."""

    def drain(self) -> None: ...


class Sender:
    """Sends the items of all publish routes."""

    def __init__(self, context: Context) -> None:
        settings = context.settings
        self.publisher = context.publisher
        self.turn = context.dependencies.turn
        self.broker = context.broker
        self.counters = context.counters
        self.settings = settings
        self.ordering = Ordering()
        self.streams: dict[Drained, None] = {}
        self.keys = IdempotencyKeys(
            self.broker.state.store, settings.idempotency_seconds, settings.max_idempotency_keys
        )
        self.keys.load(self.broker.state.store.records(KIND))
        context.closers.append(self.drain)
        context.on_reload.append(self.take_settings)

    def take_settings(self) -> None:
        self.keys.limit(self.settings.idempotency_seconds, self.settings.max_idempotency_keys)

    async def drain(self) -> None:
        """End streamed batches. New publishes are refused (503)."""
        for stream in list(self.streams):
            stream.drain()

    # --- before anything is read ----------------------------------------------------------------

    def check_target(self, caller: Principal, vhost: str, target: Target) -> None:
        """Whether it makes sense to read the message. Raises ``Problem`` and ``Refusal``."""
        target.permit(caller, vhost)
        channel = self.publisher.channel(vhost, caller.user).channel
        channel.check_writable(target.exchange)
        if target.queue and not channel.has_queue(target.key):
            raise target.missing()

    async def know(self, vhost: str, target: Target) -> None:
        """Look the nodes of a target up, if they are those of an upstream."""
        if vhost not in self.broker.facades:
            return
        turn = self.turn
        await know(self.broker, turn, vhost, "exchange", target.exchange)
        if target.queue:
            await know(self.broker, turn, vhost, "queue", target.key)

    def slot(self, call: PublishCall, target: Target | None, key: str) -> SendSlot:
        """A slot in the order of an ordering key."""
        where = "" if target is None else target.scope
        return self.ordering.enter(*call.caller.identity, call.vhost, where, key)

    # --- one ------------------------------------------------------------------------------------

    def start(self, call: PublishCall, item: Item, name: str | None = None) -> StartedItem | Result:
        """Within a turn. ``name`` tells the item's key from those of its batch."""
        try:
            self.publisher.check_open(call.vhost)
            message = message_of(item)
            item.target.permit(call.caller, call.vhost, message)
            if call.key is None:
                channel = self.publisher.channel(call.vhost, call.caller.user)
                pending = channel.publish(message, PendingPublish(self.publisher.meter))
                return StartedItem(item, pending)
            return self.send_keyed(call, call.key, item, name)
        except Problem as problem:
            return self.failed(problem)
        except Refusal as refusal:
            return self.failed(item.target.refused(refusal))

    def send_keyed(
        self, call: PublishCall, key: str, item: Item, name: str | None
    ) -> StartedItem | Result:
        channel = self.publisher.channel(call.vhost, call.caller.user)
        key = key if name is None else f"{key}/{name}"
        scope = (*call.caller.identity, call.vhost, item.target.scope, key)
        entry = self.keys.claim(scope, item.fingerprint, self.broker.state.now)
        if entry.done:
            field = entry.receipt.get("field", "")
            receipt = {k: v for k, v in entry.receipt.items() if k != "field"}
            return Result(receipt, field=field, replayed=True)
        keyed = KeyedPublish(self.keys, entry, self.publisher.meter)
        try:
            if entry.stale:
                item = item.again(entry.receipt["field"])
            channel.publish(message_of(item), keyed)
        except BaseException:
            self.keys.abandon(entry)
            raise
        if keyed.taken:
            entry.attempts += 1
            receipt = self.receipt(item, keyed.durability, entry.attempts)
            self.keys.sent(entry, receipt, keyed.durability != MEMORY)
            self.broker.when_safe(keyed.record_safe)
        else:
            keyed.refused()
        return StartedItem(item, keyed)

    def receipt(self, item: Item, durability: str, attempts: int = 1) -> dict[str, object]:
        message_id, address = item.prepared.message_id, item.target.address
        shown = receipt_of(message_id, address, durability, self.broker.state.now, attempts)
        if has_form_type(item.prepared.header):
            shown["warnings"] = [FORM_WARNING]
        return {**shown, "field": write_identifier(message_id)}

    def accepted_line(
        self, vhost: str, index: int, name: str | None, started: StartedItem | Result
    ) -> bytes | None:
        """The receipt of a line that is accepted, as JSON; ``None`` if more has to be said or
        waited for. Hot."""
        if isinstance(started, Result):
            return None
        item, pending = started
        message_id, header = item.prepared.message_id, item.prepared.header
        if not pending.accepted or pending.condition is not None or has_form_type(header):
            return None
        if isinstance(pending, KeyedPublish):
            return None
        self.counters.published[vhost] += 1
        address, now = item.target.address, self.broker.state.now
        return accepted_line(index, name, message_id, address, pending.durability, now)

    async def finish(self, call: PublishCall, started: StartedItem | Result) -> Result:
        """Wait for the outcome."""
        if isinstance(started, Result):
            return started
        item, pending = started
        field = write_identifier(item.prepared.message_id)
        if call.unconfirmed and pending.taken and pending.accepted is None:
            message_id, address = item.prepared.message_id, item.target.address
            # The message may not be on disk yet.
            receipt = receipt_of(
                message_id, address, MEMORY, self.broker.state.now, confirmed=False
            )
            return Result(receipt, field=field)
        if not pending.taken and pending.accepted is None:
            # Its confirm has to wait for those of others, but is known to be a rejection.
            pending.accepted = False
        elif pending.accepted is None:
            left = max(0.0, call.until - asyncio.get_running_loop().time())
            await self.publisher.wait(pending, left)
        keyed = isinstance(pending, KeyedPublish)
        problem = problem_of(pending, item.target, call.seconds, keyed)
        if problem is not None:
            if pending.condition is not None:
                self.counters.returned[call.vhost] += 1
            return self.failed(problem)
        self.counters.published[call.vhost] += 1
        receipt = dict(pending.entry.receipt) if isinstance(pending, KeyedPublish) else {}
        receipt = receipt or self.receipt(item, pending.durability)
        receipt.pop("field", None)
        return Result(receipt, field=field)

    def failed(self, problem: Problem) -> Result:
        problem.retry_after = max(problem.retry_after, self.settings.retry_after_seconds)
        return Result(problem=problem)

    async def one(self, call: PublishCall, item: Item, slot: SendSlot | None) -> Result:
        """``slot`` is left when the item is sent or fails."""
        try:
            if slot is not None and not slot.free:
                await slot.reached(call.seconds)
            await self.know(call.vhost, item.target)
            self.publisher.begin()
            try:
                pending = self.start(call, item)
            finally:
                self.publisher.end()
        except Problem as problem:
            return self.failed(problem)
        finally:
            if slot is not None:
                slot.leave()
        return await self.finish(call, pending)

    # --- many -----------------------------------------------------------------------------------

    async def many(self, call: PublishCall, batch: Batch) -> Named:
        """All in order; an item that fails does not stop the others unless the batch says so."""
        if batch.atomic:
            return await self.all_or_none(call, batch)
        slots = self.slots(call, batch)
        try:
            started = await self.start_all(call, batch, slots)
        finally:
            for slot in slots.values():
                slot.leave()
        return [
            (name, await self.finish(call, pending))
            async for (name, _), pending in spread(zip(batch.items, started, strict=True))
        ]

    def slots(self, call: PublishCall, batch: Batch) -> dict[int, SendSlot]:
        """In the order of the batch, all at once: two batches cannot wait for each other."""
        return {
            index: self.slot(call, item.target, item.ordering)
            for index, (_, item) in enumerate(batch.items)
            if isinstance(item, Item) and item.ordering is not None
        }

    async def start_all(
        self, call: PublishCall, batch: Batch, slots: dict[int, SendSlot]
    ) -> list[StartedItem | Result]:
        started: list[StartedItem | Result] = []
        stopped: set[str | None] = set()
        if call.vhost in self.broker.facades:
            for target in {item.target for _, item in batch.items if isinstance(item, Item)}:
                await self.know(call.vhost, target)
        self.publisher.begin()
        until = clock() + SLICE_SECONDS
        try:
            for index, (_, item) in enumerate(batch.items):
                if clock() >= until:
                    self.publisher.end()
                    await asyncio.sleep(0)
                    self.publisher.begin()
                    until = clock() + SLICE_SECONDS
                order = item.ordering if isinstance(item, Item) else None
                slot = slots.get(index)
                pending: StartedItem | Result
                if batch.stop and order in stopped:
                    pending = not_attempted()
                elif isinstance(item, Problem):
                    pending = self.failed(item)
                else:
                    if slot is not None and not slot.free:
                        self.publisher.end()
                        try:
                            await slot.reached(call.seconds)
                        except Problem as problem:
                            started.append(self.failed(problem))
                            stopped.add(order)
                            continue
                        finally:
                            self.publisher.begin()
                    pending = self.start(call, item, item.name or str(index))
                if slot is not None:
                    slot.leave()
                if has_failed(pending):
                    stopped.add(order)
                started.append(pending)
        finally:
            self.publisher.end()
        return started

    # --- all or none ----------------------------------------------------------------------------

    async def all_or_none(self, call: PublishCall, batch: Batch) -> Named:
        """In one batch of the store, and only if every queue takes its part."""
        wrong = [(n, self.failed(i) if isinstance(i, Problem) else None) for n, i in batch.items]
        if any(result is not None for _, result in wrong):
            return [(name, result or not_attempted()) for name, result in wrong]
        items = [item for _, item in batch.items if isinstance(item, Item)]
        names = [name for name, _ in batch.items]
        slots = self.slots(call, batch)
        try:
            for slot in slots.values():
                if not slot.free:
                    if any(slot.before is other.left for other in slots.values()):
                        continue  # one of ours, sent with us
                    await slot.reached(call.seconds)
            results = self.commit(call, items)
        except Problem as problem:
            results = [self.failed(problem) for _ in items]
        except Refusal as refusal:
            results = [self.failed(item.target.refused(refusal)) for item in items]
        finally:
            for slot in slots.values():
                slot.leave()
        if isinstance(results, Committed):
            return await self.finish_all(call, items, names, results)
        return list(zip(names, results, strict=True))

    def commit(self, call: PublishCall, items: list[Item]) -> list[Result] | Committed:
        """The results if nothing was sent. Raises ``Problem`` and
        ``Refusal``: nothing was sent then."""
        self.publisher.check_open(call.vhost)
        for item in items:
            item.target.permit(call.caller, call.vhost, message_of(item))
        self.publisher.begin()
        entry = None
        try:
            client = self.publisher.channel(call.vhost, call.caller.user).client
            if call.key is not None:
                scope = (*call.caller.identity, call.vhost, "batch", call.key)
                whole = hashlib.sha256("".join(i.fingerprint for i in items).encode()).hexdigest()
                entry = self.keys.claim(scope, whole, self.broker.state.now)
                if entry.done:
                    return replayed(entry.receipt["results"])
                if entry.stale:
                    told = [str(each["field"]) for each in entry.receipt["results"]]
                    items = [item.again(one) for item, one in zip(items, told, strict=True)]
            transaction = client.transaction()
            try:
                messages = [message_of(item) for item in items]
                wrong = check_all(transaction, messages)
                if wrong:
                    return [
                        self.failed(wrong[index]) if index in wrong else not_attempted()
                        for index in range(len(items))
                    ]
                transaction.commit()
                levels = [transaction.durability(message) for message in messages]
            finally:
                transaction.close()
            pending: PendingPublish = (
                PendingPublish() if entry is None else KeyedPublish(self.keys, entry)
            )
            if entry is not None:
                entry.attempts += 1
                receipts = [
                    self.receipt(item, level, entry.attempts)
                    for item, level in zip(items, levels, strict=True)
                ]
                self.keys.sent(entry, {"results": receipts}, MEMORY not in levels)
            self.broker.when_safe(lambda: settle(pending))
            entry = None
            return Committed(pending, levels)
        finally:
            if entry is not None and not entry.done:
                self.keys.abandon(entry)
            self.publisher.end()

    async def finish_all(
        self, call: PublishCall, items: list[Item], names: list[str | None], committed: Committed
    ) -> Named:
        pending = committed.pending
        left = max(0.0, call.until - asyncio.get_running_loop().time())
        await self.publisher.wait(pending, left)
        if pending.accepted is None:
            keyed = call.key is not None
            problem = problem_of(pending, items[0].target, call.seconds, keyed)
            assert problem is not None
            return [(name, self.failed(problem)) for name in names]
        self.counters.published[call.vhost] += len(items)
        receipts = [
            self.receipt(item, level)
            for item, level in zip(items, committed.durability, strict=True)
        ]
        if isinstance(pending, KeyedPublish):
            receipts = pending.entry.receipt["results"]
        return [(name, one) for name, one in zip(names, replayed(receipts, False), strict=True)]


def settle(pending: PendingPublish) -> None:
    if isinstance(pending, KeyedPublish):
        pending.safe = True
    pending.settle(True)


def replayed(receipts: list[dict[str, object]], again: bool = True) -> list[Result]:
    return [
        Result({k: v for k, v in each.items() if k != "field"}, None, str(each["field"]), again)
        for each in receipts
    ]


def has_failed(started: StartedItem | Result) -> bool:
    if isinstance(started, StartedItem):
        return not started.pending.taken
    return started.problem is not None


def not_attempted() -> Result:
    return Result(problem=Problem(problems.NOT_ATTEMPTED, "another item failed"))


def message_of(item: Item) -> Message:
    target, prepared = item.target, item.prepared
    return Message(
        prepared.dialect,
        prepared.header,
        item.body,
        target.exchange,
        target.key,
        prepared.essentials,
    )

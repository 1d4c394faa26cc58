"""Changes the modes of addresses while clients go on.

Publishes to the address wait, its consumers lose nothing but time: their subscriptions end at one
broker and begin at the other. In between, the copies at the other broker are removed, and the
messages of the queue are moved there, by a move with a journal. Killed in between, the gateway
begins with the change again.
"""

import asyncio
import logging
import secrets
from collections.abc import Callable, Sequence
from functools import partial

from gateway.bridge.clock import now
from gateway.bridge.migration.in_gateway import GatewayMoves
from gateway.bridge.migration.move import Move, State
from gateway.bridge.migration.settings import MoveSettings, QueuePair
from gateway.bridge.modes.address import MOST, Address, AddressInfo, Kind
from gateway.bridge.modes.mode import (
    ARRANGEMENTS,
    NEW,
    NO_SHARE,
    OLD,
    Arrangement,
    Mode,
    Share,
    can_change,
    check_share,
)
from gateway.bridge.modes.pair import UpstreamPair
from gateway.bridge.modes.split import SplitConsumers
from gateway.bridge.waiting import Turn
from gateway.errors import Condition, GatewayError, Refusal

log = logging.getLogger("gateway.bridge")

LOOK_SECONDS = 0.02
CONFIRM_SECONDS = 30.0
"""Time for the publishes under way to be confirmed, and for requests about topology."""
IDLE_SECONDS = 5.0
"""Time for messages under way from one broker to the other."""
EMPTY_SECONDS = 600.0
"""Time for the copies of a queue to be removed, and for the other messages there to be
brought over."""
LONGEST_SECONDS = 2.0
"""Time after which a move ends that has brought all that was there when it began."""
MOST_NAMED = 10
"""Queues that a refusal names."""
MOST_AT_ONCE = 4
"""Queues that are moved at a time."""
GRACE_SECONDS = 0.3
"""Time without a message before a queue that is moved counts as empty."""


def enter(address: Address) -> None:
    assert address.target is not None
    if address.target is not address.mode:
        address.copies.forget()
    # The hot path compares with the singleton.
    share = NO_SHARE if address.wanted_share == NO_SHARE else address.wanted_share
    address.enter(address.target, share)


def crosses(address: Address) -> bool:
    """Whether its messages change their broker."""
    target = address.mode if address.target is None else address.target
    return ARRANGEMENTS[target].primary != address.arrangement.primary


def arranged(address: Address, mode: Mode | None) -> Arrangement:
    """Of an address when its changes are over; ``mode``: it is to change to this one."""
    return ARRANGEMENTS[mode or address.target or address.mode]


def passed(move: Move) -> bool:
    """Whether a move has brought as many messages as there were when it began."""
    return all(
        one.expected is not None and one.moved >= one.expected for one in move.queues.values()
    )


def grouped(addresses: list[Address]) -> list[list[Address]]:
    """Which of them change together: an exchange and its queues, so that none gets a message of
    the exchange meanwhile. Without an exchange, each queue by itself: its publishers wait less."""
    if any(one.kind == "exchange" for one in addresses):
        return [addresses]
    return [[one] for one in addresses]


class ModeChanges:
    """Of one facade. Requests are performed one after the other."""

    def __init__(
        self, pair: UpstreamPair, moves: Callable[[], GatewayMoves | None], turn: Turn
    ) -> None:
        self.pair = pair
        self.addresses = pair.addresses
        self._moves = moves
        self._turn = turn
        self._wanted: list[list[Address]] = []
        self._some = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def infos(self) -> list[AddressInfo]:
        return [one.info() for one in self.addresses]

    def start(self) -> None:
        """Go on with the changes that the last process began."""
        for address in self.addresses:
            if address.target is None:
                self._follow(address)
        self._wanted = grouped([one for one in self.addresses if one.target is not None])
        self._some.set()
        self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await asyncio.gather(*map(self._leave, self.addresses))

    async def _leave(self, address: Address) -> None:
        await self._unsplit(address)
        await self._unfollow(address)

    def request(
        self, places: Sequence[tuple[Kind, str]], mode: Mode, share: Share = NO_SHARE
    ) -> None:
        """Change the mode of addresses, and the share of their clients at the other broker, in
        their order. Raises ``Refusal`` if one of them cannot change so; nothing has begun then."""
        check_share(share, mode)
        known = {(one.kind, one.name): one for one in self.addresses}
        if len(known.keys() | set(places)) > MOST:
            raise Refusal(Condition.RESOURCE_ERROR, f"more than {MOST} addresses have a mode")
        for kind, name in places:
            found = known.get((kind, name))
            current = Mode.OLD_ONLY if found is None else found.mode
            if found is not None and found.target is not None:
                text = f"{kind} {name!r} is changing to {found.target.value}: wait for its end"
                raise Refusal(Condition.PRECONDITION_FAILED, text)
            if not can_change(current, mode):
                text = f"{kind} {name!r} is {current.value}: new-primary comes between"
                raise Refusal(Condition.PRECONDITION_FAILED, f"{text} this and {mode.value}")
        self._check_bindings(set(places), mode, share)
        chosen = []
        for kind, name in dict.fromkeys(places):
            address = self.addresses.add(kind, name)
            if address.mode is not mode or address.share != share:
                address.wanted_share = share
                address.target, address.error, address.since = mode, "", now()
                self.addresses.save(address)
                chosen.append(address)
        self._wanted += grouped(chosen)
        self._some.set()

    def _check_bindings(self, places: set[tuple[Kind, str]], mode: Mode, share: Share) -> None:
        """Raises ``Refusal`` if an exchange and a queue of its would have different brokers, and
        nothing would bring the messages over: they would wait where nobody takes them."""
        stranded: dict[str, list[str]] = {}
        for exchange, queue in self.pair.topology.bindings:
            changes = ("exchange", exchange) in places, ("queue", queue) in places
            if not any(changes) or self.pair.topology.is_temporary(queue):
                continue
            source = self.addresses.exchanges.get(exchange, self.addresses.others)
            target = self.addresses.queue(queue)
            there = arranged(source, mode if changes[0] else None)
            here = arranged(target, mode if changes[1] else None)
            some = share if changes[0] else source.wanted_share
            read = share if changes[1] else target.wanted_share
            goes = there.primary != here.primary or some.sends
            if goes and not here.copy and read == NO_SHARE:
                stranded.setdefault(exchange, []).append(queue)
        for exchange, queues in stranded.items():
            names = ", ".join(map(repr, queues[:MOST_NAMED]))
            more = f" and {len(queues) - MOST_NAMED} more" if len(queues) > MOST_NAMED else ""
            text = f"the exchange {exchange!r} and its queues {names}{more} would have different"
            raise Refusal(
                Condition.PRECONDITION_FAILED,
                f"{text} brokers, and nothing would bring the messages over: change them together",
            )

    # --- one after the other ----------------------------------------------------------------------

    async def _run(self) -> None:
        while True:
            while self._wanted:
                await self._attempt(self._wanted[0])
                self._wanted.pop(0)
            self._some.clear()
            await self._some.wait()

    async def _attempt(self, group: list[Address]) -> None:
        """Change addresses together."""
        for address in group:
            address.holding = True
        queues = [one for one in group if one.kind == "queue"]
        exchanges = [one for one in group if one.kind == "exchange"]
        if any(map(crosses, queues)):
            self.pair.hold_exchanges()
        try:
            await self._confirmed(group)
            if any(map(crosses, exchanges)):
                await self._quiet()
            limit = asyncio.Semaphore(MOST_AT_ONCE)
            await asyncio.gather(*(self._queue(one, limit) for one in queues))
            failed = [one.name for one in queues if one.mode is not one.target]
            for address in exchanges:
                if failed:
                    address.error = f"the queue {failed[0]!r} was not changed"
                else:
                    enter(address)
        except Exception as error:  # publishes must not wait for ever
            if not isinstance(error, Refusal):
                log.exception("modes: internal error")
            for address in group:
                self._failed(address, str(error))
        for address in group:
            address.target, address.since = None, now()
            self.addresses.save(address)
            self._follow(address)
        with self._turn():
            for address in group:
                self.pair.release(address)
            self.pair.release_exchanges()

    async def _queue(self, address: Address, limit: asyncio.Semaphore) -> None:
        async with limit:
            try:
                await self._unsplit(address)
                if address.target is not address.mode:
                    await self._bring(address)
                else:
                    await self._divide(address)
            except (OSError, GatewayError) as error:
                self._failed(address, str(error) or type(error).__name__)
            except Exception as error:  # publishes must not wait for ever
                log.exception("mode of %s: internal error", address.name)
                self._failed(address, f"internal error: {error!r}")
            else:
                enter(address)

    def _failed(self, address: Address, text: str) -> None:
        """The mode stays. A follower brings back the messages that have gone to the other side."""
        log.warning("mode of %s: %s", address.name, text)
        address.error = text
        if address.kind == "queue" and address.move:
            self._start_follower(address)
        address.move = ""

    async def _bring(self, address: Address) -> None:
        """Prepare both sides of a queue for its new mode: no copies, and all messages at the side
        that is going to have them."""
        moves = crosses(address)
        if not address.move:  # messages that a move has brought there stay
            await self.pair.retire_feeds(address, address.arrangement.other, None)
            if address.follower is None and (moves or address.share.splits):
                self._start_follower(address)
            if address.follower is not None:
                await address.follower.empty(EMPTY_SECONDS)
            await self._unfollow(address)
        if moves:
            await self.pair.retire_feeds(address, address.arrangement.primary, None)
            await self._move(address)

    async def _divide(self, address: Address) -> None:
        """Prepare both sides of a queue for another share: consumers leave the side where they are
        not to be, and everything is brought to the primary broker but what others there take."""
        old, new, other = address.share, address.wanted_share, address.arrangement.other
        if new.splits:
            await self.pair.check_split(address)
        grows = 0 < old.keys <= new.keys
        if old.splits and not (grows or (old.consumers and new.consumers)):
            await self.pair.retire_feeds(address, other, None)
            if address.follower is None:
                self._start_follower(address)
            assert address.follower is not None
            await address.follower.empty(EMPTY_SECONDS)
        elif address.follower is not None:
            await address.follower.idle(IDLE_SECONDS)
        address.opened = False
        for side in (OLD, NEW):
            await self.pair.retire_feeds(address, side, new)
        if old.splits or new.splits:
            await self._unfollow(address)

    def _start_follower(self, address: Address) -> None:
        if address.follower is None:
            address.follower = self.pair.follower(address)
            address.follower.start()

    async def _quiet(self) -> None:
        """Wait until everything has been brought over that the exchanges have published: later
        messages, at the other broker, come behind it."""
        followers = [one.follower for one in self.addresses if one.follower is not None]
        await asyncio.gather(*(one.idle(IDLE_SECONDS) for one in followers))

    async def _confirmed(self, group: list[Address]) -> None:
        try:
            async with asyncio.timeout(CONFIRM_SECONDS):
                while True:  # the hot path tells nobody
                    if not self.pair.is_under_way(group):
                        return
                    await asyncio.sleep(LOOK_SECONDS)
        except TimeoutError:
            text = "publishes or declarations under way were not confirmed: is a broker away?"
            raise Refusal(Condition.RESOURCE_ERROR, text) from None

    async def _move(self, address: Address) -> None:
        """Move the messages of a queue from its primary broker to the other. Raises ``Refusal``."""
        moves = self._moves()
        if moves is None:
            raise Refusal(Condition.PRECONDITION_FAILED, "there is no place for a journal")
        primary = self.pair.sides[address.arrangement.primary]
        other = self.pair.sides[address.arrangement.other]
        opened = moves.opened()
        move = opened.all.get(address.move)
        if move is None:
            names = primary.places.queue(address.name), other.places.queue(address.name)
            settings = MoveSettings(
                source=primary.upstream.settings.name,
                destination=other.upstream.settings.name,
                queues=[QueuePair(source=names[0], destination=names[1])],
                grace_seconds=GRACE_SECONDS,
            )
            address.move = f"mode-{secrets.token_hex(6)}"
            self.addresses.save(address)
            move = opened.add(settings, address.move)
        move.start()
        await self._moved(move)
        if move.state is not State.DONE and not passed(move):
            raise Refusal(Condition.RESOURCE_ERROR, f"move {address.move}: {move.error}")
        address.moved += move.moved
        opened.forget(address.move)
        address.move = ""

    async def _moved(self, move: Move) -> None:
        """Wait for the end of a move. Where others go on to publish, it has no end: then everything
        that was there has come, and the follower brings the rest."""
        ended = asyncio.ensure_future(move.ended())
        try:
            while True:
                await asyncio.wait([ended], timeout=LONGEST_SECONDS)
                if ended.done():
                    return
                if passed(move):
                    await move.pause()
                    return
        finally:
            ended.cancel()

    # --- the other side ---------------------------------------------------------------------------

    def _follow(self, address: Address) -> None:
        if address.kind != "queue":
            return
        if address.share.splits:
            start, end = partial(self._start_follower, address), partial(self._unfollow, address)
            address.split = SplitConsumers(self.pair, address, start, end)
        elif address.arrangement.copy or address.share != NO_SHARE:
            self._start_follower(address)

    async def _unsplit(self, address: Address) -> None:
        split, address.split = address.split, None
        if split is not None:
            await split.close()

    async def _unfollow(self, address: Address) -> None:
        follower, address.follower = address.follower, None
        if follower is not None:
            await follower.close()

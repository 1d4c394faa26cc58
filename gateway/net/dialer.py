"""Connects to another broker as a client.

``dial`` logs in and returns a ``Remote``; ``redial`` retries until that works. A ``Remote`` sends
requests (``request``, with a reply) and other operations (``send``), and yields the operations of
the peer (``async for``):

    remote = await dial(("localhost", 5672), version="0-9-1")
    await remote.request(BeginSession(1, None))
    await remote.request(Subscribe(1, None, "orders"))
    async for operation in remote:
        ...
"""

import asyncio
import logging
import ssl
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any, cast

from gateway import operations as op
from gateway.adapters import Adapter, Credentials, Limits, Product, Role, adapter_for
from gateway.adapters.contract import Capability, Publisher
from gateway.adapters.registry import PREFERRED, VERSIONS
from gateway.adapters.search import Search
from gateway.bodies import Spool
from gateway.errors import Condition, Lost, Refusal
from gateway.message import Message
from gateway.net.gathering import write
from gateway.net.pauses import Pauses
from gateway.net.version_probe import probe

log = logging.getLogger("gateway.net")

AUTO = "auto"
"""In place of a version: any version of the server."""
WINDOW = 4 << 20
"""Octets received and not yet iterated at which reading stops."""
HIGH_WATER = 1 << 20
"""Octets in the socket's buffer at which ``drain`` waits."""
GATHER = 1 << 16
"""Octets sent after which ``drain`` writes and lets the loop read."""
WEIGHT = 256
"""Octets that an operation counts in the window besides its message."""
TICK_SECONDS = 1.0

CARRIERS = frozenset({op.Deliver, op.Publish, op.Returned})
"""Operations with a message."""
HOPELESS = (Condition.ACCESS_REFUSED, Condition.NOT_ALLOWED, Condition.NOT_IMPLEMENTED)
"""Refusals after which dialling again does not help."""


class Remote(asyncio.Protocol):
    """One connection to another broker, made by ``dial``. For one loop and one reader.

    Iteration yields the operations that answer no request, in order: ``Deliver``, ``Confirm``,
    ``Returned``, ``Cancelled``, ``SessionLost``, ``Blocked``, ``Unblocked``, and ``Closed`` as the
    last.
    """

    def __init__(self, window: int = WINDOW) -> None:
        self.adapter: Adapter
        self.peer = op.Peer()
        self.closed: op.Closed | None = None
        """How the connection ended; ``None`` while it lives."""
        self.blocked: str | None = None
        """Why the peer holds its publishers back, if it says so."""
        self._transport: asyncio.Transport | None = None
        self._window = window
        self._inbox: deque[op.Operation] = deque()
        self._load = 0
        """Octets of the operations in the inbox, or more: exact while nothing is read."""
        self._received = 0
        """Octets received since the last operation that went into the inbox."""
        self._arrived = asyncio.Event()
        self.kept: dict[int, op.KeptState] = {}
        """Sessions, by channel, that the server keeps now that the connection is lost: their state
        for ``resume``."""
        self._asked: dict[asyncio.Future[Any], int] = {}
        """Requests under way, and their channels."""
        self._dead: dict[int, op.SessionLost] = {}
        self._gathered = 0
        self._flushing = False
        self._holding: set[object] = set()
        self._free = asyncio.Event()
        self._free.set()
        self._reading = True
        self._ended = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None

    def request(self, operation: Any) -> asyncio.Future[Any]:
        """Send a request at once; the future is its reply. Its ``token`` is replaced by ours.

        Several may be under way; the peer gets them in the order of the calls. The future raises
        ``Refusal`` if the peer refuses or is gone. Raises ``Refusal`` if the channel or connection
        is lost already, ``LocalError`` if the operation cannot be sent. While a reply is awaited
        reading continues, even if the window is full.
        """
        if isinstance(operation, op.BeginSession | op.AttachSession):
            self._dead.pop(operation.channel, None)
        self._check(operation)
        answer = asyncio.get_running_loop().create_future()
        self.adapter.send(replace(operation, token=answer))
        self._asked[answer] = getattr(operation, "channel", 0)
        answer.add_done_callback(self._forget)
        # An adapter may know the answer already: 0-8 has none for some requests.
        self._take(self.adapter.tick(asyncio.get_running_loop().time()))
        if not self._reading:
            self._regulate()
        return answer

    async def resume(self, lost: "Remote") -> None:
        """Attach the sessions that the server keeps for a connection that is lost, on their
        channels: begun by ``AttachSession`` with a number of seconds (0-10). Their requests go on,
        messages that were sent to ``lost`` and had not come are sent again, and deliveries that it
        had received are settled here.

        Raises ``Refusal`` if the server has not kept a session (404), whose requests are refused
        then, or if this connection is lost too: then another may resume it."""
        for answer, channel in lost._asked.items():
            if not answer.done():
                self._asked[answer] = channel
                answer.add_done_callback(self._forget)
        if self.closed is not None:
            self.kept.update(lost.kept)
        asked = [
            self.request(op.AttachSession(channel, None, force=True, state=state))
            for channel, state in lost.kept.items()
        ]
        lost.kept = {}
        await asyncio.gather(*asked)

    def _forget(self, answer: asyncio.Future[Any]) -> None:
        self._asked.pop(answer, None)

    def send(self, operation: op.Operation) -> None:
        """Send an operation without a reply: ``Publish``, ``Settle``, requests without a token.
        Hot.

        Raises as ``request``. Call ``drain`` now and then: ``send`` itself never waits.
        """
        if self.closed is not None or self._dead:
            self._check(operation)
        self.adapter.send(operation)
        self._gathered += weight(operation)

    def publisher(self, channel: int) -> Callable[[Message, bool, bool], None]:
        """A function that sends a message, mandatory and immediate or not, as ``send`` does with a
        ``Publish``; without that object where the adapter's channel publishes itself."""
        adapter = self.adapter
        publish = adapter.publisher(channel) if isinstance(adapter, Publisher) else None

        def send(message: Message, mandatory: bool, immediate: bool) -> None:
            """Hot."""
            if publish is None or self.closed is not None or self._dead or adapter.closing:
                self.send(op.Publish(channel, message, mandatory, immediate))
                return
            publish(message, mandatory, immediate)
            self._gathered += WEIGHT + len(message.header) + len(message.body)
            if not self._flushing:
                self.wake()

        return send

    async def drain(self) -> None:
        """Wait while the socket is full or the peer holds publishers back.

        Another task has to iterate meanwhile, or the peer's unblock may not be received. Raises
        ``Refusal`` if the connection is lost.
        """
        if self._gathered >= GATHER:
            self._flush()
            await asyncio.sleep(0)
        while self._holding and self.closed is None:
            self._free.clear()
            await self._free.wait()
        if self.closed is not None:
            raise refusal_of(self.closed)

    async def close(self, seconds: float = 5.0) -> None:
        """Close the connection after everything sent before, wait up to ``seconds`` for the answer,
        then drop the socket. In 1.0 a message may wait for its credit as long.

        Operations received before can still be iterated. May be called twice.
        """
        if self._transport is None:
            return
        if self.closed is None:
            self.adapter.send(op.Close())
            self._flush()
        self._regulate()
        try:
            async with asyncio.timeout(seconds):
                await self._ended.wait()
        except TimeoutError:
            self._transport.abort()
            await self._ended.wait()

    def __aiter__(self) -> "Remote":
        return self

    async def __anext__(self) -> op.Operation:
        while (operation := self.waiting()) is None:
            if self.closed is not None:
                raise StopAsyncIteration
            self._arrived.clear()
            await self._arrived.wait()
        return operation

    def waiting(self) -> op.Operation | None:
        """The next operation, if it has come already."""
        found = self.waiting_some(1)
        return found[0] if found else None

    def waiting_some(self, most: int) -> list[op.Operation]:
        """The next operations, of those that have come already."""
        inbox = self._inbox
        if len(inbox) <= most:
            found = list(inbox)
            inbox.clear()
            self._load = 0
        else:
            take = inbox.popleft
            found = [take() for _ in range(most)]
            if not self._reading:
                self._load -= sum(map(weight, found))
        if not self._reading:
            self._regulate()
        return found

    async def some(self, most: int) -> list[op.Operation]:
        """The next operations, one at least; none when the connection has ended."""
        while not self._inbox and self.closed is None:
            self._arrived.clear()
            await self._arrived.wait()
        return self.waiting_some(most)

    def lost(self, channel: int) -> bool:
        """Whether the peer has ended this channel."""
        return channel in self._dead

    @property
    def holding(self) -> bool:
        """Whether ``drain`` would wait."""
        return bool(self._holding) and self.closed is None

    def take(self, transport: asyncio.Transport, adapter: Adapter, octets: bytes) -> None:
        """Take over a connection on which the server has answered."""
        self.adapter = adapter
        transport.set_protocol(self)
        self.connection_made(transport)
        self.data_received(octets)

    # --- asyncio calls these --------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are no subclasses of asyncio's; they do the same.
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=HIGH_WATER)
        self._tick()

    def data_received(self, data: bytes) -> None:
        self._received += len(data)
        self._take(self.adapter.receive(data))
        self._flush()
        self._regulate()

    def connection_lost(self, error: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._take(self.adapter.lost())
        self._ended.set()

    def pause_writing(self) -> None:
        self._hold(self, True)

    def resume_writing(self) -> None:
        self._hold(self, False)
        self._refill()

    def _refill(self) -> None:
        """Write the next portion of large bodies: the peer has taken the last one."""
        if self.adapter.more and self not in self._holding:
            self.adapter.refill()
            self._flush()

    def _check(self, operation: Any) -> None:
        if self.closed is not None:
            raise refusal_of(self.closed)
        lost = self._dead.get(getattr(operation, "channel", 0))
        if lost is not None:
            raise Refusal(lost.condition, lost.text)

    def _take(self, operations: list[op.Operation]) -> None:
        """Give replies to the callers of ``request``, other operations to the reader."""
        inbox = self._inbox
        before = len(inbox)
        for operation in operations:
            kind = operation.__class__
            if kind is op.Deliver or kind is op.Confirm:  # the most frequent ones
                pass
            elif isinstance(operation, op.Done):
                if operation.token is not None and not operation.token.done():
                    operation.token.set_result(operation.result)
                continue
            elif isinstance(operation, op.Refused):
                # If the connection is lost, Closed follows with the reason.
                if operation.lost is not Lost.CONNECTION and not operation.token.done():
                    refusal = Refusal(operation.condition, operation.text, operation.lost)
                    operation.token.set_exception(refusal)
                continue
            elif isinstance(operation, op.Flow):
                self._hold(operation.channel, not operation.active)
                self.adapter.send(op.Done(operation.channel, operation.token, operation.active))
                continue
            elif isinstance(operation, op.SessionLost):
                self._dead[operation.channel] = operation
                self._hold(operation.channel, False)
            elif isinstance(operation, op.Blocked | op.Unblocked):
                self.blocked = operation.reason if isinstance(operation, op.Blocked) else None
                self._hold(op.Blocked, self.blocked is not None)
            elif isinstance(operation, op.KeepSession):
                self.kept[operation.channel] = operation.state
                continue
            elif isinstance(operation, op.Closed):
                self._end(operation)
            inbox.append(operation)
        if len(inbox) > before:
            self._load += self._received + WEIGHT * (len(inbox) - before)
            self._received = 0
            self._arrived.set()

    def _end(self, closed: op.Closed) -> None:
        self.closed = closed
        self._free.set()
        for answer, channel in list(self._asked.items()):
            if not answer.done() and channel not in self.kept:
                answer.set_exception(refusal_of(closed))
        self.wake()

    def _hold(self, why: object, holding: bool) -> None:
        """``drain`` waits while there is any reason."""
        (self._holding.add if holding else self._holding.discard)(why)
        if not self._holding:
            self._free.set()

    def wake(self) -> None:
        """The adapter has output: write it when this step of the loop is over."""
        if not self._flushing and self._transport is not None:
            self._flushing = True
            asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        self._flushing = False
        self._gathered = 0
        self.flush()

    def flush(self) -> None:
        """Write the operations sent; without it that happens when this step of the loop is over."""
        transport = self._transport
        if transport is not None and not transport.is_closing():
            try:
                pieces = self.adapter.output()
            except OSError as error:
                log.error("a large body cannot be read: %s", error)
                transport.abort()
                return
            if pieces:
                write(transport, pieces)
            if self.adapter.closing:
                transport.close()
            elif self.adapter.more:
                asyncio.get_running_loop().call_soon(self._refill)

    def _regulate(self) -> None:
        """Read, unless the window is full and no request waits for its answer."""
        if self._reading and self._load >= self._window:
            self._load = sum(map(weight, self._inbox))
        reading = self._load < self._window or bool(self._asked) or self.adapter.closing
        transport = self._transport
        if reading is not self._reading and transport is not None and not transport.is_closing():
            self._reading = reading
            (transport.resume_reading if reading else transport.pause_reading)()

    def _tick(self) -> None:
        """Once a second: send heartbeats, give up a silent peer (unless we did not read)."""
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(TICK_SECONDS, self._tick)
        if self.adapter.closing and self._transport is not None:
            self._transport.abort()  # our last octets have had a second to leave
        if not self._reading:
            self.adapter.excuse_silence()
        self._take(self.adapter.tick(loop.time()))
        self._flush()


def weight(operation: op.Operation) -> int:
    """Octets that an operation counts in the window. Hot."""
    if operation.__class__ in CARRIERS:
        message = operation.message  # type: ignore[attr-defined]
        return WEIGHT + len(message.header) + len(message.body)
    return WEIGHT


def refusal_of(closed: op.Closed) -> Refusal:
    """The refusal of requests on a closed connection."""
    condition = closed.condition or Condition.CONNECTION_FORCED
    return Refusal(condition, closed.text or "the connection is closed", Lost.CONNECTION)


async def dial(
    address: tuple[str, int],
    *,
    version: str | Sequence[str],
    credentials: Credentials = Credentials(),  # noqa: B008
    vhost: str = "/",
    limits: Limits = Limits(),  # noqa: B008
    tls: ssl.SSLContext | None = None,
    product: Product = Product(),  # noqa: B008
    window: int = WINDOW,
    class_message: bool = False,
    class_session: bool = False,
    spool: Spool | None = None,
) -> Remote:
    """Connect, log in and open the virtual host, all within ``limits.handshake_timeout``.

    ``version``: one version; or several, best first, among which the server's first octets decide
    (``registry.sharing("0-9")``: those that open with AMQP 1 1 0 9); or ``"auto"`` for all. A
    server that refuses a header is dialled again with the one it answers, or the next, each header
    once. ``remote.adapter.version`` is the result.

    ``window``: octets received and not yet iterated at which reading stops. ``class_message``,
    ``class_session``: use these classes of the transitional 0-10, not basic and channel.
    ``spool``: where bodies go that are too large for memory. Raises ``OSError`` (``TimeoutError``
    and ``ssl.SSLError`` are such) if there is no answer, ``Refusal`` if the peer refuses,
    ``KeyError`` for an unknown version.
    """
    remote = Remote(window)

    def make(name: str) -> Adapter:
        more: dict[str, Any] = {}
        if Capability.CLASSES in VERSIONS[name].capabilities:
            more = {"class_message": class_message, "class_session": class_session}
        return adapter_for(
            name,
            Role.CLIENT,
            limits=limits,
            credentials=credentials,
            product=product,
            wake=remote.wake,
            spool=spool,
            **more,
        )

    wished = (version,) if isinstance(version, str) else version
    search = Search(PREFERRED if version == AUTO else wished, make)
    try:
        async with asyncio.timeout(limits.handshake_timeout or None) as patience:
            await probe(search, address, tls, remote.take)
            remote.peer = await remote.request(op.Open(None, vhost, credentials.user))
    except BaseException as error:
        if remote._transport is not None:
            remote._transport.abort()
        if isinstance(error, TimeoutError) and patience.expired():
            where = f"{address[0]}:{address[1]}"
            lacking = "let us in" if remote._transport is not None else f"answer {search.asking}"
            text = f"{where} does not {lacking} within {limits.handshake_timeout:g} s"
            raise TimeoutError(text) from None
        raise
    return remote


async def redial(
    attempt: Callable[[], Awaitable[Remote]],
    *,
    first: float = 0.5,
    longest: float = 30.0,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> Remote:
    """Call ``attempt`` (a ``dial``) until it works, with ``Pauses`` from ``first`` to ``longest``
    seconds.

    Raises ``Refusal`` for lasting reasons: wrong password, no such virtual host or version.
    """
    pauses = Pauses(first, longest)
    while True:
        try:
            return await attempt()
        except (OSError, Refusal) as error:
            if isinstance(error, Refusal) and error.condition in HOPELESS:
                raise
            pause = pauses.next()
            log.warning("dialling again in %.1f s: %s", pause, error)
        await sleep(pause)

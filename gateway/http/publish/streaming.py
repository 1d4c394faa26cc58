"""A batch as a stream: a message a line in, a receipt a line out as each is confirmed.

Three tasks: one reads lines and sends them, one waits for outcomes in order, one writes receipts.
The numbers of messages under way and of octets of unread receipts are bounded; at either bound no
more lines are read.
"""

import asyncio
import json
from collections import deque
from time import perf_counter as clock

from starlette.requests import ClientDisconnect
from starlette.types import Receive, Send

from gateway.bodies import Spool
from gateway.http import problems
from gateway.http.portions import SLICE_SECONDS
from gateway.http.problems import Problem
from gateway.http.publish.bodies import chunks
from gateway.http.publish.documents import WHOLE, open_document, tried
from gateway.http.publish.items import Item, Maker, attempt
from gateway.http.publish.results import Headers, Result
from gateway.http.publish.sending import PublishCall, Sender, StartedItem, has_failed, not_attempted
from gateway.http.typed_json import BadForm, loads

RECEIPTS = "application/vnd.amqp-gateway.receipts+ndjson"
MOST_UNREAD = 8 * 1024 * 1024
"""Octets of receipts: a client that first writes everything and then reads may leave these."""

Started = tuple[int, str | None, StartedItem | Result]


class Stream:
    """One request. ``stop``: at the first line that fails, for lines of the same ordering key.

    ``waiting`` are outcomes in the order of their lines, ``lines`` receipts that are not written
    yet. All tasks run on one loop: a condition that was checked holds until the next await.
    """

    def __init__(
        self,
        sender: Sender,
        call: PublishCall,
        maker: Maker,
        stop: bool,
        order: str | None,
        spool: Spool,
    ) -> None:
        self.sender = sender
        self.call = call
        self.maker = maker
        self.stop = stop
        self.order = order
        self.spool = spool
        self.in_order = stop or order is not None
        """Whether an item may have to wait for others, or be left out because of them."""
        self.index = 0
        self.stopped: set[str | None] = set()
        self.waiting: deque[Started] = deque()
        self.lines: list[bytes] = []
        self.unread = 0
        self.ended = self.gone = self.told = False
        self.reading: asyncio.Task[None] | None = None
        self.arrived = asyncio.Event()
        self.ready = asyncio.Event()
        self.room = asyncio.Event()

    async def run(self, receive: Receive, send: Send, headers: Headers) -> None:
        common = [
            (b"content-type", RECEIPTS.encode()),
            (b"cache-control", b"no-store, no-transform"),
        ]
        start = {"type": "http.response.start", "status": 207, "headers": [*common, *headers]}
        await send(start)
        self.sender.streams[self] = None
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self.conclude())
                group.create_task(self.write(send))
                self.reading = group.create_task(self.read(receive))
        finally:
            del self.sender.streams[self]

    def drain(self) -> None:
        """Stop reading and write the receipts of all messages sent: the gateway shuts down."""
        if self.reading is not None and not self.reading.done():
            self.put(self.index, None, self.problem(problems.DRAINING, "the gateway shuts down"))
            self.reading.cancel()

    # --- in -------------------------------------------------------------------------------------

    async def read(self, receive: Receive) -> None:
        most = self.sender.settings.max_batch_octets
        rest = bytearray()
        try:
            async for octets in chunks(receive):
                start = len(rest)
                rest += octets
                if rest.find(b"\n", start) >= 0:
                    *whole, last = bytes(rest).split(b"\n")
                    rest = bytearray(last)
                    await self.take(whole)
                if len(rest) > most:
                    detail = (
                        f"a line has at most {most} octets (http.max_batch_octets); the rest was "
                        "not read"
                    )
                    self.put(self.index, None, self.problem(problems.TOO_LARGE, detail))
                    return
            await self.take([bytes(rest)])
        except ClientDisconnect:
            self.gone = True  # messages that were sent stay published
        finally:
            self.ended = True
            self.arrived.set()

    def problem(self, row: problems.Row, detail: str) -> Result:
        return Result(problem=Problem(row, detail))

    async def take(self, lines: list[bytes]) -> None:
        """Lines that came together are sent in one turn, as far as there is room."""
        publisher = self.sender.publisher
        publisher.begin()
        until = clock() + SLICE_SECONDS
        try:
            for line in lines:
                if not line.strip():
                    continue
                if clock() >= until:
                    publisher.end()
                    await asyncio.sleep(0)
                    publisher.begin()
                    until = clock() + SLICE_SECONDS
                while self.crowded():
                    publisher.end()
                    self.room.clear()
                    await self.room.wait()
                    publisher.begin()
                index, self.index = self.index, self.index + 1
                item = self.read_line(line) if len(line) <= WHOLE else await self.large(line)
                if isinstance(item, Item) and item.ordering is None and not self.in_order:
                    self.put(index, item.name, self.send(item, index))
                else:
                    self.put(index, *await self.start(index, item))
        finally:
            publisher.end()

    def crowded(self) -> bool:
        window = self.sender.settings.stream_window
        return (len(self.waiting) >= window or self.unread >= MOST_UNREAD) and not self.gone

    def put(self, index: int, name: str | None, pending: StartedItem | Result) -> None:
        self.waiting.append((index, name, pending))
        self.arrived.set()

    def read_line(self, line: bytes) -> Item | Problem | Result:
        try:
            found = loads(line)
        except BadForm as error:
            return self.problem(problems.INVALID, f"the line {error.text}")
        return attempt(self.maker.from_form, found)

    async def start(
        self, index: int, item: Item | Problem | Result
    ) -> tuple[str | None, StartedItem | Result]:
        """Within a turn, which ends and begins again while it waits for its slot."""
        if not isinstance(item, Item):
            self.stopped.add(None)
            return None, self.sender.failed(item) if isinstance(item, Problem) else item
        order = item.ordering or self.order
        if self.stop and order in self.stopped:
            return item.name, not_attempted()
        if order is None:
            pending = self.send(item, index)
        else:
            pending = await self.send_in_order(item, order, index)
        if has_failed(pending):
            self.stopped.add(order)
        return item.name, pending

    async def large(self, line: bytes) -> Item | Problem:
        publisher = self.sender.publisher
        publisher.end()
        try:
            document = await open_document(line, self.spool)
            return await tried(document.form(self.maker, document.all))
        finally:
            publisher.begin()

    def send(self, item: Item, index: int) -> StartedItem | Result:
        return self.sender.start(self.call, item, item.name or str(index))

    async def send_in_order(self, item: Item, order: str, index: int) -> StartedItem | Result:
        publisher = self.sender.publisher
        with self.sender.slot(self.call, item.target, order) as slot:
            if not slot.free:
                publisher.end()
                try:
                    await slot.reached(self.call.seconds)
                except Problem as problem:
                    return self.sender.failed(problem)
                finally:
                    publisher.begin()
            return self.send(item, index)

    # --- out ------------------------------------------------------------------------------------

    async def conclude(self) -> None:
        """Outcomes in the order of the lines."""
        loop = asyncio.get_running_loop()
        while self.waiting or not self.ended:
            if not self.waiting:
                self.arrived.clear()
                await self.arrived.wait()
                continue
            if not self.tell_accepted():
                index, name, pending = self.waiting[0]
                call = self.call._replace(until=loop.time() + self.call.seconds)
                result = await self.sender.finish(call, pending)
                self.waiting.popleft()
                self.tell(json.dumps(result.document(index, name)).encode())
            self.ready.set()
            self.room.set()
        self.told = True
        self.ready.set()

    def tell(self, line: bytes) -> None:
        self.lines += (line, b"\n")
        self.unread += len(line) + 1

    def tell_accepted(self) -> bool:
        """Messages that are accepted, up to the first of which more has to be said or waited for.
        Returns whether there were any. Hot."""
        waiting, vhost, line_of = self.waiting, self.call.vhost, self.sender.accepted_line
        before = len(waiting)
        while waiting:
            line = line_of(vhost, *waiting[0])
            if line is None:
                break
            waiting.popleft()
            self.tell(line)
        return len(waiting) < before

    async def write(self, send: Send) -> None:
        while self.lines or not self.told:
            if not self.lines:
                self.ready.clear()
                await self.ready.wait()
                continue
            octets = b"".join(self.lines)
            self.lines.clear()
            await send({"type": "http.response.body", "body": octets, "more_body": True})
            self.unread -= len(octets)
            self.room.set()
        await send({"type": "http.response.body", "body": b"", "more_body": False})

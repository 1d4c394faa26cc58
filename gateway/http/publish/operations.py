"""``Prefer: respond-async``: answers that are fetched later, for a while, by their owner only."""

import asyncio
import json
import secrets
import time
from collections import Counter, OrderedDict
from collections.abc import Awaitable
from urllib.parse import quote

from gateway.broker.broker import Broker
from gateway.config.web import PublishSettings
from gateway.http import problems
from gateway.http.access.principal import Principal
from gateway.http.octets import Octets, concatenated
from gateway.http.problems import Problem
from gateway.http.publish.results import Answer, Headers, answer_of, instant

MEDIA_TYPE = "application/vnd.amqp-gateway.operation+json"

Owner = tuple[str, str, str]
"""User, subject, virtual host."""


class Operation:
    """One request that goes on. ``done`` is monotonic seconds, ``created`` ms since 1970."""

    __slots__ = ("id", "owner", "task", "created", "done", "octets")

    def __init__(self, owner: Owner, task: "asyncio.Task[Answer]", created: int) -> None:
        self.id = secrets.token_urlsafe(16)
        self.owner = owner
        self.task = task
        self.created = created
        self.done: float | None = None
        self.octets = 0
        task.add_done_callback(self.finished)

    def finished(self, task: "asyncio.Task[Answer]") -> None:
        self.done = time.monotonic()
        if not task.cancelled() and task.exception() is None:
            self.octets = len(task.result().body)

    def document(self, seconds: int) -> Octets:
        """As JSON. The answer is one already, and may be large: it is spliced in."""
        shown: dict[str, object] = {"id": self.id, "status": "running"}
        shown["created"] = instant(self.created)
        if not self.task.done():
            return json.dumps(shown).encode()
        shown["status"] = "done"
        since = 0.0 if self.done is None else time.monotonic() - self.done
        shown["expires_in_ms"] = max(0, int((seconds - since) * 1000))
        status, headers, body = self.task.result()
        media = next(value.decode() for name, value in headers if name == b"content-type")
        head = json.dumps({**shown, "result": {"status": status, "content_type": media}})
        return concatenated(head[:-2].encode() + b', "body": ', body, b"}}")


class Operations:
    """All operations, oldest first; bounded per owner and by the octets of their answers. They are
    removed some time after they end."""

    def __init__(self, broker: Broker, settings: PublishSettings) -> None:
        self.broker = broker
        self.settings = settings
        self.all: OrderedDict[str, Operation] = OrderedDict()
        self.counts: Counter[Owner] = Counter()
        self.octets = 0
        """Of the answers that are kept."""

    def check_room(self, caller: Principal, vhost: str) -> None:
        """Raises ``Problem`` (429)."""
        self.sweep()
        if self.counts[*caller.identity, vhost] >= self.settings.max_operations:
            raise Problem(
                problems.QUOTA,
                f"{self.settings.max_operations} operations are kept; fetch or delete some",
            )

    async def run(
        self, caller: Principal, vhost: str, work: Awaitable[Answer], wait: float, headers: Headers
    ) -> Answer:
        """The answer if it is ready within ``wait`` seconds, else 202 and its location."""
        task = asyncio.ensure_future(work)
        await asyncio.wait([task], timeout=wait)
        if task.done():
            return task.result()
        owner = (*caller.identity, vhost)
        operation = Operation(owner, task, self.broker.state.now)
        self.all[operation.id] = operation
        self.counts[owner] += 1
        task.add_done_callback(lambda _: self.weigh(operation))
        where = f"/v1/{quote(vhost, safe='')}/operations/{operation.id}"
        more = [(b"location", where.encode()), (b"retry-after", b"1"), *headers]
        document = operation.document(self.settings.operation_seconds)
        return answer_of(202, MEDIA_TYPE, document, more)

    def find(self, caller: Principal, vhost: str, name: str) -> Operation:
        """Raises ``Problem`` (404), also for operations of other callers."""
        self.sweep()
        operation = self.all.get(name)
        if operation is None or operation.owner != (*caller.identity, vhost):
            raise Problem(problems.BY_STATUS[404], f"no operation {name!r}, or no more")
        return operation

    def forget(self, operation: Operation) -> None:
        """Remove an operation. Its work continues; its answer is dropped."""
        if self.all.pop(operation.id, None) is not None:
            self.octets -= operation.octets
            self.counts[operation.owner] -= 1
            if not self.counts[operation.owner]:
                del self.counts[operation.owner]

    def weigh(self, operation: Operation) -> None:
        """The operation has its answer, which may be large: the oldest ones are removed."""
        if operation.id not in self.all:
            operation.octets = 0
            return
        self.octets += operation.octets
        for one in list(self.all.values()):
            if self.octets <= self.settings.max_operation_octets:
                return
            if one.done is not None and one is not operation:
                self.forget(one)

    def sweep(self) -> None:
        now = time.monotonic()
        over = [
            one
            for one in self.all.values()
            if one.done is not None and one.done + self.settings.operation_seconds <= now
        ]
        for one in over:
            self.forget(one)

"""The outcome of a publish, in one shape for single answers, batch items and operations."""

import json
from datetime import UTC, datetime
from functools import lru_cache
from json.encoder import encode_basestring_ascii as quote
from typing import Any, NamedTuple

from gateway.errors import Condition, Refusal
from gateway.http import problems
from gateway.http.fields import write_identifier
from gateway.http.octets import Octets
from gateway.http.portions import array, gathered, spread
from gateway.http.problems import FORM, MEDIA_TYPE, NOT_ATTEMPTED, Problem, Row
from gateway.http.publish.addresses import Target
from gateway.http.publish.publisher import PendingPublish

RECEIPT = "application/vnd.amqp-gateway.receipt+json"
RESULTS = "application/vnd.amqp-gateway.results+json"

Headers = list[tuple[bytes, bytes]]


class Answer(NamedTuple):
    """A common_problem response."""

    status: int
    headers: Headers
    body: Octets


class Result(NamedTuple):
    """Either ``receipt`` or ``problem``. ``field`` is the id as ``Amqp-Message-Id`` writes it."""

    receipt: dict[str, Any] | None = None
    problem: Problem | None = None
    field: str = ""
    replayed: bool = False

    @property
    def status(self) -> int:
        if self.problem is not None:
            return self.problem.row.status
        assert self.receipt is not None
        return 202 if self.receipt["outcome"] == "sent" else 201

    def document(self, index: int, name: str | None) -> dict[str, Any]:
        """As an item of a batch."""
        shown: dict[str, Any] = {"index": index}
        if name is not None:
            shown["id"] = name
        shown["status"] = self.status
        if self.problem is not None:
            shown["outcome"] = self.problem.row.outcome
            shown["problem"] = self.problem.document()
            return shown
        assert self.receipt is not None
        shown |= self.receipt
        if self.replayed:
            shown["replayed"] = True
        return shown


def problem_of(
    pending: PendingPublish, target: Target, seconds: float, keyed: bool
) -> Problem | None:
    """The problem of a publish; ``None`` if a queue has the message."""
    if pending.condition is not None:
        if pending.condition is Condition.NO_ROUTE:
            return target.missing() if target.queue else target.unrouted()
        return target.refused(Refusal(pending.condition, pending.text))
    if pending.accepted is None:
        row, why = problems.UNKNOWN, f"no confirmation within {seconds:g} s"
        if pending.lost:
            row, why = problems.LOST, "the virtual host was deleted, or the gateway stops"
        again = "retry with the same key" if keyed else "a retry may store it twice"
        return Problem(row, f"{why}; the message may or may not be stored; {again}")
    if not pending.accepted:
        return Problem(problems.FULL, "a queue is full and rejects new messages")
    return None


def shown_id(message_id: Any) -> str:
    if isinstance(message_id, bytes):
        return message_id.hex()
    return str(message_id)


@lru_cache(16)
def instant(now: int) -> str:
    return f"{second(now // 1000)}.{now % 1000:03d}Z"


@lru_cache(16)
def second(now: int) -> str:
    return datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def receipt_of(
    message_id: Any,
    address: str,
    durability: str,
    now: int,
    attempts: int = 1,
    confirmed: bool = True,
) -> dict[str, Any]:
    shown = {
        "outcome": "accepted" if confirmed else "sent",
        "durability": durability,
        "message_id": shown_id(message_id),
        "address": address,
        "routed": True,
        "duplicate": "possible" if attempts > 1 else False,
        "attempts": attempts,
    }
    if confirmed:
        shown["confirmed_at"] = instant(now)
    return shown


FORM_WARNING = (
    "the message has the content type application/x-www-form-urlencoded, which curl -d says by "
    "itself; add -H 'Content-Type: application/json', or what else the body is"
)


def has_form_type(header: bytes) -> bool:
    """Whether the properties of a message say that its body is a form. Hot."""
    return FORM_OCTETS in header


FORM_OCTETS = FORM.encode()

RECEIPT_TEMPLATE = (
    json.dumps(receipt_of("ID", "ADDRESS", "DURABILITY", 0), separators=(",", ":"))
    .replace('"ID"', "%s")
    .replace('"ADDRESS"', "%s")
    .replace("DURABILITY", "%s")
    .replace(instant(0), "%s")
)
"""The JSON of ``receipt_of``, to be filled with durability, id, address and time."""
NAMED = (
    json.dumps(Result(receipt_of("ID", "ADDRESS", "DURABILITY", 0)).document(0, "NAME"))
    .replace('"index": 0', '"index": %%d')
    .replace('"NAME"', "%%s")
    .replace('"ID"', "%%s")
    .replace('"ADDRESS"', "%s")
    .replace("DURABILITY", "%s")
    .replace(instant(0), "%s")
)
"""The JSON of an accepted item: ``item_template`` fills in durability, address and time, and leaves
places for index, name and id."""
NAMELESS = NAMED.replace(', "id": %%s', "")
RECEIPT_TYPE = (b"content-type", RECEIPT.encode())
ACCEPTED = (b"amqp-outcome", b"accepted")
NO_STORE = (b"cache-control", b"no-store")


def accepted_answer(message_id: Any, address: str, durability: str, now: int) -> Answer:
    """The answer to a publish that was confirmed at the first attempt. Hot."""
    told = (durability, quote(shown_id(message_id)), quote(address), instant(now))
    body = (RECEIPT_TEMPLATE % told).encode()
    headers = [
        RECEIPT_TYPE,
        (b"content-length", b"%d" % len(body)),
        (b"amqp-message-id", write_identifier(message_id).encode()),
        ACCEPTED,
        (b"amqp-durability", durability.encode()),
        NO_STORE,
    ]
    return Answer(201, headers, body)


def warned_answer(message_id: Any, address: str, durability: str, now: int) -> Answer:
    """The same for a message whose content type its sender has probably not chosen."""
    receipt = receipt_of(message_id, address, durability, now) | {"warnings": [FORM_WARNING]}
    return single_answer(Result(receipt, field=write_identifier(message_id)), "")


def accepted_line(
    index: int, name: str | None, message_id: Any, address: str, durability: str, now: int
) -> bytes:
    """An item of a batch that was confirmed at the first attempt, as JSON. Hot."""
    shown = quote(shown_id(message_id))
    if name is None:
        return (item_template(NAMELESS, address, durability, now) % (index, shown)).encode()
    template = item_template(NAMED, address, durability, now)
    return (template % (index, quote(name), shown)).encode()


@lru_cache(16)
def item_template(template: str, address: str, durability: str, now: int) -> str:
    """What the receipts of many items have in common is filled in."""
    told = (durability, quote(address).replace("%", "%%"), instant(now))
    return template % told


def json_answer(status: int, media: str, value: Any, headers: Headers | None = None) -> Answer:
    return answer_of(status, media, json.dumps(value).encode(), headers)


def answer_of(status: int, media: str, body: Octets, headers: Headers | None = None) -> Answer:
    common = [
        (b"content-type", media.encode()),
        (b"content-length", b"%d" % len(body)),
        (b"cache-control", b"no-store"),
    ]
    return Answer(status, [*common, *(headers or ())], body)


def problem_answer(problem: Problem, instance: str, headers: Headers | None = None) -> Answer:
    more = [(name.encode(), value.encode()) for name, value in problem.headers.items()]
    if problem.row.retry_after:
        more.append((b"retry-after", b"%d" % problem.retry_after))
    status = problem.row.status
    return json_answer(status, MEDIA_TYPE, problem.document(instance), [*more, *(headers or ())])


def single_answer(result: Result, instance: str) -> Answer:
    if result.problem is not None:
        return problem_answer(result.problem, instance)
    assert result.receipt is not None
    headers = [
        (b"amqp-message-id", result.field.encode()),
        (b"amqp-outcome", result.receipt["outcome"].encode()),
        (b"amqp-durability", result.receipt["durability"].encode()),
    ]
    if result.replayed:
        headers.append((b"idempotency-replayed", b"true"))
    return json_answer(result.status, RECEIPT, result.receipt, headers)


async def batch_answer(results: list[tuple[str | None, Result]], instance: str) -> Answer:
    """201 if all are in, the status that all share, or 207. ``results``: item id and result."""
    shown = [
        result.document(index, name) async for index, (name, result) in spread(enumerate(results))
    ]
    statuses = {result.status for _, result in results}
    accepted = sum(result.problem is None for _, result in results)
    headers: Headers = []
    if results and all(result.replayed for _, result in results):
        headers.append((b"idempotency-replayed", b"true"))
    failures = [one.problem for _, one in results if one.problem is not None]
    causes = [one for one in failures if one.row is not NOT_ATTEMPTED]
    first = next(iter(causes or failures), None)
    if first is not None and not accepted and len(statuses - {NOT_ATTEMPTED.status}) < 2:
        return problem_answer(common_problem(first, results, shown), instance, headers)
    status = 207 if first is not None or len(statuses) > 1 else statuses.pop()
    failed = len(results) - accepted
    head = f'{{"accepted": {accepted}, "failed": {failed}, "results": ['
    items = (json.dumps(one).encode() for one in shown)
    body = await gathered(array(items, head.encode(), b"]}"))
    return answer_of(status, RESULTS, body, headers)


def common_problem(
    first: Problem, results: list[tuple[str | None, Result]], shown: list[dict[str, Any]]
) -> Problem:
    """The problem that all items have. Retrying the batch is as safe as retrying its items."""
    found = [one.problem.row for _, one in results if one.problem is not None]
    row: Row = first.row._replace(safe_to_retry=safest(found))
    one = Problem(
        row,
        first.detail if len(found) == 1 else f"nothing was stored: {first.detail}; see results",
        retry_after=first.retry_after,
        headers=first.headers,
        results=shown,
    )
    return one


def safest(rows: list[Row]) -> bool | str:
    """The least safe of all rows."""
    said = [row.safe_to_retry for row in rows]
    if all(one is True for one in said):
        return True
    return False if any(one is False for one in said) else problems.WITH_KEY

"""Messages to a gateway's replay: batches over HTTP, until all are dealt with. Knows no Spark."""

import json
import time
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import httpx

from gateway.errors import GatewayError
from pyspark_amqp.options import OptionError

MOST = 500
MOST_OCTETS = 4 << 20
"""Octets of messages in a request; a single message may have more."""
AWAY_SECONDS = 60.0
"""For a gateway that cannot be reached, such as one that starts again."""
FULL_SECONDS = 600.0
"""For a target that takes nothing."""
LEAST_PAUSE, MOST_PAUSE = 0.05, 1.0


class ReplayError(GatewayError):
    """Rows cannot be published."""


class Publishing(NamedTuple):
    """Where to, and how. ``target`` is empty if each row names it. ``rate``: messages per second,
    of all tasks together. ``most``: messages of a task that have no answer yet."""

    gateway: str
    user: str = ""
    password: str = ""
    token: str = ""
    vhost: str = "/"
    replay: str = ""
    target: str = ""
    most: int = MOST
    rate: float | None = None
    skip: bool = False
    rejects: str = ""
    dry_run: bool = False


class Ready(NamedTuple):
    """A message to publish. ``pos`` tells people which row it was; -1 is unknown."""

    journal: str
    address: str
    offset: int
    to: str
    octets: bytes
    pos: int = -1


class Fate(NamedTuple):
    """What has become of a message: "published", "duplicate" or "rejected", and why."""

    message: Ready
    outcome: str
    problem: str = ""


def segment(name: str) -> str:
    """A name as one segment of a path."""
    return "".join(
        chr(one) if chr(one).isalnum() and one < 128 or one in b"-_.~" else f"%{one:02X}"
        for one in name.encode()
    )


class Target:
    """A gateway. One for a task. ``clock`` and ``sleep`` are of seconds."""

    def __init__(
        self,
        publishing: Publishing,
        client: httpx.Client | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.publishing = given = publishing
        headers = {"authorization": f"Bearer {given.token}"} if given.token else {}
        self.client = client or httpx.Client(timeout=AWAY_SECONDS)
        self.client.headers.update(headers)
        if not given.token:
            self.client.auth = httpx.BasicAuth(given.user, given.password)
        self.clock = clock
        self.sleep = sleep
        self.base = f"{given.gateway}/v1/{segment(given.vhost)}/replays"

    def close(self) -> None:
        self.client.close()

    # --- publishing -----------------------------------------------------------------------------

    def publish(self, messages: Iterable[Ready]) -> Iterator[Fate]:
        """Publish all, in their order. Raises ``ReplayError``."""
        for batch in batches(messages, self.publishing.most):
            yield from self.publish_batch(batch)

    def publish_batch(self, batch: list[Ready]) -> Iterator[Fate]:
        until = self.clock() + FULL_SECONDS
        while batch:
            answer = self.ask("POST", f"/{segment(self.publishing.replay)}/messages", batch)
            if answer.status_code == 413:
                yield from self.halves(batch, answer)
                return
            found = self.told(answer)
            attempted = found["attempted"]
            yield from fates(batch[:attempted], found)
            batch = batch[attempted:]
            reason = found.get("reason", {})
            if reason.get("quota") == "replay-keys":
                raise OptionError(f"replayId: {reason['detail']}")
            now = self.clock()
            if attempted:
                until = now + FULL_SECONDS
            elif now > until:
                raise ReplayError(f"target: {batch[0].to}: {reason.get('detail', 'no answer')}")
            if batch and reason:
                seconds = reason.get("retry_after_ms", 0) / 1000
                self.sleep(min(max(seconds, LEAST_PAUSE), MOST_PAUSE))

    def halves(self, batch: list[Ready], answer: httpx.Response) -> Iterator[Fate]:
        """A request that is too large, in two."""
        if len(batch) == 1:
            yield Fate(batch[0], "rejected", problem_in(answer))
            return
        middle = len(batch) // 2
        yield from self.publish_batch(batch[:middle])
        yield from self.publish_batch(batch[middle:])

    # --- replays --------------------------------------------------------------------------------

    def published(self, replay: str) -> int:
        """How many messages of a replay were published. Raises ``ReplayError``."""
        answer = self.ask("GET", f"/{segment(replay)}")
        return 0 if answer.status_code == 404 else int(self.told(answer)["published"])

    def peek(self, replay: str) -> int | None:
        """The same without patience; ``None`` if it cannot be told now."""
        try:
            answer = self.client.get(f"{self.base}/{segment(replay)}")
            return int(answer.json()["published"])
        except (httpx.HTTPError, ValueError, KeyError):
            return None

    def forget(self, replay: str) -> bool:
        """Forget the keys of a replay; false if there were none. Raises ``ReplayError``."""
        answer = self.ask("DELETE", f"/{segment(replay)}")
        if answer.status_code == 404:
            return False
        self.told(answer)
        return True

    # --- HTTP -----------------------------------------------------------------------------------

    def ask(self, method: str, path: str, batch: list[Ready] | None = None) -> httpx.Response:
        """Patient with a gateway that is away, or that has no room for requests."""
        given: dict[str, Any] = {}
        if batch is not None:
            given["content"] = document(batch)
            given["headers"] = {"content-type": "application/json"}
            given["params"] = self.query()
        away = self.clock() + AWAY_SECONDS
        full = self.clock() + FULL_SECONDS
        while True:
            try:
                answer = self.client.request(method, self.base + path, **given)
            except httpx.TransportError as error:
                if self.clock() > away:
                    raise ReplayError(f"gateway: {self.publishing.gateway}: {error}") from None
                self.sleep(LEAST_PAUSE * 10)
                continue
            if answer.status_code not in (429, 503) or self.clock() > full:
                return answer
            away = self.clock() + AWAY_SECONDS
            after = answer.headers.get("retry-after", "1")
            self.sleep(min(float(after) if after.isdigit() else 1.0, 10.0))

    def query(self) -> dict[str, str]:
        given = self.publishing
        query = {} if given.skip else {"on_error": "stop"}
        if given.dry_run:
            return {"dry_run": "true"}
        if given.rate is not None:
            query["rate"] = f"{given.rate:g}"
        return query

    def told(self, answer: httpx.Response) -> dict[str, Any]:
        """Raises ``ReplayError`` for a problem of the whole request."""
        if answer.is_success:
            found: dict[str, Any] = {} if answer.status_code == 204 else answer.json()
            return found
        option = {401: "user", 403: "user", 404: "vhost"}.get(answer.status_code, "gateway")
        raise ReplayError(f"{option}: {self.base}: {answer.status_code} {problem_in(answer)}")


def problem_in(answer: httpx.Response) -> str:
    try:
        return str(answer.json()["detail"])
    except (ValueError, KeyError, TypeError):
        return answer.reason_phrase


def batches(messages: Iterable[Ready], most: int) -> Iterator[list[Ready]]:
    """At most so many, and about ``MOST_OCTETS``, together."""
    found: list[Ready] = []
    octets = 0
    for one in messages:
        if found and (len(found) >= most or octets + len(one.octets) > MOST_OCTETS):
            yield found
            found, octets = [], 0
        found.append(one)
        octets += len(one.octets)
    if found:
        yield found


def document(batch: list[Ready]) -> bytes:
    messages = [
        {
            "journal": one.journal,
            "address": one.address,
            "offset": one.offset,
            "to": one.to,
            "amqp10": b64encode(one.octets).decode(),
        }
        for one in batch
    ]
    return json.dumps({"messages": messages}).encode()


def fates(batch: list[Ready], found: dict[str, Any]) -> Iterator[Fate]:
    """Of messages that have been dealt with."""
    duplicates = set(found["duplicates"])
    rejected = {one["index"]: one["problem"] for one in found["rejected"]}
    for index, message in enumerate(batch):
        if index in rejected:
            problem = rejected[index]
            yield Fate(message, "rejected", f"{problem['title']}: {problem['detail']}")
        else:
            yield Fate(message, "duplicate" if index in duplicates else "published")

"""Where a journal is read: files, or a gateway over HTTP. Both give the same entries."""

import time
from collections.abc import Callable
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Protocol

import httpx

from gateway.bodies import Body
from gateway.journal.consumers import Consumer, Consumers, now
from gateway.journal.entries import Entry, JournalError, Portion, Question, Span, Trimmed
from gateway.journal.reader import SEGMENTS, JournalReader, Overview
from pyspark_amqp.options import Options

ARROW = "application/vnd.apache.arrow.stream"
PATIENCE_SECONDS = 60.0
"""For a gateway that cannot be reached, such as one that starts again."""
PORTION = 1000


class Journal(Protocol):
    """A journal that is open for reading. Raises ``JournalError``. ``body`` gives that of an entry,
    and raises ``FileNotFoundError`` if retention has removed it."""

    def overview(self) -> Overview: ...

    def read(self, start: int, question: Question, end: int | None) -> Portion: ...

    def body(self, entry: Entry) -> Body: ...

    def close(self) -> None: ...


def opened(options: Options) -> Journal:
    """The journal that the options name."""
    if options.gateway:
        return Remote(options)
    directory = Path(options.journal)
    if (directory / "gateway.db").is_file():
        return JournalReader(directory)
    if not directory.is_dir():
        raise JournalError(f"journal: {directory} is not a directory")
    return JournalReader(None, directory)


def consumers_of(options: Options) -> Consumers:
    """The consumers of a journal's files."""
    directory = Path(options.journal)
    if (directory / "gateway.db").is_file():
        directory = directory / SEGMENTS
    return Consumers(directory)


def kept_start(options: Options, offset: dict[str, Any]) -> dict[str, Any]:
    """The first offset of a consumer: the one that was kept, or this one from now on."""
    if options.gateway:
        remote = Remote(options)
        try:
            found = remote.keep(start=offset["pos"])
        finally:
            remote.close()
        return {"epoch": found["journal"], "pos": found["start"]}
    fresh = Consumer(options.consumer, offset["epoch"], offset["pos"], offset["pos"], now())
    known = consumers_of(options).begin(fresh)
    return {"epoch": known.journal, "pos": known.start}


def done(options: Options, offset: dict[str, Any]) -> None:
    """The consumer is done with all before an offset. Raises ``JournalError``."""
    if options.gateway:
        remote = Remote(options)
        try:
            remote.keep(start=offset["pos"], position=offset["pos"])
        finally:
            remote.close()
        return
    kept_start(options, offset)
    consumers_of(options).advance(options.consumer, offset["pos"])


def wanted_by(options: Options) -> Callable[[str, str], bool]:
    """Whether entries of an address are wanted."""

    def wanted(vhost: str, address: str) -> bool:
        if not fnmatchcase(vhost, options.vhost):
            return False
        patterns = options.addresses
        return not patterns or any(fnmatchcase(address, one) for one in patterns)

    return wanted


class Remote:
    """The journal of a gateway, over HTTP."""

    def __init__(self, options: Options) -> None:
        self.options = options
        headers: dict[str, str] = {}
        auth = None
        if options.token:
            headers["authorization"] = f"Bearer {options.token}"
        else:
            auth = httpx.BasicAuth(options.user, options.password)
        vhost = options.vhost.replace("%", "%25").replace("/", "%2F")
        self.url = f"{options.gateway}/v1/{vhost}/journal"
        self.client = httpx.Client(headers=headers, auth=auth, timeout=PATIENCE_SECONDS)

    def close(self) -> None:
        self.client.close()

    def _get(self, accept: str, **query: Any) -> httpx.Response:
        """Raises ``JournalError``."""
        return self._ask("GET", self.url, query, params=query, headers={"accept": accept})

    def keep(self, **given: int) -> dict[str, Any]:
        """Keep a position of the consumer, and return what the gateway has of it. Raises
        ``JournalError``."""
        url = f"{self.url}/consumers/{self.options.consumer}"
        found: dict[str, Any] = self._ask("PUT", url, {}, json=given).json()
        return found

    def _ask(self, method: str, url: str, query: dict[str, Any], **more: Any) -> httpx.Response:
        """Raises ``JournalError``, after some patience with a gateway that is away."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                answer = self.client.request(method, url, **more)
            except httpx.TransportError as error:
                if time.monotonic() > deadline:
                    raise JournalError(f"gateway: {self.options.gateway}: {error}") from None
                time.sleep(0.5)
                continue
            if answer.status_code == 503 and time.monotonic() < deadline:
                time.sleep(0.5)
                continue
            break
        if answer.is_success:
            return answer
        try:
            problem = answer.json()
        except ValueError:
            problem = {}
        if answer.status_code == 410 and "start" in problem:
            raise Trimmed(int(query.get("start", 0)), int(problem["start"]))
        told = problem.get("detail", answer.reason_phrase)
        option = {401: "user", 403: "addresses", 404: "vhost"}.get(answer.status_code, "gateway")
        raise JournalError(f"{option}: {self.url}: {answer.status_code} {told}")

    def overview(self) -> Overview:
        shown = self._get("application/json", limit=0).json()
        spans = tuple(Span(one["start"], one["end"]) for one in shown["sealed"])
        sealed = spans[-1].end if spans else shown["start"]
        return Overview(shown["journal"], shown["start"], sealed, shown["end"], spans)

    def read(self, start: int, question: Question, end: int | None) -> Portion:
        from gateway.journal.columns import batches_of, to_entries

        query: dict[str, Any] = {"start": start, "limit": min(question.entries, PORTION)}
        if end is not None:
            query["end"] = end
        if len(self.options.addresses) == 1:
            query["address"] = self.options.addresses[0]
        query["columns"] = "pos,body" if question.bodies else "pos"
        answer = self._get(ARROW, **query)
        if not answer.headers.get("content-type", "").startswith(ARROW):
            raise JournalError(f"gateway: {self.options.gateway} has no pyarrow, which Spark needs")
        entries = [
            one
            for batch in batches_of(answer.content)
            for one in to_entries(batch, question.bodies)
            if question.wanted(one.vhost, one.address)
        ]
        return Portion(entries, int(answer.headers["amqp-journal-next"]))

    def body(self, entry: Entry) -> Body:
        if not entry.reference:
            return entry.message.body
        url = f"{self.url}/bodies/{entry.pos}"
        try:
            return self._ask("GET", url, {"start": entry.pos}).content
        except Trimmed as error:
            raise FileNotFoundError(str(error)) from error

"""Twenty queues of every common kind, their producers and their consumers."""

from __future__ import annotations

from typing import Any, NamedTuple

DEAD = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "jobs.dead"}
QUEUES: dict[str, dict[str, Any]] = {
    "orders": {},
    "bills": {},
    "mails": {},
    "stock": {},
    "calls": {},
    "old": {},
    "pika-to-proton": {},
    "old-to-pika": {},
    "http-to-new": {},
    "shared": {},
    "urgent": {"x-max-priority": 9},
    "jobs": {"x-message-ttl": 600_000, **DEAD},
    "jobs.dead": {},
    "waiting": {},
    "shop.new": {},
    "shop.paid": {},
    "news.eu": {},
    "news.all": {},
    "audit.log": {},
    "audit.copy": {},
}
"""Durable queues, with their arguments."""
EXCHANGES = {"shop": "direct", "news": "topic", "audit": "fanout"}
BINDINGS = (
    ("shop", "shop.new", "new"),
    ("shop", "shop.paid", "paid"),
    ("news", "news.eu", "eu.#"),
    ("news", "news.all", "#"),
    ("audit", "audit.log", ""),
    ("audit", "audit.copy", ""),
)


class Flow(NamedTuple):
    """The publishes of one producer. ``places``: exchange and key of its messages in turn, and the
    queues that each of them goes to."""

    producer: str
    version: str
    places: tuple[tuple[str, str, tuple[str, ...]], ...]


class Reader(NamedTuple):
    """A consumer of a queue."""

    queue: str
    version: str


def plain(version: str, queue: str) -> Flow:
    return Flow(f"{version}>{queue}", version, (("", queue, (queue,)),))


FLOWS = (
    plain("pika", "orders"),
    plain("0-8", "bills"),
    plain("0-10", "mails"),
    plain("proton", "stock"),
    plain("http", "calls"),
    plain("0.8a2", "old"),
    plain("pika", "pika-to-proton"),
    plain("0-8", "old-to-pika"),
    plain("http", "http-to-new"),
    plain("0-9-1", "shared"),
    plain("pika", "urgent"),
    plain("0-9", "jobs"),
    Flow("shop", "pika", (("shop", "new", ("shop.new",)), ("shop", "paid", ("shop.paid",)))),
    Flow(
        "news",
        "0-10",
        (("news", "eu.de.berlin", ("news.eu", "news.all")), ("news", "us", ("news.all",))),
    ),
    Flow("audit", "0-8", (("audit", "", ("audit.log", "audit.copy")),)),
)
READERS = (
    Reader("orders", "pika"),
    Reader("bills", "0-8"),
    Reader("mails", "jms"),
    Reader("stock", "proton"),
    Reader("calls", "lease"),
    Reader("old", "0.8a2"),
    Reader("pika-to-proton", "proton"),
    Reader("old-to-pika", "pika"),
    Reader("http-to-new", "0-10"),
    Reader("shared", "pika"),
    Reader("shared", "0-9-1"),
    Reader("urgent", "pika"),
    Reader("jobs", "0-9"),
    Reader("jobs.dead", "pika"),
    Reader("shop.new", "proton"),
    Reader("shop.paid", "0-8"),
    Reader("news.eu", "0-9-1"),
    Reader("news.all", "events"),
    Reader("audit.log", "0-9"),
    Reader("audit.copy", "pika"),
)
"""Nobody reads ``waiting`` before the end."""
REJECTED = 10
"""Each so many messages of ``jobs`` the consumer rejects one, which comes to ``jobs.dead``."""


def rejected(queue: str, number: int) -> bool:
    return queue == "jobs" and number % REJECTED == 0


def declare(port: int) -> None:
    """All of it, with pika."""
    import pika

    with pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port)) as wire:
        channel = wire.channel()
        for name, kind in EXCHANGES.items():
            channel.exchange_declare(name, kind, durable=True)
        for name, arguments in QUEUES.items():
            channel.queue_declare(name, durable=True, arguments=arguments)
        for exchange, queue, key in BINDINGS:
            channel.queue_bind(queue, exchange, key)

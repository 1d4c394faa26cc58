"""Observers of a queue: they are told of its messages, or of its end."""

from typing import Protocol

from gateway.message import Message


class Watcher(Protocol):
    """Is told of messages that become ready. It takes messages from their places
    (``browsing.pick``)."""

    def arrived(self, priority: int, position: int, message: Message, deliveries: int) -> None: ...

    def queue_gone(self) -> None: ...


class Sender(Protocol):
    """A link that sends to a queue, and ends with it."""

    def queue_gone(self) -> None: ...

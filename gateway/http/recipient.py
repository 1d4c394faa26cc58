"""The recipient of channels that are told nothing."""

from gateway.errors import Condition, LocalError
from gateway.message import Message


class NoRecipient:
    """For a channel without consumers and without confirms, whose messages are all routed."""

    def deliver(self, consumer: str, delivery: int, redelivered: bool, message: Message) -> None:
        raise LocalError("this channel consumes nothing")

    def confirm(self, sequence: int, multiple: bool, accepted: bool) -> None:
        raise LocalError("this channel has no confirms")

    def returned(self, message: Message, condition: Condition, text: str) -> None:
        raise LocalError("this channel publishes nothing that may be returned")

    def cancelled(self, tag: str) -> None:
        raise LocalError("this channel consumes nothing")

"""The queue in which an exchange loses messages."""

from gateway.broker.limits import QueueArguments
from gateway.broker.queues import TAKEN, Queue, QueueHost
from gateway.message import Message


class Void(Queue):
    """A queue like any other to its publishers; it has no name and keeps nothing."""

    __slots__ = ()

    def __init__(self, vhost: QueueHost) -> None:
        super().__init__(
            vhost, "", 0, durable=False, owner=None, auto_delete=False, arguments={},
            limits=QueueArguments(),
        )  # fmt: skip

    def put(self, message: Message, origin: object = None) -> int:
        return TAKEN

    def could_deliver(self, message: Message, origin: object) -> bool:
        return True

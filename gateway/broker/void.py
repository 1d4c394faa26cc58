"""Where an exchange loses messages."""

from typing import TYPE_CHECKING

from gateway.broker.limits import QueueArguments
from gateway.broker.queues import TAKEN, Queue
from gateway.message import Message

if TYPE_CHECKING:
    from gateway.broker.vhost import VirtualHost


class Void(Queue):
    """To those who publish it is a queue like any other; it has no name and keeps nothing."""

    __slots__ = ()

    def __init__(self, vhost: "VirtualHost") -> None:
        super().__init__(
            vhost, "", 0, durable=False, owner=None, auto_delete=False, arguments={},
            limits=QueueArguments(),
        )  # fmt: skip

    def put(self, message: Message, origin: object = None) -> int:
        return TAKEN

    def could_deliver(self, message: Message, origin: object) -> bool:
        return True

"""Rules for publishing that most messages do not meet: copies, immediate delivery."""

from collections.abc import Iterable

from gateway.broker.deadletters import header_keys, look, written_anew
from gateway.broker.limits import type_name
from gateway.broker.queues import Queue
from gateway.errors import Condition, Refusal
from gateway.message import Message


class ToAll(Message):
    """A message to all that is bound to its exchange, whatever the keys (0.8a2 §3.5.2.3: an empty
    name is that of all destinations). ``essentials`` must say that it has headers: that is what
    takes it off the way of plain messages."""

    __slots__ = ()


def read_copies(message: Message) -> tuple[Message, list[str]]:
    """The further routing keys of a message (headers CC and BCC), and the message without BCC."""
    properties = look(message)
    headers = properties.application or {}
    for name in ("CC", "BCC"):
        if name in headers and not isinstance(headers[name], list):
            reason = f'{{unacceptable_type_in_header,"{name}",{type_name(headers[name])}}}'
            raise Refusal(Condition.PRECONDITION_FAILED, f"invalid message: {reason}")
    keys = header_keys(headers, "CC", "BCC")
    if "BCC" in headers:
        properties.application = {k: v for k, v in headers.items() if k != "BCC"}
        message = written_anew(message, properties, message.exchange, message.key)
    return message, keys


def deliver_now(queues: Iterable[Queue], message: Message, origin: object) -> tuple[Queue, ...]:
    """Those of the queues that could hand the message to a consumer at once."""
    return tuple(queue for queue in queues if queue.could_deliver(message, origin))

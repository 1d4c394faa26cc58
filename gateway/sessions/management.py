"""The management node: topology by request and response over a pair of links.

The form is the one RabbitMQ 4 and its clients use, "HTTP over AMQP": the subject of a request is a
method, its ``to`` a path, its body a map; the subject of the response is a status. Requests come
over a link to ``/management``, responses go over the link from it that has the same name.
"""

from collections import deque
from typing import TYPE_CHECKING

from gateway.adapters.performatives.content import SECTIONS
from gateway.adapters.performatives.encoding import write_value
from gateway.broker.channel import Channel
from gateway.errors import Condition, Refusal
from gateway.message import Essentials, Message, Properties
from gateway.operations import AttachSource, AttachTarget, Credit, Manage
from gateway.sessions.topology import Response, respond
from gateway.values import ULong

if TYPE_CHECKING:
    from gateway.sessions.session import Session

MOST_WAITING = 1000
"""Responses that wait for credit on one link."""


class ResponseLink:
    """A link over which responses go. ``credit`` is what is left of it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.credit = 0
        self.waiting: deque[Message] = deque()


class ManagementLinks:
    """Management links of one connection, by channel and tag."""

    def __init__(self, session: "Session") -> None:
        self._session = session
        self._listeners: dict[tuple[int, str], ResponseLink] = {}
        self._askers: dict[tuple[int, str], str] = {}

    def listen(self, op: AttachSource) -> None:
        self._listeners[op.channel, op.link] = ResponseLink(op.name)

    def take(self, op: AttachTarget) -> None:
        self._askers[op.channel, op.link] = op.name

    def leave(self, channel: int, link: str) -> None:
        self._listeners.pop((channel, link), None)
        self._askers.pop((channel, link), None)

    def ended(self, channel: int) -> None:
        """All links of a session."""
        for number, link in [*self._listeners, *self._askers]:
            if number == channel:
                self.leave(number, link)

    def credit(self, op: Credit) -> bool:
        """Whether it was for one of ours."""
        listener = self._listeners.get((op.channel, op.tag))
        if listener is None:
            return False
        listener.credit = MOST_WAITING if op.count is None else op.count
        self._deliver(op.channel, op.tag, listener)
        dropped = 0
        if op.drain:
            dropped, listener.credit = listener.credit, 0
        self._session.answer(op.channel, op.token, dropped)
        return True

    def perform(self, channel: Channel, op: Manage) -> None:
        """Do what is asked, and answer when the store has it. Refuses what cannot be answered."""
        place = self._partner(op)
        if place is None:
            raise Refusal(
                Condition.PRECONDITION_FAILED,
                "there is no link from /management in this session: nowhere to answer",
            )
        listener = self._listeners[place]
        if len(listener.waiting) >= MOST_WAITING:
            raise Refusal(Condition.RESOURCE_ERROR, "too many responses wait for credit")
        answer = written(op.message, respond(channel, op.message))

        def safe() -> None:
            if self._session.closed or self._listeners.get(place) is not listener:
                return
            listener.waiting.append(answer)
            self._deliver(*place, listener)

        self._session.answer_when_safe(op.channel, op.token)
        self._session.broker.when_safe(safe)

    def _partner(self, op: Manage) -> tuple[int, str] | None:
        """The link of the same name; or the only one, for clients that name them otherwise."""
        name = self._askers.get((op.channel, op.link), "")
        here = [place for place in self._listeners if place[0] == op.channel]
        named = [place for place in here if self._listeners[place].name == name]
        found = named or here
        return found[-1] if found else None

    def _deliver(self, number: int, tag: str, listener: ResponseLink) -> None:
        channel = self._session.channels.get(number)
        while channel is not None and listener.waiting and listener.credit:
            listener.credit -= 1
            channel.recipient.deliver(tag, 0, False, listener.waiting.popleft())


def written(request: Message, response: Response) -> Message:
    """A response as a message."""
    properties = Properties()
    properties.subject = str(response.status)
    properties.application = {"http:response": "1.1"}
    try:
        properties.correlation_id = request.properties.message_id
    except ValueError:
        properties.correlation_id = ULong(0)
    properties.body_kind = "value"
    body = b"\x00\x53\x77" + write_value(response.body)
    return Message(SECTIONS, SECTIONS.write(properties), body, "", "", Essentials())

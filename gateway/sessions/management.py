"""The management node: topology by request and response over a pair of links.

The form is the one RabbitMQ 4 and its clients use, "HTTP over AMQP": the subject of a request is a
method, its ``to`` a path, its body a map; the subject of the response is a status. Requests come
over a link to ``/management``, responses go over the link from it that has the same name.
"""

from collections import deque

from gateway.adapters.performatives.content import SECTIONS
from gateway.adapters.performatives.encoding import write_value
from gateway.broker.channel import Channel
from gateway.errors import Condition, Refusal
from gateway.message import Essentials, Message, Properties
from gateway.operations import AttachSource, AttachTarget, Credit, Manage
from gateway.sessions.context import SessionContext
from gateway.sessions.management_requests import Response, respond
from gateway.sessions.replies import Replies
from gateway.values import ULong

MOST_WAITING = 1000
"""Responses that wait for credit on one link."""


class ResponseLink:
    """A link over which responses go. ``credit``: messages that it may still send."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.credit = 0
        self.waiting: deque[Message] = deque()


class ManagementLinks:
    """Management links of one connection, by channel and tag."""

    def __init__(self, context: SessionContext, replies: Replies) -> None:
        self._context = context
        self._replies = replies
        self._response_links: dict[tuple[int, str], ResponseLink] = {}
        self._request_links: dict[tuple[int, str], str] = {}
        """Names of the links over which requests come."""

    def attach_source(self, op: AttachSource) -> None:
        """The peer receives responses over this link."""
        self._response_links[op.channel, op.link] = ResponseLink(op.name)

    def attach_target(self, op: AttachTarget) -> None:
        """The peer sends requests over this link."""
        self._request_links[op.channel, op.link] = op.name

    def detach(self, channel: int, link: str) -> None:
        """The link is gone; nothing happens if it is not a management link."""
        self._response_links.pop((channel, link), None)
        self._request_links.pop((channel, link), None)

    def channel_ended(self, channel: int) -> None:
        """Detach all links of a channel."""
        for number, link in [*self._response_links, *self._request_links]:
            if number == channel:
                self.detach(number, link)

    def credit(self, op: Credit) -> bool:
        """Set the credit of a response link; false if the link is not one."""
        link = self._response_links.get((op.channel, op.tag))
        if link is None:
            return False
        link.credit = MOST_WAITING if op.count is None else op.count
        self._deliver(op.channel, op.tag, link)
        dropped = 0
        if op.drain:
            dropped, link.credit = link.credit, 0
        self._replies.answer(op.channel, op.token, dropped)
        return True

    def perform(self, channel: Channel, op: Manage) -> None:
        """Perform a request, and respond when the store has committed it. Refuses (406) a request
        without a response link, and (506) one whose link has too many responses waiting."""
        key = self._partner(op)
        if key is None:
            raise Refusal(
                Condition.PRECONDITION_FAILED,
                "there is no link from /management in this session: nowhere to answer",
            )
        link = self._response_links[key]
        if len(link.waiting) >= MOST_WAITING:
            raise Refusal(Condition.RESOURCE_ERROR, "too many responses wait for credit")
        answer = written(op.message, respond(channel, op.message))

        def safe() -> None:
            if self._context.closed or self._response_links.get(key) is not link:
                return
            link.waiting.append(answer)
            self._deliver(*key, link)

        self._replies.answer_when_safe(op.channel, op.token)
        self._context.broker.when_safe(safe)

    def _partner(self, op: Manage) -> tuple[int, str] | None:
        """The response link of the same name; or the only one, for clients that name their links
        differently."""
        name = self._request_links.get((op.channel, op.link), "")
        here = [key for key in self._response_links if key[0] == op.channel]
        named = [key for key in here if self._response_links[key].name == name]
        found = named or here
        return found[-1] if found else None

    def _deliver(self, number: int, tag: str, link: ResponseLink) -> None:
        """Send waiting responses as far as the credit reaches."""
        channel = self._context.channels.get(number)
        while channel is not None and link.waiting and link.credit:
            link.credit -= 1
            channel.recipient.deliver(tag, 0, False, link.waiting.popleft())


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

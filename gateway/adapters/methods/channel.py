"""One channel: its state, the content under way on it, what was asked and not yet answered."""

import struct
from collections import deque
from typing import Any, NamedTuple

from gateway.adapters.methods import states
from gateway.adapters.methods.content import BASIC
from gateway.adapters.methods.essentials import BadExpiration, arrived
from gateway.adapters.methods.geometry import Method
from gateway.adapters.methods.outlet import Owner, Writer
from gateway.adapters.methods.tags import TooManyValues
from gateway.bodies import Body, Gathering, gathering
from gateway.errors import Condition, Lost, PeerError
from gateway.message import Essentials, Message
from gateway.operations import (
    Confirm,
    Deliver,
    Done,
    Fetched,
    Operation,
    Outcome,
    Publish,
    Returned,
    Settle,
    Token,
)

UNDER_WAY = 4
"""How many of the largest messages one connection may have half sent, over all its channels."""

NOWHERE = Gathering(0, None)
"""Where a body is before its size is known."""


class PendingReply(NamedTuple):
    """The token of a request that came from the peer."""

    method: Method


class Awaited(NamedTuple):
    """A request of ours that the peer has to answer."""

    method: Method
    token: Token


class Content:
    """A message of which some frames are still to come. ``place``: where its body goes."""

    __slots__ = ("method", "record", "header", "essentials", "size", "missing", "place")

    def __init__(self, method: Method, record: Any) -> None:
        self.method = method
        self.record = record
        self.header: bytes | None = None
        self.essentials = Essentials()
        self.size = self.missing = 0
        self.place = NOWHERE

    def add(self, octets: bytes) -> None:
        """Raises ``PeerError``: the peer loses its channel, for the message cannot be kept."""
        self.missing -= len(octets)
        try:
            self.place.add(octets)
        except OSError as error:
            raise self.not_kept(error) from error

    def body(self) -> Body:
        """All of it. Raises ``PeerError``."""
        try:
            return self.place.finish()
        except OSError as error:
            raise self.not_kept(error) from error

    def not_kept(self, error: OSError) -> PeerError:
        """The disk is short: larger than we can take at the present time (§1.2, 311)."""
        return PeerError(
            Condition.CONTENT_TOO_LARGE,
            f"there is no room for a message of {self.size} octets: {error.strerror}",
            Lost.SESSION,
            self.method.number,
        )


class Channel(Writer):
    """One channel of a connection; also its ``Outlet``."""

    __slots__ = ("awaited", "content", "ready", "tags")

    def __init__(self, number: int, owner: Owner) -> None:
        super().__init__(number, owner)
        self.ready = False
        self.tags = owner.tags
        self.awaited: deque[Awaited] = deque()
        self.content: Content | None = None

    # --- state -----------------------------------------------------------------------------------

    def move(self, word: str) -> None:
        """Take a step of the table. Raises ``PeerError`` if it is not allowed now."""
        state = states.after(states.CHANNEL, self.state, word)
        if state is None:
            raise PeerError(
                Condition.CHANNEL_ERROR, f"{word!r} on channel {self.number}, which is {self.state}"
            )
        self.state = state
        self.ready = state is states.OPEN and self.content is None

    def opened(self) -> None:
        self.move("channel.open-ok")

    def fail(self) -> None:
        """The peer broke a rule: nothing more is taken. We say so when what it asked before is
        answered."""
        self.forget_content()
        self.state = states.FAILED
        self.ready = False

    def die(self) -> None:
        """Discard everything but the answer to our close."""
        self.forget_content()
        self.move("lose")
        self._addresses.clear()

    def vanish(self) -> None:
        """The channel is no more; whoever still holds it as an outlet says nothing."""
        self.state = states.CLOSED
        self.ready = False
        self.forget_content()

    def forget_content(self) -> None:
        """What is under way is not wanted any more."""
        if self.content is not None:
            self._owner.announced -= self.content.place.held
            self.content.place.abandon()
        self.content = None

    # --- content in ------------------------------------------------------------------------------

    def begin_content(self, method: Method, record: Any) -> None:
        self.content = Content(method, record)
        self.ready = False

    def on_header(self, buf: bytes, at: int, end: int, found: list[Operation]) -> None:
        content = self.content
        if content is None or content.header is not None:
            raise PeerError(Condition.UNEXPECTED_FRAME, "a content header nobody announced")
        layout = self._owner.table.geometry.content
        if end - at < layout.size + 2:
            raise PeerError(Condition.SYNTAX_ERROR, "the content header is too short")
        group, _, octets = layout.unpack_from(buf, at)
        if group != content.method.number >> 16:
            raise PeerError(
                Condition.FRAME_ERROR,
                f"a content header of class {group} for {content.method.name}",
                method=content.method.number,
            )
        raw = buf[at + layout.size : end]
        known = self._owner.frames.known(raw)
        if known is None:
            self._bad_header(raw, content.method)
            return
        if octets > self._owner.max_message_octets:
            raise PeerError(
                Condition.CONTENT_TOO_LARGE,
                f"message size {octets} is larger than configured max size "
                f"{self._owner.max_message_octets}",
                Lost.SESSION,
                content.method.number,
            )
        content.size = content.missing = octets
        try:
            content.place = gathering(self._owner.spool, octets)
        except OSError as error:
            raise content.not_kept(error) from error
        self._announce(content)
        content.header, content.essentials = known
        if not octets:
            self._complete(content, found)

    def _announce(self, content: Content) -> None:
        """What of the content will be in memory."""
        self._owner.announced += content.place.held
        if self._owner.announced > UNDER_WAY * self._owner.max_message_octets:
            raise PeerError(
                Condition.RESOURCE_ERROR,
                "too many large messages are under way on this connection",
                method=content.method.number,
            )

    def _bad_header(self, raw: bytes, method: Method) -> None:
        try:
            arrived(raw)
        except TooManyValues as error:
            raise PeerError(
                Condition.CONTENT_TOO_LARGE, str(error), Lost.SESSION, method.number
            ) from error
        except BadExpiration as error:
            raise PeerError(
                Condition.PRECONDITION_FAILED, str(error), Lost.SESSION, method.number
            ) from error
        except (ValueError, struct.error, IndexError) as error:
            raise PeerError(Condition.SYNTAX_ERROR, str(error), method=method.number) from error

    def on_body(self, buf: bytes, at: int, end: int, found: list[Operation]) -> None:
        content = self.content
        if content is None or content.header is None:
            raise PeerError(Condition.UNEXPECTED_FRAME, "a content body nobody announced")
        size = end - at
        if size > content.missing:
            raise PeerError(
                Condition.FRAME_ERROR,
                "the content body is longer than its header says",
                method=content.method.number,
            )
        if size:
            content.add(buf[at:end])
        if not content.missing:
            self._complete(content, found)

    def _complete(self, content: Content, found: list[Operation]) -> None:
        body = content.body()
        self._owner.announced -= content.place.held
        self.content = None
        self.ready = self.state is states.OPEN
        m, name = content.record, content.method.name
        message = Message(
            BASIC, content.header or b"", body, m.exchange, m.routing_key, content.essentials
        )
        if name == "basic.publish":
            found.append(Publish(self.number, message, m.mandatory, m.immediate))
        elif name == "basic.deliver":
            found.append(
                Deliver(self.number, m.consumer_tag, m.delivery_tag, m.redelivered, message)
            )
        elif name == "basic.return":
            condition = self._owner.codes.condition(m.reply_code)
            found.append(Returned(self.number, message, condition, m.reply_text))
        else:
            awaited = self.answered(content.method.name)
            fetched = Fetched(m.delivery_tag, m.redelivered, message, m.message_count)
            found.append(Done(self.number, awaited.token, fetched))

    # --- answers in ------------------------------------------------------------------------------

    def answered(self, name: str) -> Awaited:
        """The request that this method answers. Raises ``PeerError`` if there is none."""
        if not self.awaited or name not in self.awaited[0].method.replies:
            raise PeerError(Condition.COMMAND_INVALID, f"{name} answers nothing that was asked")
        return self.awaited.popleft()


def settled(name: str, m: Any, channel: int) -> Operation:
    """ack, nack or reject of a consumer."""
    if name == "basic.ack":
        return Settle(channel, m.delivery_tag, m.multiple, Outcome.ACCEPT)
    outcome = Outcome.RELEASE if m.requeue else Outcome.REJECT
    return Settle(channel, m.delivery_tag, name == "basic.nack" and m.multiple, outcome)


def confirmed(name: str, m: Any, channel: int) -> Operation:
    """ack or nack of a broker."""
    return Confirm(channel, m.delivery_tag, m.multiple, name == "basic.ack")

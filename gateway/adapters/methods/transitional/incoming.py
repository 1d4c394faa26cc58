"""Complete frames of the peer: their channel, and whether they are allowed now."""

from functools import partial
from typing import Any, Protocol

from gateway.adapters.methods import states
from gateway.adapters.methods.content import BASIC
from gateway.adapters.methods.dispatch import (
    fail_channel,
    is_discarded,
    is_for_channel,
    read_arguments,
)
from gateway.adapters.methods.geometry import Method
from gateway.adapters.methods.incoming_content import (
    ContentEngine,
    ContentReceiver,
    IncomingContent,
)
from gateway.adapters.methods.tags import TooManyValues
from gateway.adapters.methods.transitional import client
from gateway.adapters.methods.transitional.channel import Channel, ChannelEngine
from gateway.adapters.methods.transitional.contents import OTHER_CONTENTS
from gateway.adapters.methods.transitional.numbering import Numbering
from gateway.adapters.methods.transitional.publishes import received_header
from gateway.adapters.methods.transitional.received import Received
from gateway.adapters.methods.transitional.resumption import attach
from gateway.adapters.methods.transitional.server import SERVE, class_method
from gateway.adapters.methods.transitional.sessions import (
    LIFE,
    OPENING,
    begun,
    check_class,
    in_class_channel,
    outlives,
)
from gateway.adapters.methods.transitional.versions import Carried
from gateway.adapters.methods.wire import layouts_0_10_07 as w
from gateway.bodies import Body, Spool, incoming_body
from gateway.errors import Condition, Lost, PeerError
from gateway.message import Message
from gateway.operations import BeginSession, Operation, Publish

CONTENTS = frozenset(["basic.publish", "basic.deliver", "basic.get-ok"])
"""Methods whose content is taken."""


class IncomingEngine(ChannelEngine, ContentEngine, Protocol):
    """The engine, as far as this part needs it."""

    numbering: Numbering
    channel_max: int
    spool: Spool | None

    def new_channel(self, number: int) -> Channel: ...

    def adopt(self, requests: bool) -> None: ...


class Incoming:
    """The ``Link`` of the frame loop."""

    def __init__(self, engine: IncomingEngine) -> None:
        self._engine = engine
        contents = ContentReceiver(engine, self._complete)
        self.on_header, self.on_body = contents.on_header, contents.on_body

    def on_method(
        self,
        channel: int,
        carried: Carried | None,
        buf: bytes,
        at: int,
        end: int,
        found: list[Operation],
    ) -> None:
        """One method. Raises ``PeerError`` if it costs the connection."""
        engine = self._engine
        number = int.from_bytes(buf[at : at + 4], "big")
        method = engine.table.methods.get(number)
        if method is None:
            raise PeerError(
                Condition.COMMAND_INVALID,
                f"method {number >> 16},{number & 0xFFFF} is unknown",
                method=number,
            )
        name = method.name
        open_channel = engine.channels.get(channel)
        if name == ("connection.open" if engine.server else "connection.start"):
            engine.adopt(carried is not None)
        elif name in OPENING and open_channel is not None:
            open_channel = self._reopened(channel, open_channel)
        numbering = open_channel.numbering if open_channel is not None else engine.numbering
        if open_channel is not None or not channel:
            numbering.receive(method, carried)
        sent, lives = method, number >> 16 in LIFE
        if lives:
            method = in_class_channel(engine.table, sent, open_channel, engine.server)
        if is_discarded(engine, open_channel, method, found):
            return
        record = read_arguments(engine, sent, buf, at + 4, end)
        try:
            if lives:
                check_class(open_channel, sent)
            if is_for_channel(engine, channel, open_channel, method, record, found):
                self._on_channel(channel, open_channel, method, record, carried, found, sent)
        except PeerError as error:
            error.method = error.method or number
            if error.lost is not Lost.SESSION:
                raise
            fail_channel(engine, channel, error, found)
        except TooManyValues as error:
            raise PeerError(Condition.RESOURCE_ERROR, str(error), method=number) from error
        except ValueError as error:
            raise PeerError(Condition.SYNTAX_ERROR, str(error), method=number) from error

    def _reopened(self, number: int, channel: Channel) -> Channel | None:
        """A client that never sends close-ok opens a channel again that we have closed."""
        if channel.state is not states.CLOSING:
            return channel
        del self._engine.channels[number]
        channel.mark_closed()
        return None

    def _on_channel(
        self,
        number: int,
        channel: Channel | None,
        method: Method,
        m: Any,
        carried: Carried | None,
        found: list[Operation],
        sent: Method,
    ) -> None:
        """``sent``: the method of class session for which ``method`` stands."""
        engine = self._engine
        if channel is None:
            have, most = len(engine.channels), engine.channel_max
            if have >= most:
                raise PeerError(
                    Condition.NOT_ALLOWED, f"{have} channels are open, {most} are allowed"
                )
            kept = outlives(m)
            if kept:
                found += attach(engine, number, kept, sent, m, carried)
                return
            channel = engine.new_channel(number)
            channel.session = begun(m)
            channel.opened()
            channel.numbering.receive(method, carried)
            received = Received(engine, channel, method, m, carried)
            found.append(BeginSession(number, received.token))
            return
        if channel.content is not None:
            raise PeerError(
                Condition.UNEXPECTED_FRAME,
                f"{method.name} where the rest of a content was expected",
            )
        if method.name in CONTENTS:
            self._begin_content(channel, method, m)
            return
        if method.content and method.number >> 16 in OTHER_CONTENTS:
            channel.content = channel.other_classes().begin(method, m)
            return
        if method.name == "channel.close-ok":
            channel.move("channel.close-ok")  # of a channel that is not being closed
        if method.number >> 16 in OTHER_CONTENTS:
            found += class_method(Received(engine, channel, method, m, carried))
            return
        if not engine.server:
            client.take(engine, channel, sent, m, carried, found)
            return
        if method.name == "channel.open":
            raise PeerError(Condition.CHANNEL_ERROR, f"channel {number} is open already")
        serve = SERVE.get(method.name)
        if serve is None:
            raise PeerError(Condition.NOT_IMPLEMENTED, f"{method.name} is not implemented")
        found += serve(Received(engine, channel, method, m, carried))

    def _begin_content(self, channel: Channel, method: Method, m: Any) -> None:
        engine = self._engine
        keep = partial(incoming_body, engine.spool)
        channel.content = IncomingContent(
            method, m, engine.max_message_octets, keep, received_header
        )

    def _complete(
        self,
        channel: Channel,
        content: IncomingContent,
        header: bytes,
        body: Body,
        found: list[Operation],
    ) -> None:
        """A message is complete."""
        if content.method.number >> 16 in OTHER_CONTENTS:
            condition = self._engine.codes.condition
            found += channel.other_classes().complete(content, body, condition)
            return
        if not self._engine.server:
            client.received(channel, content, body, found)
            return
        m: w.BasicPublish = content.record
        header, essentials = content.known
        message = Message(BASIC, header, body, m.exchange, m.routing_key, essentials)
        found.append(Publish(channel.number, message, False, m.immediate))

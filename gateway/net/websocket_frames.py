"""WebSockets of the server, frame by frame.

uvicorn buffers the frames of a message, up to 16 MiB, even for peers that are not authenticated.
Message boundaries mean nothing to AMQP (OASIS binding §2), so each frame is passed on when it
arrives, and frames are small until the peer has logged in.
"""

from typing import Any
from weakref import ref

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import Frame
from websockets.http11 import Request

from gateway.net.websocket import FRAMES

BEFORE_LOGIN = 16_384
"""Octets of a frame from a peer that has not logged in: its header, SASL, the first performatives
or methods."""


class FrameByFrame(WebSocketsSansIOProtocol):
    """One WebSocket."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.conn.max_message_size = None
        self.conn.max_fragment_size = BEFORE_LOGIN

    def widen(self) -> None:
        """The peer has logged in."""
        self.conn.max_fragment_size = self.config.ws_max_size

    def handle_connect(self, event: Request) -> None:
        super().handle_connect(event)
        if not self.close_sent:
            # A weak reference: a cycle would stay until garbage is collected.
            self.scope[FRAMES] = ref(self)  # type: ignore[literal-required]

    def handle_bytes(self, event: Frame) -> None:
        self.curr_msg_data_type = "bytes"
        self._pass_on(event)

    def handle_text(self, event: Frame) -> None:
        self.curr_msg_data_type = "text"
        self._pass_on(event)

    def handle_cont(self, event: Frame) -> None:
        self._pass_on(event)

    def _pass_on(self, event: Frame) -> None:
        """Pass on the octets; of text, which is no AMQP, only the event: a frame may end within a
        character."""
        text = self.curr_msg_data_type == "text"
        if text or event.data:
            self.frames = [b"" if text else bytes(event.data)]
            self.send_receive_event_to_app()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        # The parser, a generator, refers to its connection, and so does its exception.
        self.conn.parser.close()
        self.conn.parser_exc = None
        self.frames = []

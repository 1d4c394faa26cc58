"""Encoders of operations on the connection itself, and the tables of all encoders by role."""

from collections.abc import Callable
from functools import partial
from typing import Any

from gateway.adapters.performatives import client, server
from gateway.adapters.performatives.composites import symbol_for
from gateway.adapters.performatives.violation import error
from gateway.errors import Lost
from gateway.operations import Blocked, Close, Done, Open, Operation, Refused, Unblocked


class OpenToken:
    """The token of the server's ``Open``."""


class CloseToken:
    """The token of the ``Closed`` of a peer that waits for our close."""


OPEN_TOKEN = OpenToken()
CLOSE_TOKEN = CloseToken()


def opened(engine: Any, op: Done) -> None:
    """The virtual host is open."""
    engine.write_open()


def finish_close(engine: Any, op: Done) -> None:
    """The requests before the peer's close are answered: answer the close."""
    engine.finish_close()


def refused(engine: Any, op: Refused) -> None:
    """The virtual host is refused, or another error costs the connection. An open precedes the
    close (§2.4.1), for a refused client too."""
    engine.refused = True
    symbol = symbol_for(op.condition, Lost.CONNECTION)
    engine.write_close(op.condition, op.text, error(symbol, op.text), True)


def _open(engine: Any, op: Open) -> None:
    engine.request_open(op)


def _close(engine: Any, op: Close) -> None:
    record = None
    if op.condition is not None:
        record = error(symbol_for(op.condition, Lost.CONNECTION), op.text)
    engine.write_close(op.condition, op.text, record, False)


def _leave(engine: Any, op: Close) -> None:
    """Close without an error when all publishes are sent."""
    if op.condition is None and any(
        each.handler.senders.holding for each in engine.sessions.values()
    ):
        engine.defer_write(partial(_leave, engine, op))
    else:
        _close(engine, op)


def _blocked(engine: Any, op: Blocked) -> None:
    engine.blocked = True


def _unblocked(engine: Any, op: Unblocked) -> None:
    engine.blocked = False
    for session in list(engine.sessions.values()):
        session.unblocked()


Encoder = Callable[[Any, Any], None]

SERVER: dict[type[Operation], Encoder] = {
    **server.ENCODERS,
    Close: _close,
    Blocked: _blocked,
    Unblocked: _unblocked,
}
CLIENT: dict[type[Operation], Encoder] = {**client.ENCODERS, Open: _open, Close: _leave}

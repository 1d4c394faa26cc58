"""Deliveries that go out in a run are written as each of them alone."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.adapters import Limits
from gateway.adapters.methods.content import BASIC
from gateway.adapters.performatives.content import SECTIONS
from gateway.bodies import Spool
from gateway.errors import Condition
from gateway.message import Message, Properties
from gateway.operations import SessionLost
from tests.pair import VERSIONS, Pair, opened

HEADERS = [
    BASIC.write(Properties(message_id="m-1")),
    BASIC.write(Properties(message_id="m-22", application={"a": 1})),
    b"\x00\x00",
]
LONG = BASIC.write(Properties(application={"a": "x" * 4500}))
"""More than fits a frame of 4096 octets."""


def basic(header: bytes, octets: int, key: str, added: bool) -> Message:
    body = bytes(range(256)) * (octets // 256 + 1)
    essentials = BASIC.essentials(header)
    return Message(
        BASIC, header, body[:octets], "x", key, essentials, {"x-death": "1"} if added else None
    )


def sections(name: str) -> Message:
    header = SECTIONS.write(Properties(message_id=name))
    return Message(SECTIONS, header, b"of 1.0", "x", "k", SECTIONS.essentials(header))


PLAIN = st.builds(
    basic, st.sampled_from(HEADERS), st.sampled_from([1, 16, 17]), st.just("k"), st.just(False)
)
ANY = st.builds(
    basic,
    st.sampled_from([*HEADERS, LONG]),
    st.sampled_from([0, 1, 16, 4000, 4096, 4097, 9000]),
    st.sampled_from(["k", "key"]),
    st.booleans(),
)
MESSAGES = st.lists(PLAIN | ANY | st.builds(sections, st.sampled_from("ab")), max_size=12)


def written(pair: Pair, messages: list[Message], together: bool) -> tuple[bytes, list[Any]]:
    """The octets of these deliveries, and the messages that could not be written."""
    outlet: Any = pair.server.outlet(1)
    unsent: list[Any] = []
    server: Any = pair.server
    server.life.unsent = unsent.append
    if together:
        outlet.deliver_run("c", 7, messages)
    else:
        for tag, message in enumerate(messages, 7):
            outlet.deliver("c", tag, False, message)
    octets = b""
    while piece := b"".join(pair.server.output()):
        octets += piece
    return octets, [(one.delivery, one.message) for one in unsent]


@pytest.mark.parametrize("frame_max", [4096, 131072])
@pytest.mark.parametrize("version", VERSIONS)
@given(messages=MESSAGES)
def test_as_each_of_them_alone(version: str, frame_max: int, messages: list[Message]) -> None:
    limits = Limits(frame_max=frame_max)
    alone, together = (
        written(opened(version, limits=limits), messages, one) for one in (False, True)
    )
    assert together == alone


@pytest.mark.parametrize("octets", [100, 50_000])
def test_a_body_in_a_file_in_the_middle(octets: int) -> None:
    body = Spool().start()
    assert body is not None
    body.add(b"x" * octets)
    messages = [basic(HEADERS[0], 16, "k", False) for _ in range(5)]
    messages[2] = Message(BASIC, HEADERS[0], body.finish(), "x", "k", BASIC.essentials(HEADERS[0]))
    alone, together = (written(opened("0-9-1"), messages, one) for one in (False, True))
    assert together == alone and len(alone[0]) > octets


def test_a_run_is_one_piece() -> None:
    pair = opened("0-9-1")
    pair.server.outlet(1).deliver("c", 1, False, basic(HEADERS[0], 16, "k", False))  # the address
    messages = [basic(HEADERS[n % 2], n + 1, "k", False) for n in range(20)]
    server: Any = pair.server
    before = len(server.pending)
    server.outlet(1).deliver_run("c", 2, messages)
    assert len(server.pending) == before + 1


def test_large_bodies_are_not_copied() -> None:
    pair = opened("0-9-1")
    pair.server.outlet(1).deliver("c", 1, False, basic(HEADERS[0], 16, "k", False))  # the address
    messages = [basic(HEADERS[0], 9000, "k", False) for _ in range(5)]
    server: Any = pair.server
    before = len(server.pending)
    server.outlet(1).deliver_run("c", 2, messages)
    pieces = server.pending[before:]
    assert len(pieces) == 11
    assert all(piece is one.body for piece, one in zip(pieces[1::2], messages, strict=True))


def test_a_closed_channel_delivers_nothing() -> None:
    pair = opened("0-9-1")
    pair.server.send(SessionLost(1, Condition.NOT_FOUND, "no such queue"))
    pair.server.output()
    outlet: Any = pair.server.outlet(1)
    outlet.deliver_run("c", 1, [basic(HEADERS[0], 16, "k", False)])
    assert pair.server.output() == []

"""Where a content of a draft goes is put into its header as if all of it were written anew."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.adapters.methods.contents.dialect import ClassDialect
from gateway.adapters.methods.drafts.content import CONTENTS
from gateway.message import Message, Properties
from tests.crossing.elders import elder, headers
from tests.crossing.messages import LEGACY, legacy

DIALECTS = {each.name: each for each in CONTENTS.values() if each.group != "test"}
KEYS = st.sampled_from(["", "q", "ü" * 127, "e\udcff", "k" * 255, "k" * 256])


def written(dialect: ClassDialect, header: bytes, key: str) -> bytes:
    record, children = dialect.record(header)
    record.destination = key
    return dialect.joined(record, children)


def made(call: Any, *given: Any) -> object:
    try:
        return call(*given)
    except ValueError:
        return ValueError


@pytest.mark.parametrize("name", sorted(DIALECTS))
@given(data=st.data(), key=KEYS)
def test_another_destination(name: str, data: st.DataObject, key: str) -> None:
    dialect = DIALECTS[name]
    header = elder(name, data.draw(headers(name))).header
    known = dialect.known(header)
    assert made(dialect.sent_to, known.header, key) == made(written, dialect, known.header, key)


@pytest.mark.parametrize("name", sorted(DIALECTS))
@given(data=st.data(), key=KEYS)
def test_messages_of_other_classes_are_sent_to_their_key(
    name: str, data: st.DataObject, key: str
) -> None:
    dialect = DIALECTS[name]
    others = [other for other in sorted(DIALECTS) if other != name]
    message = legacy(data.draw(LEGACY))
    if data.draw(st.booleans()):
        other = data.draw(st.sampled_from(others))
        message = elder(other, data.draw(headers(other)))
    one = message.routed_as("x", key)
    found = made(dialect.outgoing, one)
    crossed = made(Message.form_for, one, dialect)
    if crossed is ValueError:
        assert found is ValueError
        return
    assert isinstance(crossed, tuple)
    header, body = crossed
    record, children = dialect.record(header)
    if key and not record.destination:
        header = made(written, dialect, header, key)
    assert found == (ValueError if header is ValueError else (header, body, bool(children)))


@pytest.mark.parametrize("name", sorted(DIALECTS))
def test_headers_of_one_size_whose_texts_differ_in_length(name: str) -> None:
    """Where a destination stands is remembered by flags and size, and looked at."""
    dialect = DIALECTS[name]
    cuts = [5, 5, 5, 2, 5, 2, 2, 2, 7, 5, 5]
    for times, at in enumerate(cuts * 2):
        words = {"message_id": "m" * at, "content_type": "t" * (9 - at)}
        header = dialect.write(Properties(**words, to="d" if times % 2 else None))
        for key in ("q", "other"):
            assert dialect.sent_to(header, key) == written(dialect, header, key)

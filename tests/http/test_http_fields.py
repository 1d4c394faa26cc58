"""Metadata fields: strict in, typed, and back."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway import values
from gateway.http.fields import BadField, read_properties, write_headers
from gateway.message import Properties


def read(*pairs: tuple[str, str]) -> Properties:
    return read_properties([(name.lower().encode(), value.encode()) for name, value in pairs])


def test_all_fields_with_their_types() -> None:
    found = read(
        ("Content-Type", "application/json"),
        ("Content-Encoding", "gzip"),
        ("Amqp-Durable", "?1"),
        ("Amqp-Priority", "4"),
        ("Amqp-Ttl", "60000"),
        ("Amqp-Message-Id", '"0192f3c1-7a10-7c2e-9b1d-3f2a5c6d7e8f";t=uuid'),
        ("Amqp-Correlation-Id", '"18446744073709551615";t=ulong'),
        ("Amqp-User-Id", ":Z3Vlc3Q=:"),
        ("Amqp-Subject", '%"gr%c3%bc%c3%9fe"'),
        ("Amqp-Reply-To", '"answers"'),
        ("Amqp-Type", '"T"'),
        ("Amqp-App-Id", '"shop"'),
        ("Amqp-Creation-Time", "1790000000123"),
        ("Amqp-Group-Id", '"g"'),
        ("Amqp-Group-Sequence", "7"),
    )
    assert found == Properties(
        content_type="application/json",
        content_encoding="gzip",
        durable=True,
        priority=4,
        ttl=60000,
        message_id=UUID("0192f3c1-7a10-7c2e-9b1d-3f2a5c6d7e8f"),
        correlation_id=2**64 - 1,
        user_id=b"guest",
        subject="grüße",
        reply_to="answers",
        type="T",
        app_id="shop",
        creation_time=1790000000123,
        group_id="g",
        group_sequence=7,
    )
    assert isinstance(found.correlation_id, values.ULong)


def test_application_properties_over_several_fields() -> None:
    found = read(
        ("Amqp-Property", '"orderId";v="A-17", "attempt";v=3;t=ubyte'),
        ("Amqp-Property", '"big";v="18446744073709551615";t=ulong, "blob";v=:AQID:;t=binary'),
        ("Amqp-Property", '"weight";v="1.5e-7";t=double, "gone";t=null, "half";v=0.5, "yes";v'),
    ).application
    assert found == {
        "orderId": "A-17",
        "attempt": 3,
        "big": 2**64 - 1,
        "blob": b"\1\2\3",
        "weight": 1.5e-7,
        "gone": None,
        "half": 0.5,
        "yes": True,
    }
    assert isinstance(found["attempt"], values.UByte)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("Amqp-Durable", "true"),
        ("Amqp-Durable", "1"),
        ("Amqp-Priority", "256"),
        ("Amqp-Priority", "-1"),
        ("Amqp-Priority", "1.5"),
        ("Amqp-Priority", "4;x=1"),
        ("Amqp-Ttl", '"60000"'),
        ("Amqp-Ttl", "4294967296"),
        ("Amqp-Subject", "bare"),
        ("Amqp-Subject", '"open'),
        ("Amqp-Subject", '"' + "x" * 256 + '"'),
        ("Amqp-Message-Id", '"no-uuid";t=uuid'),
        ("Amqp-Message-Id", '"x";t=color'),
        ("Amqp-Message-Id", '"x";v=1'),
        ("Amqp-Unheard-Of", "1"),
        ("Amqp-Property", '"a"'),
        ("Amqp-Property", '"a";v=1, "a";v=2'),
        ("Amqp-Property", '"a";v=1;v=2'),
        ("Amqp-Property", "a;v=1"),
        ("Amqp-Property", '("a");v=1'),
        ("Amqp-Property", '"a";v=token'),
        ("Amqp-Property", '"a";v=1234567890123456'),
        ("Amqp-Property", '"a";v=300;t=ubyte'),
        ("Amqp-Property", '"a";v="1_0";t=int'),
        ("Amqp-Property", '"a";v="x";t="string"'),
        ("Amqp-Property", '"";v=1'),
        ("Content-Type", "é"),
    ],
)
def test_unknown_fields_are_refused(name: str, value: str) -> None:
    with pytest.raises(BadField):
        read((name, value))


def test_a_field_given_twice_is_refused() -> None:
    with pytest.raises(BadField, match="amqp-priority: given twice"):
        read(("Amqp-Priority", "1"), ("Amqp-Priority", "1"))


scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=["Cs"]))
    | st.binary()
    | st.uuids()
    | st.integers(0, 255).map(values.UByte)
    | st.integers(0, 2**64 - 1).map(values.ULong)
    | st.integers(-(2**63), 2**63 - 1).map(values.Timestamp)
    | st.floats(allow_nan=False, width=32).map(values.Float)
)
keys = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=60)
short = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)


@given(
    st.dictionaries(keys, scalars, max_size=5),
    short,
    st.uuids() | short | st.binary(max_size=20),
    st.integers(0, 255),
)
def test_written_values_are_read_with_their_types(
    application: dict[str, object], subject: str, message_id: object, priority: int
) -> None:
    sent = Properties(
        application=application or None,
        subject=subject,
        message_id=message_id,
        priority=priority,
        durable=False,
        content_encoding="utf-8",
        content_type="text/plain",
    )
    headers = write_headers(sent)
    found = read_properties([(name.encode(), value.encode("ascii")) for name, value in headers])
    assert found == sent
    before, after = application, found.application or {}
    assert {key: type(value) for key, value in after.items()} == {
        key: type(value) for key, value in before.items()
    }

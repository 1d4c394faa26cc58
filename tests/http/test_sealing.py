"""Sealed tokens: what was sealed comes back, and nothing else passes."""

import hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.http.sealing import Foreign, Forged, Purpose, Seal

SECRET = b"s" * 32
CURSORS = Seal(SECRET, Purpose.CURSOR)


@given(st.binary(max_size=80), st.binary(min_size=1, max_size=40), st.sampled_from(Purpose))
def test_sealed_values_open(plain: bytes, secret: bytes, purpose: Purpose) -> None:
    seal = Seal(secret, purpose)
    assert seal.open(seal.seal(plain)) == plain
    assert seal.reveal(seal.hide(plain).decode()) == plain


@given(st.booleans(), st.binary(max_size=30), st.integers(0, 10_000), st.integers(0, 7))
def test_a_changed_token_does_not_open(hidden: bool, plain: bytes, place: int, bit: int) -> None:
    text = bytearray(CURSORS.hide(plain) if hidden else CURSORS.seal(plain))
    text[place % len(text)] ^= 1 << bit
    with pytest.raises(Forged):
        (CURSORS.reveal if hidden else CURSORS.open)(text.decode("latin-1"))


@given(st.text(max_size=80))
def test_unsealed_values_do_not_open(text: str) -> None:
    for opened in (CURSORS.open, CURSORS.reveal):
        with pytest.raises(Forged):
            opened(text)


def test_one_purpose_opens_nothing_of_another() -> None:
    leases = Seal(SECRET, Purpose.LEASE)
    with pytest.raises(Forged) as raised:
        leases.open(CURSORS.seal(b"x"))
    assert not isinstance(raised.value, Foreign)
    moved = CURSORS.seal(b"x")
    octets = leases.head + b"x"
    with pytest.raises(Forged):
        leases.open(moved.replace(moved[:6], leases.seal(b"")[:6]))
    assert leases.mac(octets) != CURSORS.mac(octets)


def test_a_token_of_another_secret_is_foreign() -> None:
    other = Seal(b"other", Purpose.CURSOR)
    with pytest.raises(Foreign):
        CURSORS.open(other.seal(b"x"))
    with pytest.raises(Foreign):
        CURSORS.reveal(other.hide(b"x"))


@given(st.binary(max_size=100), st.binary(max_size=200))
def test_the_seal_is_an_hmac(secret: bytes, plain: bytes) -> None:
    seal = Seal(secret, Purpose.LEASE)
    key = hmac.digest(secret, b"amqp-gateway LEASE seal\x01", "sha256")
    assert seal.mac(plain) == hmac.digest(key, plain, "sha256")[:16]


def test_one_token_has_one_spelling() -> None:
    text = CURSORS.seal(b"xy").decode()
    for other in (text + "=", text + "\n", " " + text, text[:-1] + chr(ord(text[-1]) + 1)):
        with pytest.raises(Forged):
            CURSORS.open(other)


def test_hidden_contents_do_not_show() -> None:
    assert CURSORS.hide(b"secret name") != CURSORS.hide(b"secret name")
    assert CURSORS.seal(b"x") == CURSORS.seal(b"x")

"""One broker per test. Password hashing is made cheap, it has its own tests."""

import pytest

from gateway.broker import access
from tests.broker.fakes import House


@pytest.fixture(autouse=True, scope="session")
def cheap_passwords() -> None:
    access.Access.__init__.__defaults__ = (4096,)


@pytest.fixture
def house() -> House:
    return House()

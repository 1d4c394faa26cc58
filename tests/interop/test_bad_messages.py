"""RabbitMQ ends the channel of a facade over a message: only the publisher of that notices."""

from collections.abc import Iterator

import pytest

from gateway.adapters.methods.content import BASIC
from gateway.message import Message, Properties
from gateway.operations import DeclareQueue
from tests.bridge.test_bad_messages import Offence, fates, offend_others, to_a_lost_exchange
from tests.bridge.test_facade import entered, message
from tests.interop import servers
from tests.interop.servers import Server, rabbitmqctl

pytestmark = pytest.mark.interop


@pytest.fixture(scope="module")
def front(rabbitmq: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = servers.start_facade(tmp_path_factory.mktemp("front"), rabbitmq)
    try:
        yield server
        assert "Traceback" not in server.log.read_text()
    finally:
        server.stop()


async def with_bad_headers(front: int, rabbitmq: int) -> None:
    """RabbitMQ takes no header CC but a list, and its reason names no exchange."""
    remote = await entered(front)
    await remote.request(DeclareQueue(1, None, "others", durable=True))
    messages = [bad(n) if n % 5 == 2 else message(n, "others") for n in range(20)]
    assert await fates(remote, messages) == [n % 5 != 2 for n in range(20)]
    await remote.close()


def bad(n: int) -> Message:
    header = BASIC.write(Properties(application={"n": n, "CC": "others"}))
    return Message(BASIC, header, b"bad", "", "others", BASIC.essentials(header))


def connections(rabbitmq: Server) -> set[str]:
    """The ports of those that are the facade's: the others have gone."""
    known = rabbitmqctl(rabbitmq, "list_connections", "peer_port", "client_properties")
    return {line.split()[0] for line in known.splitlines() if "facade" in line}


@pytest.mark.parametrize("offend", [to_a_lost_exchange, with_bad_headers])
def test_only_its_publisher_notices(rabbitmq: Server, front: Server, offend: Offence) -> None:
    before = connections(rabbitmq)
    assert len(before) == 2
    offend_others(front, rabbitmq.port, offend, lambda: connections(rabbitmq))

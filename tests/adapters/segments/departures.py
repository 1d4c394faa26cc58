"""Probes of what the documents say 0-10 does not do as its definition has it
(``test_departures``)."""

from collections.abc import Callable

from gateway.adapters.segments import operations as ops
from gateway.adapters.segments.encoding import write_array, write_map
from gateway.adapters.segments.frames import command
from gateway.adapters.segments.wire import layouts as w
from gateway.values import CodedOctets, TypedArray
from tests.adapters.segments.serving import Client, names
from tests.adapters.segments.test_resumption import bodies, connected, kept, resumed, subscribed
from tests.adapters.segments.test_server import exception

STRUCT32 = 0xAB


def files_and_streams() -> None:
    for record in (w.FileQos(), w.StreamQos()):
        assert exception(Client().open().say(record)).error_code == 540


def resume_from_zero() -> None:
    """The first half of a body has come when the connection is lost: the client is told to begin
    anew."""
    client = kept()
    properties = w.DeliveryProperties(routing_key="q", resume_id="body")
    header = ops.coded(0x0401, w.write_delivery_properties(properties))
    transfer = ops.write_command(w.MessageTransfer(), True)
    octets = command(1, transfer, header, bytes(8000), 4096)
    assert client.served.octets(octets[:5000]) == b""
    client.served.lose()
    other = connected(client)
    resumed(other, 0)
    other.control(1, w.SessionCommandPoint(1, 0))
    (result,) = [
        each.record
        for each in other.say(w.MessageResume("", "body"))
        if each.name == "execution.result"
    ]
    assert ops.read_struct(result.value) == w.MessageResumeResult(0)


def confirmed() -> None:
    """The client has confirmed a transfer and does not expect it; it can have it again all the
    same."""
    client = kept()
    subscribed(client)
    client.transfer("q", b"x")
    client.control(1, w.SessionConfirmed(((0, 0),)))
    client.served.lose()
    assert bodies(resumed(connected(client), 0)) == [b"x"]


def explicit_accepts() -> None:
    client = kept()
    subscribed(client, accept=1)
    assert names(client.say(w.TxSelect())) == ["session.completed"]


def unknown_arguments() -> None:
    client = Client().open()
    arguments = write_map({"never-heard-of": 1})
    said = client.say(
        w.QueueDeclare("q", arguments=arguments),
        w.ExchangeDeclare("e", "direct", arguments=arguments),
        w.QueueQuery("q"),
        w.ExchangeQuery("e"),
    )
    results = [ops.read_struct(each.record.value) for each in said if "result" in each.name]
    assert [each.arguments for each in results] == [arguments] * 2


def headers_without_match() -> None:
    client = Client().open()
    arguments = write_map({"a": 1, "b": 2})
    client.say(w.QueueDeclare("q"))
    said = client.say(w.ExchangeBind("q", "amq.match", "k", arguments))
    assert names(said) == ["session.completed"]
    for headers, count in (({"a": 1}, 0), ({"a": 1, "b": 2}, 1)):
        properties = w.MessageProperties(application_headers=write_map(headers))
        header = ops.coded(0x0403, w.write_message_properties(properties))
        transfer = ops.write_command(w.MessageTransfer("amq.match"), True)
        client.served.receive(command(1, transfer, header, b""))
        assert client.served.broker.vhosts["/"].queues["q"].depth == count


def whole_commands() -> None:
    """The client has octets of the transfer, and says so: it gets all of it."""
    client = kept()
    subscribed(client)
    client.transfer("q", b"x" * 100)
    client.served.lose()
    other = connected(client)
    other.control(1, w.SessionAttach(b"test"))
    fragment = w.write_command_fragment(w.CommandFragment(0, ((0, 49),)))
    fragments = write_array(TypedArray([CodedOctets(fragment, STRUCT32)], STRUCT32))
    said = other.control(1, w.SessionExpected(((1, 1),), fragments))
    (point,) = [each.record for each in said if each.name == "session.command-point"]
    assert not point.command_offset and bodies(said) == [b"x" * 100]


PROBES: dict[str, Callable[[], None]] = {
    probe.__name__.replace("_", "-"): probe
    for probe in (
        files_and_streams,
        resume_from_zero,
        confirmed,
        explicit_accepts,
        unknown_arguments,
        headers_without_match,
        whole_commands,
    )
}
"""By the names in the table."""

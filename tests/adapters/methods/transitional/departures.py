"""Probes of what the documents say is not done as the definition has it (``test_departures``)."""

from collections.abc import Callable
from typing import Any

from gateway.adapters.methods.transitional import branches, types
from gateway.adapters.methods.transitional.versions import Carried
from gateway.adapters.methods.wire import layouts_0_10_07 as w
from gateway.operations import Xid
from tests.adapters.methods.transitional.serving import Client, Said
from tests.adapters.methods.transitional.test_server import (
    NEWER,
    OLDER,
    body_of,
    consuming,
    inline,
    messages_in,
    names,
    published,
    ready,
)

BOTH = (OLDER, NEWER)
XID = branches.write_xid(Xid(0, b"x"))


def only(said: list[Said]) -> Any:
    (item,) = said
    return item.record


def letters(version: str) -> None:
    client = ready(version)
    numbers = b"\x01n\x21\0\0\0\x07"
    client.say(1, w.MessageTransfer(routing_key="q", application_headers=numbers, body=inline(b"")))
    assert only(consuming(client)).application_headers == b"\x01nI\0\0\0\x07"


def identifiers(version: str) -> None:
    client = Client(version).open()
    for number in (99, 99, 5):
        octets = client.encoded(1, w.ExecutionFlush(), Carried(False, number, 77, 0))
        assert names(client.served.receive(octets)) == ["execution.complete"]


def frame_max(version: str) -> None:
    client = ready(version)
    body = bytes(5000)
    assert client.served.adapter.frame_max == 4096
    published(client, body)
    assert client.served.session.channels[1].browse("q")[0].message.body == body


def close_ok(version: str) -> None:
    client = Client(version).open()
    client.say(1, w.QueueDeclare(queue="none", passive=True))
    client.restarted(1)
    assert names(client.say(1, w.ChannelOpen())) == ["channel.open-ok"]


def long_uuid(version: str) -> None:
    client = Client(version).open()
    attached = only(client.say(5, w.SessionOpen()))
    written = client.table.by_record[w.SessionAttached].write(attached)
    assert written[:4] == (16).to_bytes(4, "big")


def tickets(version: str) -> None:
    client = Client(version).open()
    assert names(client.say(1, w.QueueDeclare(77, "q"))) == ["queue.declare-ok"]


def exclusive_auto_delete(version: str) -> None:
    client = Client(version).open()
    client.say(1, w.QueueDeclare(queue="q", exclusive=True, auto_delete=True))
    consuming(client)
    client.say(1, w.MessageCancel("d"))
    assert "q" in client.served.broker.vhosts["/"].queues
    client.served.lose()
    assert "q" not in client.served.broker.vhosts["/"].queues


def priorities(version: str) -> None:
    client = ready(version)
    for body, priority in ((b"low", 0), (b"high", 9)):
        client.say(1, w.MessageTransfer(routing_key="q", priority=priority, body=inline(body)))
    assert [body_of(said).octets for said in consuming(client)] == [b"low", b"high"]


def recover_in_tx(version: str) -> None:
    client = ready(version)
    client.say(1, w.TxSelect())
    published(client, b"x")
    client.say(1, w.TxCommit())
    assert len(consuming(client)) == 1
    assert only(client.say(1, w.MessageRecover(True))).redelivered


def timestamp(version: str) -> None:
    client = ready(version)
    client.say(1, w.MessageTransfer(routing_key="q", ttl=60_000, body=inline(b"")))
    transfer = only(consuming(client))
    assert (transfer.timestamp, transfer.expiration) == (0, 0)


def reject_code(version: str) -> None:
    client = ready(version)
    body = inline(b"")
    for lost, code in (
        (w.MessageTransfer(routing_key="none", reject_unroutable=True, body=body), 312),
        (w.MessageTransfer(routing_key="q", immediate=True, body=body), 313),
    ):
        said = client.say(1, lost)
        if version == OLDER:
            assert only(said).code == code
        else:
            assert said == [], "27 July has no way to say it"


def xa_ok(version: str) -> None:
    client = Client(version).open()
    client.say(1, w.DtxDemarcationSelect())
    assert only(client.say(1, w.DtxDemarcationStart(xid=XID))).status == 8


def prepared(version: str) -> Client:
    client = Client(version).open()
    client.say(1, w.DtxDemarcationSelect())
    client.say(1, w.DtxDemarcationStart(xid=XID))
    client.say(1, w.DtxDemarcationEnd(xid=XID))
    client.say(1, w.DtxCoordinationPrepare(xid=XID))
    return client


def text_of_xids(version: str) -> None:
    in_doubt = only(prepared(version).say(1, w.DtxCoordinationRecover(startscan=True))).in_doubt
    (text,) = types.read_table(in_doubt).values()
    assert text.encode() == bytes((len(XID),)) + XID


def recover_without_scan(version: str) -> None:
    said = prepared(version).say(1, w.DtxCoordinationRecover())
    assert names(said) == ["dtx-coordination.recover-ok"]


def tune(version: str) -> None:
    client = Client(version)
    client.served.receive(client.table.header)
    client.answer(0, w.ConnectionStartOk(b"", "PLAIN", b"\0guest\0guest", "en_US"), 1)
    client.answer(0, w.ConnectionTuneOk(65535, 1 << 31, 0), 2)
    assert names(client.say(0, w.ConnectionOpen("/"))) == ["connection.open-ok"]
    assert client.served.adapter.frame_max == 65536


def exchange(client: Client, name: str, alternate: str = "") -> None:
    record = w.ExchangeDeclare(
        exchange=name, type="direct", alternate_exchange=alternate, auto_delete=True
    )
    assert not [said for said in client.say(1, record) if said.name.endswith(".close")]


def bound(client: Client, queue: str, to: str, key: str = "k") -> list[Said]:
    return client.say(1, w.QueueBind(queue=queue, exchange=to, routing_key=key))


def second_alternate(version: str) -> None:
    client = ready(version)
    bound(client, "q", "amq.fanout")
    exchange(client, "second", "amq.fanout")
    exchange(client, "first", "second")
    client.say(1, w.MessageTransfer(destination="first", routing_key="k", body=inline(b"")))
    assert messages_in(client) == 1


def durable_to_transient(version: str) -> None:
    client = Client(version).open()
    client.say(1, w.QueueDeclare(queue="q", durable=True))
    exchange(client, "transient")
    bound(client, "q", "transient")
    assert client.served.broker.vhosts["/"].exchanges["transient"].bindings


def bind_fails(version: str) -> None:
    closed = only(bound(Client(version).open(), "none", "amq.direct"))
    assert isinstance(closed, w.ChannelClose) and closed.reply_code == 404


def default_exchange(version: str) -> None:
    client = ready(version)
    bound(client, "q", "")
    assert client.served.broker.vhosts["/"].exchanges[""].bindings


def any_names(version: str) -> None:
    client = Client(version).open()
    exchange(client, "e/\u00e9 #")
    client.say(1, w.QueueDeclare(queue="q/\u00e9 #"))
    assert "q/\u00e9 #" in client.served.broker.vhosts["/"].queues


def delivered_again(client: Client, times: int) -> None:
    """A message is rejected with requeue as often as this, and delivered to the same client."""
    published(client, b"x")
    (said,) = [s for s in client.say(1, w.BasicConsume(queue="q")) if s.name == "basic.deliver"]
    for _ in range(times):
        answers = client.say(1, w.BasicReject(said.record.delivery_tag, True))
        (said,) = [each for each in answers if each.name == "basic.deliver"]
        assert said.record.redelivered


def rejected_again(version: str) -> None:
    delivered_again(ready(version), 1)


def five_deliveries(version: str) -> None:
    delivered_again(ready(version), 12)


def of_both(probe: Callable[[str], None]) -> Callable[[str], None]:
    def tried(_: str) -> None:
        for version in BOTH:
            probe(version)

    return tried


PROBES = {
    probe.__name__.replace("_", "-"): of_both(probe)
    for probe in (
        letters, identifiers, frame_max, close_ok, long_uuid, tickets,
        exclusive_auto_delete, priorities, recover_in_tx, timestamp, reject_code, xa_ok,
        text_of_xids, recover_without_scan, tune,
        second_alternate, durable_to_transient, bind_fails, default_exchange, any_names,
        rejected_again, five_deliveries,
    )
}  # fmt: skip
"""By the names in the table."""

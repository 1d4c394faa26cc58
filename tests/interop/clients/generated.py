"""Declares, publishes, receives, settles and lists with the client that openapi-python-client makes
of /openapi.json. Usage: generated.py BASE QUEUE"""

import base64
import sys
from http import HTTPStatus

from gateway_http import AuthenticatedClient
from gateway_http.api.administration import declare_queue
from gateway_http.api.messages import publish_message
from gateway_http.api.receiving import accept_delivery, receive_messages, settle_deliveries
from gateway_http.api.topology import list_queues
from gateway_http.models import (
    Deliveries,
    MessageBatch,
    MessageBody,
    NewMessage,
    ProblemDocument,
    QueueDetail,
    QueueInput,
    QueueList,
    Receipt,
    Receive,
    ReceivedMessage,
    Results,
    Settled,
    SettleItem,
    SettleItemOutcome,
    SettleResults,
)

base, queue = sys.argv[1:]
token = base64.b64encode(b"guest:guest").decode()
client = AuthenticatedClient(base_url=base, token=token, prefix="Basic")

declared = declare_queue.sync("/", queue, client=client, body=QueueInput(durable=True))
assert isinstance(declared, QueueDetail) and declared.durable, declared

message = NewMessage(body=MessageBody(json={"order": 17}), subject="created", priority=4)
answer = publish_message.sync_detailed("/", queue, client=client, body=message)
assert answer.status_code == HTTPStatus.CREATED, answer
receipt = answer.parsed
assert isinstance(receipt, Receipt) and receipt.outcome == "accepted", receipt

batch = MessageBatch(messages=[NewMessage(body="first"), NewMessage(body="second")])
results = publish_message.sync("/", queue, client=client, body=batch)
assert isinstance(results, Results) and results.accepted == 2, results

found = receive_messages.sync("/", queue, client=client, body=Receive(max_=10))
assert isinstance(found, Deliveries) and len(found.deliveries) == 3, found
first, *others = found.deliveries
assert isinstance(first.message, ReceivedMessage), first
assert first.message.body.json == {"order": 17} and first.message.subject == "created"
assert first.message.id == receipt.message_id
assert [one.message.body.text for one in others] == ["first", "second"]

settled = accept_delivery.sync("/", str(first.token), client=client)
assert isinstance(settled, Settled) and settled.outcome == "accepted", settled
items = [SettleItem(token=str(one.token), outcome=SettleItemOutcome.ACCEPTED) for one in others]
done = settle_deliveries.sync("/", client=client, body=items)
assert isinstance(done, SettleResults), done
assert [one.status for one in done.results] == [200, 200]

listed = list_queues.sync("/", client=client)
assert isinstance(listed, QueueList), listed
assert [one.messages for one in listed.queues if one.name == queue] == [0]

wrong = publish_message.sync("/", "no such queue", client=client, body=message)
assert isinstance(wrong, ProblemDocument) and wrong.type_ == "/problems/address-not-found", wrong
print("good")

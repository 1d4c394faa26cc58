"""txAMQP over AMQP 0-8 or 0-9, whichever specification INTEROP_SPEC names."""

import json
import os
import sys

import txamqp.spec
from twisted.internet import defer, protocol, reactor, task
from txamqp.client import Closed, TwistedDelegate
from txamqp.content import Content
from txamqp.protocol import AMQClient
from txamqp.queue import Empty

from tests.interop.clients import harness

HOST, PORT = harness.address()
SPEC = txamqp.spec.load(os.environ["INTEROP_SPEC"])


class Taker(TwistedDelegate):
    """Takes what is delivered in the classes stream and file too."""

    def __init__(self):
        super().__init__()
        self.delivered = defer.DeferredQueue()

    def stream_deliver(self, channel, message):
        self.delivered.put(message)

    def file_deliver(self, channel, message):
        self.delivered.put(message)

    def file_open(self, channel, message):
        self.delivered.put(message)


async def connect(user="guest", password="guest", vhost="/", mechanism="AMQPLAIN", delegate=None):
    delegate = delegate or TwistedDelegate()
    creator = protocol.ClientCreator(reactor, AMQClient, delegate, vhost, SPEC)
    client = await creator.connectTCP(HOST, PORT)
    await client.authenticate(user, password, mechanism)
    return client


async def opened(client, number=1):
    channel = await client.channel(number)
    await channel.channel_open()
    return channel


async def queue(channel, **options):
    return (await channel.queue_declare(queue=harness.unique("tx"), **options)).queue


def text(content):
    body = content.body
    return body.decode() if isinstance(body, bytes) else body


async def get():
    client = await connect(mechanism="PLAIN")
    channel = await opened(client)
    name = await queue(channel)
    content = Content("hello")
    content["content-type"] = "text/plain"
    content["headers"] = {"n": 7, "s": "x"}
    channel.basic_publish(routing_key=name, content=content)
    message = await channel.basic_get(queue=name)
    channel.basic_ack(delivery_tag=message.delivery_tag)
    empty = await channel.basic_get(queue=name)
    await channel.queue_delete(queue=name)
    await client.close(within=5)
    seen = message.content.properties
    return {
        "body": text(message.content),
        "content_type": seen["content-type"],
        "headers": seen["headers"],
        "redelivered": message.redelivered,
        "then_empty": empty.method.name == "get-empty",
    }


async def order():
    client = await connect()
    channel = await opened(client)
    name, bodies = await queue(channel), []
    tag = (await channel.basic_consume(queue=name)).consumer_tag
    for number in range(harness.MANY):
        channel.basic_publish(routing_key=name, content=Content(str(number)))
    incoming = await client.queue(tag)
    for _ in range(harness.MANY):
        message = await incoming.get(timeout=30)
        bodies.append(text(message.content))
    channel.basic_ack(delivery_tag=message.delivery_tag, multiple=True)
    await channel.basic_cancel(consumer_tag=tag)
    deleted = await channel.queue_delete(queue=name)
    await client.close(within=5)
    return {**harness.in_order(bodies), "left": deleted.message_count}


async def tx():
    client = await connect()
    channel, observer = await opened(client), await opened(client, 2)
    name, counts = await queue(channel), []
    await channel.tx_select()
    for end in (channel.tx_commit, channel.tx_rollback):
        channel.basic_publish(routing_key=name, content=Content("x"))
        await task.deferLater(reactor, 0.1, lambda: None)
        counts.append((await observer.queue_declare(queue=name, passive=True)).message_count)
        await end()
        counts.append((await observer.queue_declare(queue=name, passive=True)).message_count)
    await observer.queue_delete(queue=name)
    await client.close(within=5)
    return {"counts": counts}


async def refused(act):
    client = await connect()
    try:
        await act(await opened(client))
    except Closed as error:
        await queue(await opened(client, 2), exclusive=True)
        return {"code": error.args[0].reply_code, "alive": True}
    finally:
        await client.close(within=5)
    return {"code": None}


async def missing_queue():
    return await refused(lambda ch: ch.queue_declare(queue=harness.unique("none"), passive=True))


async def inequivalent():
    async def act(channel):
        name = await queue(channel, auto_delete=True)
        await channel.queue_declare(queue=name, auto_delete=True, durable=True)

    return await refused(act)


async def exclusive():
    owner = await connect()
    name = await queue(await opened(owner), exclusive=True)
    seen = await refused(lambda channel: channel.queue_declare(queue=name, passive=True))
    await owner.close(within=5)
    return seen


async def missing_exchange():
    async def act(channel):
        channel.basic_publish(exchange=harness.unique("none"), content=Content(""))
        await channel.queue_declare(queue="", exclusive=True)

    return await refused(act)


async def double_ack():
    async def act(channel):
        name = await queue(channel, exclusive=True)
        channel.basic_publish(routing_key=name, content=Content(""))
        tag = (await channel.basic_get(queue=name)).delivery_tag
        channel.basic_ack(delivery_tag=tag)
        channel.basic_ack(delivery_tag=tag)
        await channel.queue_declare(queue="", exclusive=True)

    return await refused(act)


async def returned():
    client = await connect()
    channel = await opened(client)
    nobody = harness.unique("nobody")
    channel.basic_publish(routing_key=nobody, mandatory=True, content=Content("come back"))
    try:
        message = await client.basic_return_queue.get(timeout=30)
    except Empty:
        return {"code": None}
    await client.close(within=5)
    return {"code": message.reply_code, "body": text(message.content)}


async def rejected(**wrong):
    try:
        client = await connect(**wrong)
    except Closed as error:
        return {"refused": True, "code": getattr(error.args[0], "reply_code", None)}
    await client.close(within=5)
    return {"refused": False}


async def bad_credentials():
    seen = await rejected(password="wrong")
    return {"refused": seen["refused"]}


async def unknown_vhost():
    return await rejected(vhost="/no-such-host")


async def stream():
    taker = Taker()
    client = await connect(delegate=taker)
    channel = await opened(client)
    name, bodies = await queue(channel), []
    await channel.stream_qos(prefetch_size=0, prefetch_count=0, consume_rate=0)
    await channel.stream_consume(queue=name, consumer_tag="s", exclusive=True)
    for body in ("one", "two"):
        content = Content(body, properties={"content-type": "video/mpeg", "priority": 3})
        channel.stream_publish(routing_key=name, content=content)
        message = await taker.delivered.get()
        bodies.append(text(message.content))
    await channel.stream_cancel(consumer_tag="s")
    left = (await channel.queue_delete(queue=name)).message_count
    await client.close(within=5)
    seen = message.content.properties
    return {
        "bodies": bodies,
        "named": message.queue == name,
        "priority": seen["priority"],
        "left": left,
    }


async def file():
    taker = Taker()
    client = await connect(delegate=taker)
    channel = await opened(client)
    name, film = await queue(channel), "0123456789" * 1000
    had = (await channel.file_open(identifier="film", content_size=len(film))).staged_size
    channel.file_stage(content=Content(film, properties={"filename": "film.mpg"}))
    channel.file_publish(routing_key=name, identifier="film")
    await channel.file_consume(queue=name, consumer_tag="f")
    offered = await taker.delivered.get()
    staged = await channel.file_open_ok(staged_size=4000)
    message = await taker.delivered.get()
    channel.file_ack(delivery_tag=message.delivery_tag)
    await channel.file_cancel(consumer_tag="f")
    left = (await channel.queue_delete(queue=name)).message_count
    await client.close(within=5)
    return {
        "had": had,
        "size": offered.content_size,
        "rest": text(staged.content) == film[4000:],
        "filename": staged.content.properties["filename"],
        "same": message.identifier == offered.identifier,
        "left": left,
    }


CHECKS = (
    stream,
    file,
    get,
    order,
    tx,
    missing_queue,
    inequivalent,
    exclusive,
    missing_exchange,
    double_ack,
    returned,
    bad_credentials,
    unknown_vhost,
)


async def everything(_):
    for check in CHECKS:
        name = check.__name__
        if sys.argv[3:] and name not in sys.argv[3:]:
            continue
        running = defer.ensureDeferred(check())
        running.addTimeout(20, reactor)
        try:
            line = {"check": name, "got": await running}
        except Exception as error:
            line = {"check": name, "error": repr(error)}
        print(json.dumps(line, default=repr), flush=True)


task.react(lambda _: defer.ensureDeferred(everything(_)))

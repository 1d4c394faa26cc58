"""aioamqp: sends the header of 0-9 and then speaks 0-9-1."""

import asyncio

import aioamqp
from aioamqp.exceptions import AmqpClosedConnection, ChannelClosed, EmptyQueue

from tests.interop.clients import harness

HOST, PORT = harness.address()


async def connect(**options):
    return await aioamqp.connect(HOST, PORT, heartbeat=0, **options)


async def get():
    transport, client = await connect()
    channel = await client.channel()
    name = harness.unique("aioamqp")
    await channel.queue_declare(name)
    properties = {"content_type": "text/plain", "headers": {"n": 7, "s": "x"}}
    await channel.basic_publish(b"hello", "", name, properties=properties)
    seen = await channel.basic_get(name)
    await channel.basic_client_ack(seen["delivery_tag"])
    try:
        await channel.basic_get(name)
        empty = False
    except EmptyQueue:
        empty = True
    await channel.queue_delete(name)
    await client.close()
    transport.close()
    return {
        "body": seen["message"].decode(),
        "content_type": seen["properties"].content_type,
        "headers": seen["properties"].headers,
        "redelivered": seen["redelivered"],
        "then_empty": empty,
    }


async def order():
    transport, client = await connect()
    channel = await client.channel()
    name, bodies, done = harness.unique("aioamqp"), [], asyncio.Event()
    await channel.queue_declare(name, exclusive=True)
    await channel.basic_qos(prefetch_count=10)

    async def received(where, body, envelope, _properties):
        bodies.append(body.decode())
        await where.basic_client_ack(envelope.delivery_tag)
        if len(bodies) == harness.MANY:
            done.set()

    await channel.basic_consume(received, name)
    for number in range(harness.MANY):
        await channel.basic_publish(str(number).encode(), "", name)
    await asyncio.wait_for(done.wait(), 30)
    await client.close()
    transport.close()
    return harness.in_order(bodies)


async def confirm():
    transport, client = await connect()
    channel = await client.channel()
    name = harness.unique("aioamqp")
    await channel.queue_declare(name, durable=True)
    await channel.confirm_select()
    for number in range(20):
        persistent = {"delivery_mode": 2}
        await channel.publish(str(number).encode(), "", name, properties=persistent)
    count = (await channel.queue_declare(name, passive=True))["message_count"]
    await channel.queue_delete(name)
    await client.close()
    transport.close()
    return {"confirmed": count}


async def refused(act):
    transport, client = await connect()
    try:
        await act(await client.channel())
    except ChannelClosed as error:
        channel = await client.channel()
        await channel.queue_declare("", exclusive=True)
        return {"code": error.code, "alive": True}
    finally:
        await client.close()
        transport.close()
    return {"code": None}


async def missing_queue():
    return await refused(lambda ch: ch.queue_declare(harness.unique("none"), passive=True))


async def inequivalent():
    async def act(channel):
        name = harness.unique("aioamqp")
        await channel.queue_declare(name, auto_delete=True)
        await channel.queue_declare(name, auto_delete=True, arguments={"x-max-length": 3})

    return await refused(act)


async def exclusive():
    transport, client = await connect()
    name = harness.unique("aioamqp")
    await (await client.channel()).queue_declare(name, exclusive=True)
    seen = await refused(lambda channel: channel.queue_declare(name, passive=True))
    await client.close()
    transport.close()
    return seen


async def bad_credentials():
    try:
        await connect(password="wrong")
    except (AmqpClosedConnection, OSError):
        return {"refused": True}
    return {"refused": False}


async def unknown_vhost():
    try:
        await connect(virtualhost="/no-such-host")
    except (AmqpClosedConnection, OSError):
        return {"refused": True}
    return {"refused": False}


CHECKS = (
    get,
    order,
    confirm,
    missing_queue,
    inequivalent,
    exclusive,
    bad_credentials,
    unknown_vhost,
)
harness.main(*CHECKS)

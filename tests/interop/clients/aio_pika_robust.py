"""aio-pika's robust connection, also through a loopback relay that is cut under it."""

import asyncio
import contextlib

import aio_pika
from aiormq import exceptions as broken

from tests.interop.clients import harness

HOST, PORT = harness.address()
URL = "amqp://%s:%s@%s:%d/%s"


def url(user="guest", password="guest", port=PORT, vhost=""):
    return URL % (user, password, HOST, port, vhost)


CODES = {
    broken.ChannelAccessRefused: 403,
    broken.ChannelNotFoundEntity: 404,
    broken.ChannelLockedResource: 405,
    broken.ChannelPreconditionFailed: 406,
}


class Relay:
    """A TCP relay to the server that can drop everybody."""

    def __init__(self):
        self.writers = []

    async def start(self):
        self.server = await asyncio.start_server(self.serve, "127.0.0.1", 0)
        return self.server.sockets[0].getsockname()[1]

    async def serve(self, reader, writer):
        there, back = await asyncio.open_connection(HOST, PORT)
        self.writers += [writer, back]
        await asyncio.gather(self.pump(reader, back), self.pump(there, writer))

    async def pump(self, reader, writer):
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        writer.close()

    def cut(self):
        for writer in self.writers:
            writer.transport.abort()
        self.writers.clear()


async def order():
    async with await aio_pika.connect_robust(url()) as connection:
        channel = await connection.channel()
        await channel.set_qos(prefetch_count=50)
        queue = await channel.declare_queue(harness.unique("aio"), auto_delete=True)
        for number in range(harness.MANY):
            await channel.default_exchange.publish(
                aio_pika.Message(str(number).encode()), queue.name
            )
        bodies = []
        async with queue.iterator(timeout=30) as messages:
            async for message in messages:
                async with message.process():
                    bodies.append(message.body.decode())
                if len(bodies) == harness.MANY:
                    break
        return harness.in_order(bodies)


async def tx():
    async with await aio_pika.connect(url()) as connection:
        channel = await connection.channel(publisher_confirms=False)
        observer = await connection.channel()
        queue = await channel.declare_queue(harness.unique("aio"))
        counts = []

        async def count():
            seen = await observer.declare_queue(queue.name, passive=True)
            counts.append(seen.declaration_result.message_count)

        async with channel.transaction():
            await channel.default_exchange.publish(aio_pika.Message(b"kept"), queue.name)
            await count()
        await count()
        with contextlib.suppress(ZeroDivisionError):
            async with channel.transaction():
                await channel.default_exchange.publish(aio_pika.Message(b"lost"), queue.name)
                raise ZeroDivisionError
        await count()
        await queue.delete(if_empty=False)
        return {"counts": counts}


async def reconnect():
    """Cut the wire under a consumer: the client must find its queue and consumer again."""
    relay = Relay()
    port = await relay.start()
    connection = await aio_pika.connect_robust(url(port=port), reconnect_interval=0.2)
    channel = await connection.channel()
    queue = await channel.declare_queue(harness.unique("aio"), durable=True)
    seen: asyncio.Queue[object] = asyncio.Queue()

    async def received(message):
        await message.ack()
        await seen.put(message.body.decode())

    await queue.consume(received)
    bodies = []
    for body in ("before", "after"):
        async with await aio_pika.connect(url()) as other:
            there = await other.channel()
            await there.default_exchange.publish(aio_pika.Message(body.encode()), queue.name)
        bodies.append(await asyncio.wait_for(seen.get(), 30))
        if body == "before":
            relay.cut()
            await asyncio.sleep(0.1)
    await connection.close()
    relay.server.close()
    async with await aio_pika.connect(url()) as other:
        await (await other.channel()).queue_delete(queue.name)
    return {"bodies": bodies}


async def rpc():
    from aio_pika.patterns import RPC

    async def double(value):
        return value * 2

    async with await aio_pika.connect_robust(url()) as connection:
        serving = await RPC.create(await connection.channel())
        name = harness.unique("double")
        await serving.register(name, double, auto_delete=True)
        calling = await RPC.create(await connection.channel())
        answer = await asyncio.wait_for(calling.call(name, {"value": 21}), 30)
        await calling.close()
        await serving.close()
        return {"answer": answer}


async def code(act):
    async with await aio_pika.connect(url()) as connection:
        try:
            await act(await connection.channel())
        except broken.ChannelClosed as error:
            await (await connection.channel()).declare_queue(exclusive=True)
            return {"code": CODES[type(error)], "alive": True}
        return {"code": None}


def missing_queue():
    return code(lambda channel: channel.declare_queue(harness.unique("none"), passive=True))


async def inequivalent():
    async def act(channel):
        name = harness.unique("aio")
        await channel.declare_queue(name, auto_delete=True)
        await channel.declare_queue(name, auto_delete=False)

    return await code(act)


async def exclusive():
    async with await aio_pika.connect(url()) as owner:
        queue = await (await owner.channel()).declare_queue(exclusive=True)
        return await code(lambda channel: channel.declare_queue(queue.name, passive=True))


async def missing_exchange():
    async def act(channel):
        exchange = await channel.get_exchange(harness.unique("none"), ensure=False)
        await exchange.publish(aio_pika.Message(b""), "k", timeout=30)

    return await code(act)


async def returned():
    async with await aio_pika.connect(url()) as connection:
        channel = await connection.channel(on_return_raises=True)
        try:
            await channel.default_exchange.publish(
                aio_pika.Message(b"come back"), harness.unique("nobody"), mandatory=True
            )
        except aio_pika.exceptions.DeliveryError as error:
            delivery = error.message.delivery
            return {"code": delivery.reply_code, "text": delivery.reply_text}
        return {"code": None}


async def bad_credentials():
    try:
        await (await aio_pika.connect(url(password="wrong"))).close()
    except broken.ProbableAuthenticationError:
        return {"refused": True}
    return {"refused": False}


async def unknown_vhost():
    try:
        await (await aio_pika.connect(url(vhost="no-such-host"))).close()
    except broken.AMQPError as error:  # which one depends on the version of aiormq
        return {"refused": not isinstance(error, broken.ProbableAuthenticationError)}
    return {"refused": False}


CHECKS = (
    order,
    tx,
    reconnect,
    rpc,
    missing_queue,
    inequivalent,
    exclusive,
    missing_exchange,
    returned,
    bad_credentials,
    unknown_vhost,
)
harness.main(*CHECKS)

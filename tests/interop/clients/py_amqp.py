"""py-amqp: the client under kombu and Celery."""

import time

import amqp

from tests.interop.clients import harness

HOST, PORT = harness.address()


def connect(**options):
    settings = {"userid": "guest", "password": "guest", "virtual_host": "/", **options}
    connection = amqp.Connection(f"{HOST}:{PORT}", **settings, connect_timeout=30)
    connection.connect()
    return connection


def queue(channel, **options):
    return channel.queue_declare(harness.unique("amqp"), **options).queue


def drained(connection, seconds=0.5):
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        try:
            connection.drain_events(timeout=left)
        except TimeoutError:
            return


def refused(act):
    with connect() as connection:
        try:
            act(connection.channel())
            drained(connection, 30)  # up to the refusal
        except amqp.exceptions.ChannelError as error:
            queue(connection.channel(), exclusive=True)
            return {"code": error.reply_code, "alive": True}
        return {"code": None}


def get():
    with connect() as connection:
        channel = connection.channel()
        name = queue(channel)
        headers = {"n": 7, "s": "x", "deep": {"list": [1, "two", None, True]}}
        sent = amqp.Message(
            "hello",
            content_type="text/plain",
            correlation_id="c-1",
            application_headers=headers,
        )
        channel.basic_publish_confirm(sent, routing_key=name)
        message = channel.basic_get(name)
        channel.basic_ack(message.delivery_tag)
        seen = {
            "body": message.body,
            "content_type": message.content_type,
            "correlation_id": message.properties["correlation_id"],
            "headers": message.headers,
            "redelivered": message.delivery_info["redelivered"],
            "then_empty": channel.basic_get(name) is None,
        }
        channel.queue_delete(name)
        return seen


def order():
    with connect() as connection:
        channel = connection.channel()
        name, bodies = queue(channel, exclusive=True), []

        def received(message):
            bodies.append(message.body)
            channel.basic_ack(message.delivery_tag)

        channel.basic_consume(name, callback=received)
        for number in range(harness.MANY):
            channel.basic_publish(amqp.Message(str(number)), routing_key=name)
        while len(bodies) < harness.MANY:
            connection.drain_events(timeout=30)
        return harness.in_order(bodies)


def large():
    with connect() as connection:
        channel = connection.channel()
        name = queue(channel, exclusive=True)
        channel.basic_publish_confirm(amqp.Message(harness.large_body()), routing_key=name)
        return harness.same_large(channel.basic_get(name, no_ack=True).body)


def tx():
    with connect() as connection:
        channel, observer = connection.channel(), connection.channel()
        name, counts = queue(channel), []
        channel.tx_select()
        for end in (channel.tx_commit, channel.tx_rollback):
            channel.basic_publish(amqp.Message("x"), routing_key=name)
            counts.append(observer.queue_declare(name, passive=True).message_count)
            end()
            counts.append(observer.queue_declare(name, passive=True).message_count)
        observer.queue_delete(name)
        return {"counts": counts}


def missing_queue():
    return refused(lambda channel: channel.queue_declare(harness.unique("none"), passive=True))


def inequivalent():
    def act(channel):
        channel.queue_declare(queue(channel, auto_delete=True), auto_delete=True, durable=True)

    return refused(act)


def exclusive():
    with connect() as owner:
        name = queue(owner.channel(), exclusive=True)
        return refused(lambda channel: channel.basic_get(name))


def missing_exchange():
    return refused(lambda ch: ch.basic_publish(amqp.Message(""), harness.unique("none"), "k"))


def double_ack():
    def act(channel):
        name = queue(channel, exclusive=True)
        channel.basic_publish_confirm(amqp.Message(""), routing_key=name)
        tag = channel.basic_get(name).delivery_tag
        channel.basic_ack(tag)
        channel.basic_ack(tag)

    return refused(act)


def returned():
    with connect() as connection:
        channel, back = connection.channel(), []
        channel.events["basic_return"].add(lambda *args: back.append(args[:2]))
        channel.basic_publish(amqp.Message(""), "", harness.unique("nobody"), mandatory=True)
        while not back:
            connection.drain_events(timeout=30)
        error = back[0][0]
        return {"code": error.reply_code if hasattr(error, "reply_code") else error}


def bad_credentials():
    try:
        connect(password="wrong").close()
    except amqp.exceptions.AccessRefused as error:
        return {"refused": True, "code": error.reply_code}
    return {"refused": False}


def unknown_vhost():
    try:
        connect(virtual_host="/no-such-host").close()
    except amqp.exceptions.NotAllowed as error:
        return {"refused": True, "code": error.reply_code}
    return {"refused": False}


def heartbeat():
    with connect(heartbeat=1) as connection:
        for _ in range(8):
            time.sleep(0.5)
            connection.heartbeat_tick()
            drained(connection, 0.01)
        queue(connection.channel(), exclusive=True)
        return {"alive": True, "negotiated": connection.heartbeat}


CHECKS = (
    get,
    order,
    large,
    tx,
    heartbeat,
    missing_queue,
    inequivalent,
    exclusive,
    missing_exchange,
    double_ack,
    returned,
    bad_credentials,
    unknown_vhost,
)
harness.main(*CHECKS)

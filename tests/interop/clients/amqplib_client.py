"""Debian's python3-amqplib: AMQP 0-8 from 2007, with its own 1 1 9 1 protocol header."""

from amqplib import client_0_8 as amqp

from tests.interop.clients import harness

HOST, PORT = harness.address()


def connect(**options):
    settings = {"userid": "guest", "password": "guest", "virtual_host": "/"}
    settings.update(options)
    return amqp.Connection(host=f"{HOST}:{PORT}", **settings)


def queue(channel, **options):
    options.setdefault("auto_delete", False)
    return channel.queue_declare(harness.unique("amqplib"), **options)[0]


def refused(act):
    connection = connect()
    try:
        act(connection.channel())
    except amqp.AMQPChannelException as error:
        queue(connection.channel(), exclusive=True)
        return {"code": error.amqp_reply_code, "alive": True}
    finally:
        connection.close()
    return {"code": None}


def get():
    connection = connect(login_method="PLAIN", login_response="\0guest\0guest")
    channel = connection.channel()
    name = queue(channel)
    headers = {"n": 7, "s": "x"}
    message = amqp.Message("hello", content_type="text/plain", application_headers=headers)
    channel.basic_publish(message, routing_key=name)
    seen = channel.basic_get(name)
    channel.basic_ack(seen.delivery_info["delivery_tag"])
    empty = channel.basic_get(name) is None
    channel.queue_delete(name)
    connection.close()
    return {
        "body": seen.body,
        "content_type": seen.content_type,
        "headers": seen.application_headers,
        "redelivered": bool(seen.delivery_info["redelivered"]),
        "then_empty": empty,
    }


def order():
    connection = connect()
    channel = connection.channel()
    exchange, name, bodies = harness.unique("amqplib"), queue(channel), []
    channel.access_request("/data", active=True, read=True, write=True)
    channel.exchange_declare(exchange, "topic", auto_delete=False)
    channel.queue_bind(name, exchange, "numbers.*")

    def received(message):
        bodies.append(message.body)
        channel.basic_ack(message.delivery_info["delivery_tag"])

    channel.basic_consume(name, callback=received)
    for number in range(harness.MANY):
        channel.basic_publish(amqp.Message(str(number)), exchange, "numbers.next")
    while len(bodies) < harness.MANY:
        channel.wait()
    channel.exchange_delete(exchange)
    channel.queue_delete(name)
    connection.close()
    return harness.in_order(bodies)


def large():
    connection = connect()
    channel = connection.channel()
    name = queue(channel)
    body = harness.large_body()
    channel.basic_publish(amqp.Message(body, content_encoding="binary"), routing_key=name)
    seen = channel.basic_get(name, no_ack=True).body
    channel.queue_delete(name)
    connection.close()
    return harness.same_large(seen)


def tx():
    connection = connect()
    channel, observer = connection.channel(), connection.channel()
    name, counts = queue(channel), []
    channel.tx_select()
    for end in (channel.tx_commit, channel.tx_rollback):
        channel.basic_publish(amqp.Message("x"), routing_key=name)
        counts.append(observer.queue_declare(name, passive=True)[1])
        end()
        counts.append(observer.queue_declare(name, passive=True)[1])
    observer.queue_delete(name)
    connection.close()
    return {"counts": counts}


def missing_queue():
    return refused(lambda channel: channel.queue_declare(harness.unique("none"), passive=True))


def inequivalent():
    def act(channel):
        name = queue(channel, auto_delete=True)
        channel.queue_declare(name, auto_delete=True, durable=True)

    return refused(act)


def exclusive():
    owner = connect()
    name = queue(owner.channel(), exclusive=True)
    seen = refused(lambda channel: channel.queue_declare(name, passive=True))
    owner.close()
    return seen


def missing_exchange():
    def act(channel):
        channel.basic_publish(amqp.Message(""), harness.unique("none"), "k")
        queue(channel, exclusive=True)

    return refused(act)


def double_ack():
    def act(channel):
        name = queue(channel, exclusive=True)
        channel.basic_publish(amqp.Message(""), routing_key=name)
        tag = channel.basic_get(name).delivery_info["delivery_tag"]
        channel.basic_ack(tag)
        channel.basic_ack(tag)
        queue(channel, exclusive=True)

    return refused(act)


def returned():
    connection = connect()
    channel = connection.channel()
    nobody = harness.unique("nobody")
    channel.basic_publish(amqp.Message("come back"), routing_key=nobody, mandatory=True)
    queue(channel, exclusive=True)
    code, text, _, _, message = channel.returned_messages.get(timeout=30)
    connection.close()
    return {"code": code, "text": text, "body": message.body}


def bad_credentials():
    try:
        connect(password="wrong").close()
    except (amqp.AMQPException, OSError):
        return {"refused": True}
    return {"refused": False}


def unknown_vhost():
    try:
        connect(virtual_host="/no-such-host").close()
    except amqp.AMQPConnectionException as error:
        return {"refused": True, "code": error.amqp_reply_code}
    return {"refused": False}


CHECKS = (
    get,
    order,
    large,
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
harness.main(*CHECKS)

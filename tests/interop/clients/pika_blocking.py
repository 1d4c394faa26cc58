"""pika's BlockingConnection: publish, consume, confirm, transact, and be told off."""

import pika
from pika import exceptions as broken

from tests.interop.clients import harness

HOST, PORT = harness.address()


def connect(user="guest", password="guest", vhost="/"):
    return pika.BlockingConnection(
        pika.ConnectionParameters(
            HOST,
            PORT,
            vhost,
            pika.PlainCredentials(user, password),
            heartbeat=0,
            blocked_connection_timeout=10,
            socket_timeout=10,
            connection_attempts=1,
        )
    )


def queue(channel, **options):
    name = harness.unique("pika")
    channel.queue_declare(name, **options)
    return name


def alive(connection):
    """The connection still opens channels and declares."""
    channel = connection.channel()
    channel.queue_delete(queue(channel))
    return True


def drain(channel, name):
    """How many messages a queue gives up."""
    count = 0
    while channel.basic_get(name, auto_ack=True)[0] is not None:
        count += 1
    return count


def refused(act):
    """Run act(connection, channel); report the channel's reply code and whether all else lives."""
    connection = connect()
    try:
        act(connection, connection.channel())
    except broken.ChannelClosedByBroker as closed:
        return {"code": closed.reply_code, "alive": alive(connection)}
    finally:
        connection.close()
    return {"code": None, "alive": True}


def get():
    connection = connect()
    channel = connection.channel()
    name = queue(channel)
    properties = pika.BasicProperties(
        content_type="text/plain",
        correlation_id="c-1",
        delivery_mode=2,
        headers={"n": 7, "s": "x", "deep": {"list": [1, "two", None, True]}},
    )
    channel.basic_publish("", name, b"hello", properties)
    method, seen, body = channel.basic_get(name)
    channel.basic_ack(method.delivery_tag)
    empty = channel.basic_get(name)[0] is None
    channel.queue_delete(name)
    connection.close()
    return {
        "body": body.decode(),
        "content_type": seen.content_type,
        "correlation_id": seen.correlation_id,
        "headers": seen.headers,
        "redelivered": method.redelivered,
        "then_empty": empty,
    }


def order():
    connection = connect()
    channel = connection.channel()
    name = queue(channel)
    for number in range(harness.MANY):
        channel.basic_publish("", name, str(number).encode())
    bodies = []
    for method, _, body in channel.consume(name, inactivity_timeout=30):
        if method is None:
            break
        bodies.append(body.decode())
        channel.basic_ack(method.delivery_tag)
        if len(bodies) == harness.MANY:
            break
    channel.cancel()
    left = channel.queue_declare(name, passive=True).method.message_count
    channel.queue_delete(name)
    connection.close()
    return {**harness.in_order(bodies), "left": left}


def large():
    connection = connect()
    channel = connection.channel()
    name = queue(channel)
    channel.basic_publish("", name, harness.large_body())
    body = channel.basic_get(name, auto_ack=True)[2]
    channel.basic_publish("", name, b"")
    empty = channel.basic_get(name, auto_ack=True)[2]
    channel.queue_delete(name)
    connection.close()
    return {**harness.same_large(body), "empty": len(empty)}


def confirm():
    connection = connect()
    channel = connection.channel()
    name = queue(channel, durable=True)
    channel.confirm_delivery()
    persistent = pika.BasicProperties(delivery_mode=2)
    for number in range(20):
        channel.basic_publish("", name, str(number).encode(), persistent, mandatory=True)
    count = channel.queue_declare(name, durable=True, passive=True).method.message_count
    try:
        channel.basic_publish("", harness.unique("nobody"), b"", mandatory=True)
        unroutable = None
    except broken.UnroutableError as error:
        unroutable = error.messages[0].method.reply_code
    channel.queue_delete(name)
    connection.close()
    return {"confirmed": count, "unroutable": unroutable}


def tx():
    connection = connect()
    channel, observer = connection.channel(), connection.channel()
    name = queue(channel)
    channel.tx_select()
    seen = []

    def count():
        return observer.queue_declare(name, passive=True).method.message_count

    for _ in range(3):
        channel.basic_publish("", name, b"in a transaction")
    seen.append(count())
    channel.tx_commit()
    seen.append(count())
    channel.basic_publish("", name, b"never")
    channel.tx_rollback()
    seen.append(count())
    method = channel.basic_get(name)[0]
    channel.basic_ack(method.delivery_tag)
    channel.tx_rollback()
    channel.basic_ack(method.delivery_tag)
    channel.tx_commit()
    channel.close()
    seen.append(count())
    observer.queue_delete(name)
    connection.close()
    return {"counts": seen}


def requeue():
    connection = connect()
    channel = connection.channel()
    name = queue(channel)
    channel.basic_publish("", name, b"again")
    flags = []
    for _ in range(2):
        method = channel.basic_get(name)[0]
        flags.append(method.redelivered)
        channel.basic_nack(method.delivery_tag, requeue=True)
    method = channel.basic_get(name)[0]
    channel.basic_reject(method.delivery_tag, requeue=False)
    gone = channel.basic_get(name)[0] is None
    channel.queue_delete(name)
    connection.close()
    return {"redelivered": flags, "gone": gone}


def qos():
    connection = connect()
    channel = connection.channel()
    name = queue(channel)
    for number in range(5):
        channel.basic_publish("", name, str(number).encode())
    channel.basic_qos(prefetch_count=2)
    tags = []
    channel.basic_consume(name, lambda _c, method, _p, _b: tags.append(method.delivery_tag))
    connection.process_data_events(0.5)
    seen = [len(tags)]
    channel.basic_ack(tags[-1], multiple=True)
    connection.process_data_events(0.5)
    seen.append(len(tags))
    connection.close()
    other = connect()
    left = other.channel().queue_delete(name).method.message_count
    other.close()
    return {"delivered": seen, "left": left}


def routing():
    connection = connect()
    channel = connection.channel()
    got = {}
    for kind, bindings, sent in (
        ("direct", [("k", None)], [("k", None), ("j", None)]),
        ("fanout", [("", None)], [("k", None), ("j", None)]),
        ("topic", [("a.*.c", None), ("#.z", None)], [("a.b.c", None), ("z", None), ("a.c", None)]),
        (
            "headers",
            [("", {"x-match": "all", "a": 1, "b": "two"})],
            [("", {"a": 1, "b": "two", "c": 3}), ("", {"a": 1})],
        ),
    ):
        exchange, name = harness.unique(kind), queue(channel)
        channel.exchange_declare(exchange, kind)
        for key, arguments in bindings:
            channel.queue_bind(name, exchange, key, arguments)
        for key, headers in sent:
            channel.basic_publish(exchange, key, b"", pika.BasicProperties(headers=headers))
        got[kind] = drain(channel, name)
        channel.exchange_delete(exchange)
        channel.queue_delete(name)
    connection.close()
    return got


def extensions():
    """RabbitMQ's additions that pika users take for granted."""
    connection = connect()
    channel = connection.channel()
    dead, exchange = queue(channel), harness.unique("alternate")
    letters = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead}
    name = queue(channel, arguments={**letters, "x-max-priority": 5, "x-message-ttl": 60000})
    for level in (1, 5, 3):
        properties = pika.BasicProperties(priority=level)
        channel.basic_publish("", name, str(level).encode(), properties)
    priorities = []
    for _ in range(3):
        method, _, body = channel.basic_get(name)
        priorities.append(body.decode())
        channel.basic_nack(method.delivery_tag, requeue=False)
    channel.basic_publish("", name, b"short", pika.BasicProperties(expiration="50"))
    reasons = []
    for _ in range(300):
        method, properties, _ = channel.basic_get(dead, auto_ack=True)
        if method is not None:
            reasons.append(properties.headers["x-death"][0]["reason"])
        elif len(reasons) < 4:
            connection.sleep(0.1)
        else:
            break
    source = harness.unique("source")
    channel.exchange_declare(exchange, "fanout")
    channel.exchange_declare(source, "direct", arguments={"alternate-exchange": exchange})
    channel.queue_bind(dead, exchange)
    channel.basic_publish(source, "nobody", b"rerouted")
    rerouted = channel.basic_get(dead, auto_ack=True)[2]
    channel.exchange_bind(exchange, source, "bound")
    channel.basic_publish(source, "bound", b"exchange to exchange")
    bound = channel.basic_get(dead, auto_ack=True)[2]
    cancelled = []
    channel.basic_consume(name, lambda *_: None)
    channel.add_on_cancel_callback(lambda frame: cancelled.append(frame.method.NAME))
    connection.channel().queue_delete(name)
    for _ in range(30):
        if not cancelled:
            connection.process_data_events(1)
    for each in (exchange, source):
        channel.exchange_delete(each)
    channel.queue_delete(dead)
    connection.close()
    return {
        "priorities": priorities,
        "reasons": sorted(reasons),
        "alternate": rerouted.decode() if rerouted else None,
        "exchange_bind": bound.decode() if bound else None,
        "cancelled": cancelled,
    }


def missing_queue():
    return refused(lambda _, ch: ch.queue_declare(harness.unique("none"), passive=True))


def inequivalent():
    def act(_, channel):
        name = queue(channel, durable=False, auto_delete=True)
        channel.queue_declare(name, durable=True, auto_delete=True)

    return refused(act)


def exclusive():
    owner = connect()
    name = queue(owner.channel(), exclusive=True)
    seen = refused(lambda _, channel: channel.queue_declare(name, passive=True))
    owner.close()
    return {**seen, "then": refused(lambda _, ch: ch.queue_declare(name, passive=True))["code"]}


def missing_exchange():
    def act(connection, channel):
        channel.basic_publish(harness.unique("none"), "k", b"")
        channel.queue_declare("", exclusive=True)

    return refused(act)


def double_ack():
    def act(connection, channel):
        name = queue(channel, exclusive=True)
        channel.basic_publish("", name, b"")
        tag = channel.basic_get(name)[0].delivery_tag
        channel.basic_ack(tag)
        channel.basic_ack(tag)
        channel.queue_declare("", exclusive=True)

    return refused(act)


def reserved_name():
    return refused(lambda _, ch: ch.exchange_declare("amq.not-yours", "direct"))


def exchange_in_use():
    def act(_, channel):
        exchange, name = harness.unique("used"), queue(channel, exclusive=True)
        channel.exchange_declare(exchange, "direct", auto_delete=True)
        channel.queue_bind(name, exchange, "k")
        channel.exchange_delete(exchange, if_unused=True)

    return refused(act)


def returned():
    connection = connect()
    channel = connection.channel()
    back = []
    channel.add_on_return_callback(
        lambda _c, method, _p, body: back.append((method.reply_code, method.reply_text, body))
    )
    channel.basic_publish("", harness.unique("nobody"), b"come back", mandatory=True)
    connection.process_data_events(0.5)
    connection.close()
    code, text, body = back[0]
    return {"code": code, "text": text, "body": body.decode()}


def bad_credentials():
    try:
        connect(password="wrong").close()
    except broken.ProbableAuthenticationError as error:
        return {"refused": "403" in str(error)}
    return {"refused": False}


def unknown_vhost():
    try:
        connect(vhost="/no-such-host").close()
    except broken.ConnectionClosedByBroker as error:
        return {"refused": True, "code": error.reply_code}
    except broken.ProbableAccessDeniedError as error:
        return {"refused": True, "code": 530 if "530" in str(error) else None}
    return {"refused": False, "code": None}


harness.main(
    get,
    order,
    large,
    confirm,
    tx,
    requeue,
    qos,
    routing,
    extensions,
    missing_queue,
    inequivalent,
    exclusive,
    missing_exchange,
    double_ack,
    reserved_name,
    exchange_in_use,
    returned,
    bad_credentials,
    unknown_vhost,
)

"""kombu: producers, consumers, simple queues, and a worker mixin's habits."""

from urllib.parse import quote

import kombu
from amqp import exceptions as broken

from tests.interop.clients import harness

HOST, PORT = harness.address()


def connect(user="guest", password="guest", vhost="/", **options):
    place = f"pyamqp://{user}:{password}@{HOST}:{PORT}/{quote(vhost, safe='')}"
    return kombu.Connection(place, connect_timeout=30, **options)


def order():
    with connect(transport_options={"confirm_publish": True}) as connection:
        exchange = kombu.Exchange(harness.unique("kombu"), "topic", auto_delete=True)
        queue = kombu.Queue(harness.unique("kombu"), exchange, "numbers.#", auto_delete=True)
        bodies = []

        def take(body, message):
            bodies.append(body["n"])
            message.ack()

        with connection.Consumer(queue, callbacks=[take]):
            producer = connection.Producer(serializer="json")
            for number in range(harness.MANY):
                producer.publish({"n": str(number)}, exchange=exchange, routing_key="numbers.next")
            while len(bodies) < harness.MANY:
                connection.drain_events(timeout=30)
        return harness.in_order(bodies)


def simple():
    with connect() as connection:
        queue = connection.SimpleQueue(harness.unique("simple"))
        queue.put({"hello": "world"}, compression="zlib")
        message = queue.get(timeout=30)
        message.ack()
        payload = message.payload
        queue.close()
        queue.queue.delete()
        return {"payload": payload}


def requeue():
    with connect() as connection:
        queue = connection.SimpleQueue(harness.unique("simple"))
        queue.put("again")
        first = queue.get(timeout=30)
        first.requeue()
        second = queue.get(timeout=30)
        second.reject()
        try:
            queue.get(timeout=0.3)
            empty = False
        except queue.Empty:
            empty = True
        queue.close()
        queue.queue.delete()
        flags = [m.delivery_info["redelivered"] for m in (first, second)]
        return {"redelivered": flags, "gone": empty}


def missing_queue():
    with connect() as connection:
        try:
            kombu.Queue(harness.unique("none"), channel=connection.channel()).queue_declare(
                passive=True
            )
        except broken.NotFound as error:
            connection.default_channel.queue_declare(exclusive=True)
            return {"code": error.reply_code, "alive": True}
        return {"code": None}


def inequivalent():
    with connect() as connection:
        name = harness.unique("kombu")
        kombu.Queue(name, auto_delete=True, channel=connection.channel()).declare()
        try:
            kombu.Queue(
                name, auto_delete=True, max_length=3, channel=connection.channel()
            ).declare()
        except broken.PreconditionFailed as error:
            connection.default_channel.queue_delete(name)
            return {"code": error.reply_code, "alive": True}
        return {"code": None}


def bad_credentials():
    try:
        connect(password="wrong").connect()
    except broken.AccessRefused as error:
        return {"refused": True, "code": error.reply_code}
    return {"refused": False}


def unknown_vhost():
    try:
        connect(vhost="/no-such-host").connect()
    except broken.NotAllowed as error:
        return {"refused": True, "code": error.reply_code}
    return {"refused": False}


def silence():
    """Draining an idle connection times out and hurts nobody."""
    with connect() as connection:
        connection.connect()
        try:
            connection.drain_events(timeout=0.2)
            quiet = False
        except TimeoutError:
            quiet = True
        connection.default_channel.queue_declare(exclusive=True)
        return {"quiet": quiet}


CHECKS = (
    order, simple, requeue, missing_queue, inequivalent, bad_credentials, unknown_vhost, silence
)  # fmt: skip
harness.main(*CHECKS)

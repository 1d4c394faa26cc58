"""pika's SelectConnection: callbacks, confirms, heartbeats, a consumer, and a channel error."""

import pika
from pika.exceptions import ChannelClosedByBroker

from tests.interop.clients import harness

HOST, PORT = harness.address()


class Session:
    """Declare, confirm and consume MANY messages; idle over heartbeats; then ask for trouble."""

    def __init__(self):
        self.name = harness.unique("select")
        self.seen, self.confirmed, self.code, self.reason = [], 0, None, None
        parameters = pika.ConnectionParameters(HOST, PORT, heartbeat=1, connection_attempts=1)
        self.connection = pika.SelectConnection(
            parameters,
            on_open_callback=lambda c: c.channel(on_open_callback=self.opened),
            on_open_error_callback=self.failed,
            on_close_callback=self.closed,
        )
        self.connection.ioloop.call_later(30, self.connection.ioloop.stop)
        self.connection.ioloop.start()

    def failed(self, connection, error):
        self.reason = repr(error)
        connection.ioloop.stop()

    def closed(self, connection, reason):
        self.reason = getattr(reason, "reply_code", repr(reason))
        connection.ioloop.stop()

    def opened(self, channel):
        self.channel = channel
        channel.queue_declare(self.name, callback=self.declared)

    def declared(self, _):
        self.channel.confirm_delivery(self.confirm, callback=self.publish)

    def publish(self, _):
        self.channel.basic_consume(self.name, self.delivered)
        for number in range(harness.MANY):
            self.channel.basic_publish("", self.name, str(number).encode())

    def confirm(self, frame):
        if frame.method.NAME == "Basic.Ack":
            before = self.confirmed
            self.confirmed = frame.method.delivery_tag if frame.method.multiple else before + 1

    def delivered(self, channel, method, _properties, body):
        self.seen.append(body.decode())
        channel.basic_ack(method.delivery_tag)
        if len(self.seen) == harness.MANY:
            self.connection.ioloop.call_later(3.5, self.trouble)

    def trouble(self):
        self.channel.add_on_close_callback(self.channel_closed)
        self.channel.queue_declare(harness.unique("none"), passive=True)

    def channel_closed(self, _channel, reason):
        self.code = reason.reply_code if isinstance(reason, ChannelClosedByBroker) else None
        self.connection.channel(on_open_callback=self.tidy)

    def tidy(self, channel):
        channel.queue_delete(self.name, callback=lambda _: self.connection.close())


def session():
    ran = Session()
    return {
        **harness.in_order(ran.seen),
        "confirmed": ran.confirmed,
        "code": ran.code,
        "closed": ran.reason,
    }


harness.main(session)

"""An unmodified RabbitMQ client: declare, publish with confirms, consume, acknowledge.

.venv/bin/pip install pika
.venv/bin/python examples/publish_and_consume.py [PORT]
"""

import sys

import pika

port = int(sys.argv[1]) if len(sys.argv) > 1 else 5672
connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port))
channel = connection.channel()
channel.queue_declare("orders", durable=True)
channel.confirm_delivery()

for number in range(3):
    channel.basic_publish(
        exchange="",
        routing_key="orders",
        body=f'{{"order": {number}}}'.encode(),
        properties=pika.BasicProperties(content_type="application/json", delivery_mode=2),
        mandatory=True,
    )
    print("confirmed", number)

for method, properties, body in channel.consume("orders", inactivity_timeout=5):
    if method is None:
        sys.exit("nothing arrived")
    print("received", body.decode(), properties.content_type)
    channel.basic_ack(method.delivery_tag)
    if body == b'{"order": 2}':
        break

connection.close()

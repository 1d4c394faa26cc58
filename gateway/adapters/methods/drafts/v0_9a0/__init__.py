"""0-9a0 in terms of operations: destinations, subscriptions, and three classes of content.

A queue is a queue. A topic is a key of ``amq.topic`` and needs no defining; a subscription is a
queue ``subscription:name`` bound there, as the durable subscriptions of other versions are. The
service type "fuzzy" asks for the queue first. Publishing to a queue that is not there, or with
"immediate" without consumers, costs the channel: there is no way to give a message back.
"""

from gateway.adapters.methods.drafts.mapping import MethodMapping
from gateway.adapters.methods.drafts.v0_9a0 import client, messages, server
from gateway.adapters.methods.wire import layouts_0_9a0

MAPPING = MethodMapping(
    layouts=layouts_0_9a0,
    request_handlers=server.REQUEST_HANDLERS,
    reply_encoders=server.REPLY_ENCODERS,
    request_encoders=client.REQUEST_ENCODERS,
    reply_readers=client.REPLY_READERS,
    content_handlers=messages.CONTENT_HANDLERS,
    published_message=messages.published_message,
    delivery_source=messages.delivery_source,
    delivery_method=messages.delivery_method,
    publish_method=messages.publish_method,
    returned=messages.returned,
    fallback=messages.fallback,
    unsolicited=client.unsolicited,
)

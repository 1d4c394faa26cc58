"""0-9a6 in terms of operations: exchanges, queues, and four classes of content.

Its exchanges ``queue`` and ``topic``, which clients declare before anything else, are
``amq.direct`` and ``amq.topic`` here; a publish without a binding in ``queue`` goes to the queue
with the name of its destination, so that queues are shared with clients that publish to them by
name. A
queue in a namespace ("domain") is called ``namespace:queue``. The key of a message is its
destination.
"""

from gateway.adapters.methods.drafts.mapping import MethodMapping
from gateway.adapters.methods.drafts.v0_9a6 import client, messages, server
from gateway.adapters.methods.wire import layouts_0_9a6

MAPPING = MethodMapping(
    layouts=layouts_0_9a6,
    request_handlers=server.REQUEST_HANDLERS,
    reply_encoders=server.REPLY_ENCODERS,
    request_encoders=client.REQUEST_ENCODERS,
    reply_readers=client.REPLY_READERS,
    content_handlers=messages.CONTENT_HANDLERS,
    published_message=messages.message_of,
    delivery_source=messages.delivery_source,
    delivery_method=messages.delivery_method,
    publish_method=messages.publish_method,
    returned=messages.returned,
    fallback=messages.fallback,
    unsolicited=client.unsolicited,
)

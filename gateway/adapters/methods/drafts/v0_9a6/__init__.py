"""0-9a6 in terms of operations: exchanges, queues, and four classes of content.

Its exchanges ``queue`` and ``topic``, which clients declare before anything else, are
``amq.direct`` and ``amq.topic`` here; a publish without a binding in ``queue`` goes to the queue
with the name of its destination, so that queues are shared with clients that publish to them by
name. A
queue in a namespace ("domain") is called ``namespace:queue``. The key of a message is its
destination.
"""

from gateway.adapters.methods.drafts.mapping import MethodMapping
from gateway.adapters.methods.drafts.v0_9a6.client import (
    REPLY_READERS,
    REQUEST_ENCODERS,
    unsolicited,
)
from gateway.adapters.methods.drafts.v0_9a6.messages import (
    CONTENT_HANDLERS,
    delivery_method,
    delivery_source,
    fallback,
    publish_method,
    returned,
)
from gateway.adapters.methods.drafts.v0_9a6.server import REPLY_ENCODERS, REQUEST_HANDLERS
from gateway.adapters.methods.wire import layouts_0_9a6

MAPPING = MethodMapping(
    layouts_0_9a6,
    REQUEST_HANDLERS,
    REPLY_ENCODERS,
    REQUEST_ENCODERS,
    REPLY_READERS,
    CONTENT_HANDLERS,
    delivery_source,
    delivery_method,
    publish_method,
    returned,
    fallback,
    unsolicited,
)

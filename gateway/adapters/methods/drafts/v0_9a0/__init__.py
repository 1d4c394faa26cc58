"""0-9a0 in terms of operations: destinations, subscriptions, and three classes of content.

A queue is a queue. A topic is a key of ``amq.topic`` and needs no defining; a subscription is a
queue ``subscription:name`` bound there, as the durable subscriptions of other versions are. The
service type "fuzzy" asks for the queue first. Publishing to a queue that is not there, or with
"immediate" without consumers, costs the channel: there is no way to give a message back.
"""

from gateway.adapters.methods.drafts.mapping import MethodMapping
from gateway.adapters.methods.drafts.v0_9a0.client import (
    REPLY_READERS,
    REQUEST_ENCODERS,
    unsolicited,
)
from gateway.adapters.methods.drafts.v0_9a0.messages import (
    CONTENT_HANDLERS,
    delivery_method,
    delivery_source,
    fallback,
    publish_method,
    returned,
)
from gateway.adapters.methods.drafts.v0_9a0.server import REPLY_ENCODERS, REQUEST_HANDLERS
from gateway.adapters.methods.wire import layouts_0_9a0

MAPPING = MethodMapping(
    layouts_0_9a0,
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

"""0-9a0 in terms of operations: destinations, subscriptions, and three classes of content.

A queue is a queue. A topic is a key of ``amq.topic`` and needs no defining; a subscription is a
queue ``subscription:name`` bound there, as the durable subscriptions of other versions are. The
service type "fuzzy" asks for the queue first. Publishing to a queue that is not there, or with
"immediate" to nobody, costs the channel: there is no way to give a message back.
"""

from gateway.adapters.v0_9.drafts.first.asking import ASK, RESULT, settle, told
from gateway.adapters.v0_9.drafts.first.messages import (
    ARRIVE,
    delivery,
    publication,
    returned,
    second_step,
    source,
)
from gateway.adapters.v0_9.drafts.first.serving import ANSWER, SERVE
from gateway.adapters.v0_9.drafts.words import Words
from gateway.adapters.v0_9.wire import layouts_0_9a0

WORDS = Words(
    layouts_0_9a0,
    SERVE,
    ANSWER,
    ASK,
    RESULT,
    ARRIVE,
    source,
    delivery,
    publication,
    returned,
    second_step,
    settle,
    told,
)

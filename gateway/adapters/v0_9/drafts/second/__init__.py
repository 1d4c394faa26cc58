"""0-9a6 in terms of operations: exchanges, queues, and four classes of content.

Its exchanges ``queue`` and ``topic``, which clients declare before anything else, are
``amq.direct`` and ``amq.topic`` here; what finds no binding in ``queue`` goes to the queue that is
called like its destination, so that queues are shared with those who publish to them by name. A
queue in a namespace ("domain") is called ``namespace:queue``. The key of a message is its
destination.
"""

from gateway.adapters.v0_9.drafts.second.asking import ASK, RESULT, settle, told
from gateway.adapters.v0_9.drafts.second.messages import (
    ARRIVE,
    delivery,
    publication,
    returned,
    second_step,
    source,
)
from gateway.adapters.v0_9.drafts.second.serving import ANSWER, SERVE
from gateway.adapters.v0_9.drafts.words import Words
from gateway.adapters.v0_9.wire import layouts_0_9a6

WORDS = Words(
    layouts_0_9a6,
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

"""Names and numbers of 0-9a0, and the broker's names for them."""

QUEUE, TOPIC, FUZZY = 1, 2, 3
AUTOMATIC, STANDARD, DISTRIBUTED = 1, 2, 3
SIMPLE, TPATH, REGEXP = 1, 2, 3
TOPICS = "amq.topic"
SUBSCRIPTION = "subscription:"
RIGHTS = ("query", "publish", "consume", "subscribe", "dynamic", "purge")
GROUPS = ("jms", "file", "stream")

OWNER = "x-amqp09-owner"
"""Argument of a queue: the client identifier whose private queue or subscription it is,"""
OWNING_USER = "x-amqp09-owner-user"
"""and the user with that identifier."""

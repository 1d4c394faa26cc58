"""AMQP 0-8, 0-9 and 0-9-1: classes and methods."""

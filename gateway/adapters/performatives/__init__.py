"""AMQP 1.0: performatives, typed values, message sections."""

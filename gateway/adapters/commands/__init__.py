"""AMQP 0.8a2: command frames."""

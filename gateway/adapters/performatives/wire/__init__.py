"""Generated records, layouts and tables of AMQP 1.0."""

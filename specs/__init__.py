"""Our transcriptions of the AMQP specifications and the generator that turns them into Python."""

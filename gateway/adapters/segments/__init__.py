"""The segment family: AMQP 0-10 as published in 2008."""

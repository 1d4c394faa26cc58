"""Ratios against pamqp, RabbitMQ and bare uvicorn, measured in one run: `python -m benchmarks`."""

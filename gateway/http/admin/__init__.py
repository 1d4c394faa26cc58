"""Administration: topology, users, definitions, RabbitMQ's own paths, descriptions."""

"""Commands of the migration between brokers."""

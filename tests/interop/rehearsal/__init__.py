"""A virtual host with twenty queues, and clients of many versions that use it without a pause."""

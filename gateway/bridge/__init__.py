"""The gateway as a client of other brokers: upstreams, and shovels between them and the core."""

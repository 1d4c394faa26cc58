"""HTTP and server-sent events: one more door of the embedded broker."""

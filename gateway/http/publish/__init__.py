"""Publishing over HTTP: from a request to a confirmed message."""

"""What one sees of requests from outside: traces, logs, meters, and whether publishing works."""

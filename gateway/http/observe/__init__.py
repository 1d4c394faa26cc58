"""Observability of HTTP: traces, logs, meters, and the publish check behind readiness."""

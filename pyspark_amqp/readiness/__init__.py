"""Migration readiness: what the job ``report`` counts, weighed for a target, and shown."""

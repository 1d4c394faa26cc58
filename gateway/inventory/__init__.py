"""The inventory of an old broker: a transparent proxy in front of it, what its clients use, and
what each of that needs on 1.0."""

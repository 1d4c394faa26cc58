"""The JavaScript client of event streams, as a page imports it."""

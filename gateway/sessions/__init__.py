"""Where operations meet the broker."""
